"""Videos in an index: segments, changes, moves, copies, broken files, missing PyAV."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from encoders import ColourEncoder, picture
from moving import write_holiday, write_video
from typer.testing import CliRunner

from avow.cli import app
from avow.core import formats
from avow.core.errors import BadData
from avow.core.moments import Moment, clock, seconds_of
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.store.indexed_folders import frame_rate
from avow.retrieval.store.inspection import inspect_index
from avow.retrieval.store.report import Progress
from avow.retrieval.store.video_reading import FRAMES_AT_ONCE

pytest.importorskip("av")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a video of three scenes and two pictures."""
    return write_holiday(tmp_path / "files", "yellow", "white")


def run(folder: Path, encoder: ColourEncoder | None = None, **more):
    chosen = encoder or ColourEncoder()
    return index_folders([folder], index=folder.parent / "index", encoder=chosen, **more)


def moments(folder: Path) -> dict[str, list[Moment]]:
    """The moments of every video of the index, by the name of its file."""
    found: dict[str, list[Moment]] = {}
    with Library.open(folder.parent / "index") as library:
        for item in library.items(library.find(None, "image")):
            moment = Moment.parse(item.part)
            assert (moment is not None) == (item.kind == "video")
            if moment is not None:
                found.setdefault(Path(item.path).name, []).append(moment)
    return {name: sorted(listed, key=lambda one: one.start) for name, listed in found.items()}


def test_a_video_becomes_segments_that_cover_it_without_gaps(place: Path):
    report = run(place)
    assert (report.new, report.skipped) == (3, [])
    parts = moments(place)["holiday.mp4"]
    assert parts[0].start == pytest.approx(0, abs=0.1)
    assert parts[-1].end == pytest.approx(13, abs=0.2)
    for before, after in pairwise(parts):
        assert before.end == pytest.approx(after.start, abs=1e-3)
    for part in parts:
        assert part.start <= part.key <= part.end
        assert part.duration == pytest.approx(13, abs=0.2)


@pytest.mark.parametrize(
    "colour, start, end", [("red", 0, 4), ("green", 4, 9), ("blue", 9, 13)]
)
def test_the_nearest_segment_to_a_colour_lies_in_its_scene(place, colour, start, end):
    run(place)
    encoder = ColourEncoder()
    with Library.open(place.parent / "index", encoder) as library:
        ids, _ = library.search(encoder.encode_texts([colour]), 1)
        item = library.items(ids[0])[0]
    moment = Moment.parse(item.part)
    assert moment is not None and (item.width, item.height) == (64, 48)
    assert start - 0.2 <= moment.key <= end + 0.2


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.mov", "a.m4v", "a.avi", "a.webm"])
def test_every_container_is_indexed(tmp_path: Path, name: str):
    folder = tmp_path / "files"
    folder.mkdir()
    write_video(folder / name, [("red", 2), ("blue", 2)])
    assert run(folder).new == 1
    assert moments(folder)[name][-1].end == pytest.approx(4, abs=0.3)


def test_a_second_run_reads_nothing(place: Path):
    run(place)
    encoder = ColourEncoder()
    report = run(place, encoder)
    assert (report.new, report.changed, report.unchanged) == (0, 0, 3)
    assert encoder.photographs == 0


def test_more_frames_a_second_look_at_more_frames(place: Path):
    once, twice = ColourEncoder(), ColourEncoder()
    run(place, once)
    run(place, twice, rebuild=True, fps=2.0)
    assert 13 + 2 <= once.photographs <= 20
    assert 26 + 2 <= twice.photographs <= 33
    assert moments(place)["holiday.mp4"][-1].end == pytest.approx(13, abs=0.2)
    assert inspect_index(place.parent / "index") == []


def test_the_index_remembers_the_frames_a_second(place: Path):
    index, twice, again = place.parent / "index", ColourEncoder(), ColourEncoder()
    run(place, twice, fps=2.0)
    write_video(place / "later.mp4", [("black", 5)])
    report = run(place, again)
    assert (report.new, report.unchanged, report.frame_rate) == (1, 3, "")
    assert 26 + 2 <= twice.photographs <= 33 and 10 <= again.photographs <= 11
    assert frame_rate(index) == 2.0
    assert run(place, fps=2.0).frame_rate == ""
    assert inspect_index(index) == []


def test_another_rate_is_told_and_reads_all_videos_again(place: Path):
    write_video(place / "still.mp4", [("green", 4)])
    run(place)
    before = moments(place)
    encoder = ColourEncoder()
    report = run(place, encoder, fps=2.0)
    assert report.frame_rate == (
        "Videos are now looked at 2 times a second instead of once: "
        "all 2 videos are read again."
    )
    assert (report.new, report.changed, report.unchanged) == (2, 0, 2)
    assert 34 <= encoder.photographs <= 37
    assert moments(place).keys() == before.keys()
    with Library.open(place.parent / "index") as library:
        assert len(library) == len(library.find(None, "image")) == len(set(library.find()))
    assert run(place).unchanged == 4 and inspect_index(place.parent / "index") == []


