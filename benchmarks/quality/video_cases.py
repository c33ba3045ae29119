"""Every difficult kind of video by name, and whether the tests of it pass.

    python -m benchmarks.quality.video_cases

Runs the tests that make such files and read them, and writes for every case how many tests it
has and how many of them pass. Prints the cases that fail, and their share.
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

from benchmarks._report import keep

ROOT = Path(__file__).parents[2]
_TESTS = "tests/test_{}.py"
DECODING, SHOTS = _TESTS.format("video_decoding"), _TESTS.format("shots")
INDEX, SERVER = _TESTS.format("video_index"), _TESTS.format("video_server")
CASES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("a frame rate that varies", "times are those of the frames", DECODING,
     ("test_variable_rate",)),
    ("turned or mirrored by a flag", "upright", DECODING,
     ("test_rotation", "test_rotation_beside_data_that_pyav_does_not_know")),
    ("the first frame comes late", "times of the file, and its true length", DECODING,
     ("test_late_start",)),
    ("damaged bytes", "the rest is read", DECODING,
     ("test_damaged_bytes", "test_damage_writes_nothing_to_the_terminal")),
    ("bytes changed anywhere", "read, or refused with a sentence", DECODING,
     ("test_changed_bytes_anywhere_raise_only_errors_of_our_own",)),
    ("truncated MKV, AVI", "read up to there", DECODING,
     ("test_truncated_where_the_container_can_be_read_from_its_start",)),
    ("truncated MP4", "refused with a sentence", DECODING, ("test_truncated_mp4",)),
    ("empty, or missing", "refused with a sentence", DECODING, ("test_empty", "test_missing")),
    ("a text with the name of a video", "refused with a sentence", DECODING,
     ("test_text_file",)),
    ("a folder or a pipe with such a name", "refused with a sentence", DECODING,
     ("test_a_folder_and_a_pipe_are_no_videos",)),
    ("sound alone, or with a cover", "refused with a sentence", DECODING,
     ("test_audio_only", "test_cover_art")),
    ("H.264, HEVC, VP9, AV1 and MPEG-4 in their containers", "one frame a second", DECODING,
     ("test_one_frame_a_second_of_every_container_and_codec",)),
    ("10 bits a colour", "read", DECODING, ("test_10_bit",)),
    ("transparency", "shown on white", DECODING,
     ("test_alpha_is_shown_on_white", "test_transparent_gif_is_shown_on_white")),
    ("pixels that are not square", "shown in their true shape", DECODING,
     ("test_square_pixels",)),
    ("odd and very small frames", "read", DECODING, ("test_odd_and_very_small_sizes",)),
    ("a single frame", "one moment", DECODING, ("test_zero_duration",)),
    ("animated GIF and WebP, truncated too", "decoded by Pillow", DECODING,
     ("test_animated_pictures", "test_truncated_gif_ends_early")),
    ("keyframes at a fixed distance, or far apart", "the same frames", DECODING,
     ("test_frames_between_keyframes_are_not_decoded_where_no_step_needs_them",)),
    ("titles in a strange encoding", "read", DECODING, ("test_titles_in_a_strange_encoding",)),
    ("playlists that name other files", "refused, nothing is opened", DECODING,
     ("test_a_playlist_does_not_open_other_files",)),
    ("frames, lengths and streams beyond the limits", "refused with a sentence", DECODING,
     ("test_limits",)),
    ("PyAV is not installed", "one sentence; pictures are indexed", DECODING,
     ("test_without_pyav",)),
    ("black openings and gaps", "in no vector, no key frame", SHOTS,
     ("test_black_frames_are_in_no_vector_and_no_key_frame",
      "test_long_black_is_part_of_no_segment", "test_a_dark_video_still_has_a_segment")),
    ("blurred frames", "no key frame", SHOTS, ("test_a_blurred_frame_is_no_key_frame",)),
    ("keyframes where nothing changes", "features must confirm a border", SHOTS,
     ("test_a_jump_that_features_do_not_confirm_is_no_border",
      "test_keyframes_out_of_turn_make_a_border_cheaper")),
    ("fades", "a border in their middle", SHOTS,
     ("test_the_border_of_a_fade_is_its_middle",)),
    ("shots of more than half a minute", "divided", SHOTS, ("test_a_long_shot_is_divided",)),
    ("a broken video among others", "listed with its reason", INDEX,
     ("test_a_broken_video_is_listed_and_the_others_are_read",)),
    ("a kill while it is indexed", "nothing lost or doubled", INDEX,
     ("test_kills_while_videos_are_indexed_lose_and_double_nothing",)),
    ("a player that asks for ranges of bytes", "gets those", SERVER,
     ("test_the_file_comes_in_ranges",)),
)  # fmt: skip
"""Case, what Avow does, and the tests of it."""


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        named = [f"{file}::{test}" for _, _, file, tests in CASES for test in tests]
        words = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([sys.executable, "-m", "pytest", *words, *named], cwd=ROOT, check=False)
        passed, failed = outcomes(report)
    rows = [
        {
            "case": case,
            "does": does,
            "tests": sum(passed[test] + failed[test] for test in tests),
            "failed": sum(failed[test] for test in tests),
        }
        for case, does, _, tests in CASES
    ]
    wrong = [row["case"] for row in rows if row["failed"] or not row["tests"]]
    print(f"{len(wrong)} of {len(rows)} cases fail: {wrong}")
    print(f"-> {keep('video_cases', {'cases': rows})}")


def outcomes(report: Path) -> tuple[Counter[str], Counter[str]]:
    """How often every test passed and failed, by the name of its function."""
    passed, failed = Counter[str](), Counter[str]()
    for case in xml.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        bad = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        (failed if bad else passed)[name] += 1
    return passed, failed


if __name__ == "__main__":
    main()