def test_a_run_that_is_cut_off_reads_the_other_videos_again_next_time(place: Path):
    write_video(place / "a.mp4", [("green", 4)])
    run(place)
    stopped = ColourEncoder()
    report = run(place, stopped, fps=2.0, stop=lambda: stopped.photographs > 0)
    assert report.stopped and report.frame_rate
    assert inspect_index(place.parent / "index") == [] and len(moments(place)) == 2
    rest = ColourEncoder()
    run(place, rest)
    assert stopped.photographs + rest.photographs >= 26 + 8
    assert run(place).unchanged == 4


def test_the_command_tells_of_another_rate(place: Path):
    words = ["index", str(place), "--index", str(place.parent / "index"), "--model"]
    words += ["plugged.colours", "--transfer", "0"]
    assert CliRunner().invoke(app, words).exit_code == 0
    told = CliRunner().invoke(app, [*words, "--fps", "2"])
    assert "instead of once: the video is read again." in told.stderr, told.output
    assert "read again" not in CliRunner().invoke(app, words).stderr


def test_a_long_video_says_how_far_it_is(place: Path):
    write_video(place / "long.mp4", [("red", 40), ("blue", 40)])
    told: list[Progress] = []
    run(place, progress=told.append)
    shares = [one.share for one in told if one.video == "long.mp4"]
    assert len(shares) >= 3 and shares == sorted(shares) and shares[0] < 0.5 < shares[-1] <= 1
    first = next(one for one in told if one.video == "long.mp4")
    assert first.in_words() == f"Reading long.mp4, {100 * shares[0]:.0f} %."
    assert told[-1].in_words() == ""


def test_wrong_frames_a_second_are_refused(place: Path):
    with pytest.raises(BadData) as caught:
        run(place, fps=0.0)
    assert str(caught.value) == (
        "The frames a second are 0.0. Expected 0.01 to 30; 1 is usual."
    )


def test_a_changed_video_gives_new_segments(place: Path):
    run(place)
    before = moments(place)["holiday.mp4"]
    write_video(place / "holiday.mp4", [("black", 6)])
    report = run(place)
    assert report.changed == 1
    after = moments(place)["holiday.mp4"]
    assert after[-1].end == pytest.approx(6, abs=0.2) and after != before


def test_a_deleted_video_takes_all_its_segments_along(place: Path):
    run(place)
    (place / "holiday.mp4").unlink()
    assert run(place).deleted == 1
    assert moments(place) == {}


def test_a_moved_video_keeps_its_items_and_is_not_decoded(place: Path):
    run(place)
    with Library.open(place.parent / "index") as library:
        numbers = library.find(None, "image")
    (place / "holiday.mp4").rename(place / "summer.mp4")
    encoder = ColourEncoder()
    report = run(place, encoder)
    assert (report.moved, encoder.photographs) == (1, 0)
    with Library.open(place.parent / "index") as library:
        assert np.array_equal(library.find(None, "image"), numbers)
    assert list(moments(place)) == ["summer.mp4"]


def test_a_copied_video_is_not_decoded_again(place: Path):
    run(place)
    shutil.copy(place / "holiday.mp4", place / "copy.mp4")
    encoder = ColourEncoder()
    assert run(place, encoder).new == 1
    assert encoder.photographs == 0
    both = moments(place)
    assert both["copy.mp4"] == both["holiday.mp4"]


def test_near_duplicates_are_grouped_over_videos(place: Path):
    shutil.copy(place / "holiday.mp4", place / "copy.mp4")
    run(place, dedupe=True)
    count = len(moments(place)["copy.mp4"])
    with Library.open(place.parent / "index") as library:
        items = library.items(library.find(None, "image"))
    alike = [item for item in items if item.kind == "video" and item.same_as is not None]
    assert len(alike) >= count


@pytest.mark.parametrize(
    "content, why",
    [(b"", "empty: zero bytes"), (b"no video at all" * 50, ""), (None, "")],
)
def test_a_broken_video_is_listed_and_the_others_are_read(place, content, why):
    if content is None:  # a header without the pictures that it promises
        content = (place / "holiday.mp4").read_bytes()[:60]
    (place / "broken.mp4").write_bytes(content)
    report = run(place)
    assert report.new == 3
    [(path, reason)] = report.skipped
    assert Path(path).name == "broken.mp4" and why in reason and reason
    assert run(place).skipped == report.skipped


def test_a_video_that_changes_while_it_is_read_is_read_next_time(place: Path):
    class Meanwhile(ColourEncoder):
        def encode_prepared(self, pixels):
            os.utime(place / "holiday.mp4", (1e9, 1e9))
            return super().encode_prepared(pixels)

    report = run(place, Meanwhile())
    [(path, reason)] = report.skipped
    assert (Path(path).name, reason) == ("holiday.mp4", "changed while it was being read")
    assert report.new == 2 and run(place).new == 1
    assert list(moments(place)) == ["holiday.mp4"]


def test_a_recording_of_whole_batches_whose_length_is_not_told(tmp_path: Path):
    """Two batches of frames and nothing left over, with a header as a live stream has it."""
    import av

    folder, told = tmp_path / "files", list[Progress]()
    folder.mkdir()
    with av.open(str(folder / "live.mkv"), "w", options={"live": "1"}) as container:
        stream = container.add_stream("mpeg4", rate=1)
        stream.width, stream.height = 64, 48
        for number in range(2 * FRAMES_AT_ONCE):
            frame = av.VideoFrame.from_image(picture("red", (64, 48)))
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    encoder = ColourEncoder()
    assert run(folder, encoder, progress=told.append).new == 1
    assert encoder.photographs == 2 * FRAMES_AT_ONCE
    assert {one.share for one in told if one.video} == {None}
    assert moments(folder)["live.mkv"][-1].end == pytest.approx(2 * FRAMES_AT_ONCE, abs=1.1)


def test_without_pyav_pictures_are_indexed_and_one_sentence_tells(place, monkeypatch):
    write_video(place / "second.webm", [("red", 1)])
    monkeypatch.setattr(formats.importlib.util, "find_spec", _no_av)
    report = run(place)
    assert report.new == 2
    assert report.unreadable == []
    assert report.videos_left_out == (
        "2 videos were left out: reading videos needs PyAV. Install it with "
        "pip install 'avow[video]' and run the same command again."
    )
    monkeypatch.undo()
    report = run(place)
    assert (report.new, report.videos_left_out) == (2, "")


def test_the_command_says_once_what_was_left_out(place, monkeypatch):
    write_video(place / "second.webm", [("red", 1)])
    monkeypatch.setattr(formats.importlib.util, "find_spec", _no_av)
    words = ["index", str(place), "--index", str(place.parent / "index"), "--transfer", "0"]
    done = CliRunner().invoke(app, [*words, "--model", "plugged.colours"])
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines() == [
        "2 videos were left out: reading videos needs PyAV. Install it with "
        "pip install 'avow[video]' and run the same command again."
    ]
    assert done.stdout.startswith("2 new, 2 skipped in ")


def test_without_pyav_videos_that_are_indexed_stay(place, monkeypatch):
    run(place)
    before = moments(place)
    monkeypatch.setattr(formats.importlib.util, "find_spec", _no_av)
    run(place)
    assert moments(place) == before


def _no_av(name, *rest, found=formats.importlib.util.find_spec):
    return None if name == "av" else found(name, *rest)


def test_a_stop_inside_a_video_keeps_the_files_before_it(place: Path):
    asked = iter(range(10_000))
    report = run(place, stop=lambda: next(asked) >= 1)
    assert report.stopped
    report = run(place)
    assert not report.stopped and len(moments(place)["holiday.mp4"]) >= 3
    assert inspect_index(place.parent / "index") == []


def test_an_animated_gif_is_one_picture(tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    first, *rest = [picture(name) for name in ("red", "green", "blue")]
    first.save(folder / "moving.gif", save_all=True, append_images=rest, duration=500)
    assert run(folder).new == 1
    with Library.open(folder.parent / "index") as library:
        [item] = library.items(library.find(None, "image"))
    assert (item.kind, item.part) == ("image", "")


def test_moments_are_written_and_read():
    moment = Moment(72.0, 80.25, 75.5, 4000.0)
    assert Moment.parse(moment.part) == moment
    assert str(moment) == "1:12\N{EN DASH}1:20"
    assert str(Moment(3600.0, 3661.0, 3600.0, 4000.0)) == "1:00:00\N{EN DASH}1:01:01"
    assert Moment.parse("7") is None and Moment.parse("") is None
    assert clock(59.9) == "0:59"


@pytest.mark.parametrize(
    "text, seconds",
    [
        *(("90", 90), ("90s", 90), ("1.5min", 90), ("2h", 7200), ("1:30", 90)),
        *(("1:02:03", 3723), ("1:75", None), ("1:60:00", None), ("long", None), ("", None)),
    ],
)
def test_lengths_of_time_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.slow
@pytest.mark.long  # test_torture.py kills a writer before every change that it makes
def test_kills_while_videos_are_indexed_lose_and_double_nothing(tmp_path: Path):
    """The real command, killed once; the benchmark does it fifty times."""
    from benchmarks.quality.index_kills import killed, unharmed  # with torch

    kills = 2 if os.environ.get("AVOW_LONG_TESTS") else 1
    assert killed(tmp_path, kills=kills, files=16, videos=8) == unharmed(kills, 16)
