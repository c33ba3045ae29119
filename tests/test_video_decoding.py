"""Videos as they come: late, turned, uneven, damaged, strange; every case by name."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tiny_videos import RATE, add_sound, av, corner, grey, level, shown, write, write_with_sound

from avow.core import clips, video_files, video_pixels, videos
from avow.core.errors import AvowError, BadQuery, MissingExtra, UnreadableVideo

EXPECTED = "Expected an MP4, MOV, MKV, WebM or AVI file with pictures; check the file."
SECONDS = 6
TIMES = tuple(np.arange(SECONDS * RATE) / RATE)


def sampled(path: Path, every: float = 1.0, **more: object) -> list[videos.Frame]:
    return list(videos.frames(path, every, **more))  # type: ignore[arg-type]


def assert_every_second(frames: list[videos.Frame], first: float = 0.0, count: int = SECONDS):
    """One a second, each showing its own time, each ending where the next begins."""
    assert [frame.time for frame in frames] == pytest.approx(
        [first + number for number in range(count)], abs=0.25
    )
    for frame in frames:
        assert shown(frame.image) == pytest.approx(frame.time, abs=0.2)
    assert [frame.end for frame in frames[:-1]] == [frame.time for frame in frames[1:]]
    assert frames[-1].end > frames[-1].time


def refuses(path: Path, why: str) -> None:
    """Every function says the same sentence."""
    sentence = f"The video {str(path)!r} cannot be read: {why}. {EXPECTED}"
    for read in (
        videos.probe,
        videos.keyframe_times,
        sampled,
        lambda one: videos.frame_at(one, 0.0),
    ):
        with pytest.raises(UnreadableVideo, match=f"^{re.escape(sentence)}$") as caught:
            read(path)
        assert caught.value.why == why


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [
        ("libx264", ".mp4"),
        ("libx264", ".m4v"),
        ("libx264", ".mov"),
        ("libx264", ".mkv"),
        ("libx265", ".mkv"),
        ("libvpx-vp9", ".webm"),
        ("libsvtav1", ".mp4"),
        ("mpeg4", ".avi"),
    ],
)
def test_one_frame_a_second_of_every_container_and_codec(tmp_path: Path, codec, suffix):
    quiet = {"x265-params": "log-level=none"} if codec == "libx265" else {"g": "250"}
    path = write(tmp_path / f"a{suffix}", TIMES, codec, options=quiet)
    frames = videos.frames(path)
    assert_every_second(list(frames))
    assert frames.damaged == 0


def test_frames_between_keyframes_are_not_decoded_where_no_step_needs_them(tmp_path: Path):
    near = write(tmp_path / "near.mp4", TIMES, options={"g": "25", "sc_threshold": "0"})
    far = write(tmp_path / "far.mp4", TIMES, options={"g": "250", "sc_threshold": "0"})
    rare = write(tmp_path / "rare.mp4", TIMES, options={"g": "32", "sc_threshold": "0"})
    for path, alone in ((near, True), (far, False), (rare, False)):
        frames = videos.frames(path)
        taken = list(frames)
        assert_every_second(taken)
        assert frames.keyframes_only is alone
        assert all(frame.is_keyframe for frame in taken) is alone


def test_keyframe_times_come_from_packets(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES, options={"g": "50", "sc_threshold": "0"})
    assert videos.keyframe_times(path) == pytest.approx([0.0, 2.0, 4.0])


def test_a_step_shorter_than_a_second_loses_no_frame(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES)
    assert [frame.time for frame in sampled(path, 0.04)] == pytest.approx(TIMES, abs=0.002)
    with pytest.raises(
        BadQuery, match=r"^Frames every '0\.001' seconds cannot be read\. Expected"
    ):
        videos.frames(path, 0.001)


def test_a_part_begins_with_the_frame_that_is_shown_then(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES, options={"g": "50"})
    part = sampled(path, 0.5, start=2.11, end=3.5)
    assert [frame.time for frame in part] == pytest.approx([2.08, 2.64, 3.12], abs=0.05)
    assert [shown(frame.image) for frame in part] == pytest.approx([2.08, 2.64, 3.12], abs=0.15)


def test_late_start(tmp_path: Path):
    late = [3.5 + time for time in TIMES]
    path = write(tmp_path / "late.mkv", late)
    info = videos.probe(path)
    assert (info.first, info.duration) == (pytest.approx(3.5), pytest.approx(SECONDS, abs=0.1))
    assert_every_second(sampled(path), 3.5)
    assert shown(videos.frame_at(path, 0.0).image) == pytest.approx(3.5, abs=0.1)


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
def test_rotation(tmp_path: Path, degrees: int, mirrored: bool):
    """The picture is stored turned, with a flag that turns it back."""

    def turned(time: float, width: int, height: int) -> np.ndarray:
        size = (height, width) if degrees in (90, 270) else (width, height)
        pixels = corner(time, *size)
        pixels = pixels[:, ::-1] if mirrored else pixels
        return np.ascontiguousarray(np.rot90(pixels, -degrees // 90))

    size = (48, 64) if degrees in (90, 270) else (64, 48)

    def flag(stream) -> None:
        stream.set_display_rotation(degrees, hflip=mirrored)

    path = write(tmp_path / "a.mp4", TIMES[:5], size=size, paint=turned, prepare=flag)
    image = videos.frame_at(path, 0.0).image
    assert image.shape == (48, 64, 3)
    assert image[4, 4].argmax() == 0 and image[4, 4].min() < 60
    assert image[-4, -4].argmax() == 2 and image[-4, -4].min() < 60
    assert image[4, -4].min() > 200 and image[-4, 4].min() > 200
    info = videos.probe(path)
    assert (info.width, info.height) == (64, 48)
    assert info.rotation == -degrees % 360


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_rotation_beside_data_that_pyav_does_not_know(tmp_path: Path, degrees: int):
    """PyAV raises ValueError for all side data of a frame if it does not know one of them."""

    class Unknown:
        def get(self, key: str) -> None:
            raise ValueError("99 is not a valid Type")

    path = write(
        tmp_path / "a.mp4", TIMES[:5], prepare=lambda one: one.set_display_rotation(degrees)
    )
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    strange = SimpleNamespace(side_data=Unknown(), rotation=frame.rotation)
    assert video_pixels.orientation(strange) == video_pixels.orientation(frame)


def test_variable_rate(tmp_path: Path):
    """Ten frames a second, then one in three seconds: index / rate would be wrong."""
    times = [*np.arange(20) / 10, 2.0, 5.0, *(5.0 + np.arange(1, 40) / 20)]
    path = write(tmp_path / "a.mkv", times)
    frames = sampled(path)
    assert [frame.time for frame in frames] == pytest.approx([0, 1, 2, 5, 6], abs=0.06)
    assert [shown(frame.image) for frame in frames] == pytest.approx([0, 1, 2, 5, 6], abs=0.15)
    assert shown(videos.frame_at(path, 4.0).image) == pytest.approx(2.0, abs=0.15)


def test_square_pixels(tmp_path: Path):
    def wide(stream) -> None:
        stream.codec_context.sample_aspect_ratio = 2

    path = write(tmp_path / "a.mp4", TIMES[:5], prepare=wide)
    info = videos.probe(path)
    assert (info.width, info.height) == (128, 48)
    assert videos.frame_at(path, 0.0).image.shape == (48, 128, 3)


def test_damaged_bytes(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES, options={"g": "12"})
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for place in rng.integers(len(data) // 8, len(data) // 3, 200):
        data[place] = int(rng.integers(256))
    path.write_bytes(data)
    frames = videos.frames(path, 0.04)
    taken = list(frames)
    assert len(taken) > len(TIMES) // 2
    assert frames.damaged > 0


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [("libx264", ".mp4"), ("mpeg4", ".avi"), ("libx264", ".mkv"), ("libvpx-vp9", ".webm")],
)
def test_changed_bytes_anywhere_raise_only_errors_of_our_own(tmp_path: Path, codec, suffix):
    """The long form is `benchmarks/speed/video_decoding.py damage`."""
    path = write(tmp_path / f"a{suffix}", TIMES[:40], codec)
    data, rng, read = path.read_bytes(), np.random.default_rng(7), 0
    for number in range(10):
        changed = bytearray(data)
        for place in rng.integers(0, min(len(data), 10 ** (2 + number % 4)), 1 + number):
            changed[place] = int(rng.integers(256))
        path.write_bytes(changed)
        for look in (videos.probe, sampled, videos.keyframe_times):
            try:
                look(path)
                read += 1
            except AvowError as error:
                assert str(path) in str(error)
    assert 0 < read < 30


@pytest.mark.parametrize("suffix", [".mkv", ".avi"])
def test_truncated_where_the_container_can_be_read_from_its_start(tmp_path: Path, suffix: str):
    path = write(tmp_path / f"a{suffix}", TIMES, "mpeg4", options={"g": "12"})
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    assert 2 <= len(sampled(path)) < SECONDS


def test_truncated_mp4(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES)
    path.write_bytes(path.read_bytes()[:1000])
    refuses(path, "its data are damaged, incomplete, or not a video")


def test_empty(tmp_path: Path):
    path = tmp_path / "a.mp4"
    path.touch()
    refuses(path, "the file is empty")


def test_missing(tmp_path: Path):
    refuses(tmp_path / "a.mp4", "the file is missing")


def test_a_folder_and_a_pipe_are_no_videos(tmp_path: Path):
    (tmp_path / "folder.mp4").mkdir()
    os.mkfifo(tmp_path / "pipe.mp4")
    refuses(tmp_path / "folder.mp4", "it is not a file")
    refuses(tmp_path / "pipe.mp4", "it is not a file")


def test_text_file(tmp_path: Path):
    path = tmp_path / "a.mp4"
    path.write_text("This is not a video.\n" * 100)
    refuses(path, "its data are damaged, incomplete, or not a video")


def test_audio_only(tmp_path: Path):
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        add_sound(container)
    refuses(path, "it has sound or text but no moving pictures")


def test_cover_art(tmp_path: Path):
    """A picture that is attached to sound is not a video."""
    picture = tmp_path / "cover.png"
    Image.new("RGB", (32, 32), "red").save(picture)
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container, av.open(str(picture)) as source:
        cover = container.add_stream_from_template(source.streams.video[0])
        cover.disposition = av.stream.Disposition.attached_pic
        add_sound_to = container.add_stream("aac", rate=16000)
        add_sound_to.layout = "mono"
        packet = next(source.demux(video=0))
        packet.stream = cover
        container.mux(packet)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        silence.sample_rate = 16000
        container.mux(add_sound_to.encode(silence))
        container.mux(add_sound_to.encode())
    refuses(path, "it has sound or text but no moving pictures")


@pytest.mark.parametrize(("codec", "suffix"), [("libx265", ".mkv"), ("libx264", ".mp4")])
def test_10_bit(tmp_path: Path, codec: str, suffix: str):
    quiet = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    path = write(tmp_path / f"a{suffix}", TIMES, codec, pixels="yuv420p10le", options=quiet)
    frames = sampled(path)
    assert_every_second(frames)
    assert frames[1].change < 0.1


def test_alpha_is_shown_on_white(tmp_path: Path):
    def clear(time: float, width: int, height: int) -> np.ndarray:
        pixels = np.zeros((height, width, 4), np.uint8)
        pixels[: height // 2] = (255, 0, 0, 255)
        return pixels

    path = write(tmp_path / "a.mov", TIMES[:5], "prores_ks", paint=clear, pixels="yuva444p10le")
    image = videos.frame_at(path, 0.0).image
    assert image[4, 4].argmax() == 0 and image[4, 4].min() < 60
    assert image[-4, -4].min() > 240


@pytest.mark.parametrize("suffix", [".gif", ".webp"])
def test_animated_pictures(tmp_path: Path, suffix: str):
    """By Pillow: without PyAV too."""
    steps = np.arange(12) / 2
    images = [Image.fromarray(grey(time, 32, 24)) for time in steps]
    path = tmp_path / f"a{suffix}"
    lossless = {"lossless": True} if suffix == ".webp" else {}
    images[0].save(path, save_all=True, append_images=images[1:], duration=500, **lossless)
    assert videos.is_animated(path)
    info = videos.probe(path)
    assert (info.duration, info.width, info.height) == (pytest.approx(6.0), 32, 24)
    assert_every_second(sampled(path))
    assert shown(videos.frame_at(path, 3.2).image) == pytest.approx(3.0, abs=0.1)
    assert videos.keyframe_times(path) == [0.0]
    images[0].save(tmp_path / f"still{suffix}")
    assert not videos.is_animated(tmp_path / f"still{suffix}")


def test_transparent_gif_is_shown_on_white(tmp_path: Path):
    clear = [Image.new("RGBA", (8, 8), (255, 0, 0, 0)) for _ in range(2)]
    for number, image in enumerate(clear):
        image.putpixel((number, 0), (255, 0, 0, 255))
    path = tmp_path / "a.gif"
    clear[0].save(path, save_all=True, append_images=clear[1:], duration=100, disposal=2)
    assert videos.frame_at(path, 0.0).image[-1, -1].tolist() == [255, 255, 255]


def test_truncated_gif_ends_early(tmp_path: Path):
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 255, (64, 64), np.uint8)) for _ in range(6)]
    path = tmp_path / "a.gif"
    images[0].save(path, save_all=True, append_images=images[1:], duration=1000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert 1 <= len(sampled(path)) < 6


def test_zero_duration(tmp_path: Path):
    """A single frame is a video of one moment."""
    for suffix in (".mp4", ".mkv", ".webm"):
        codec = "libvpx-vp9" if suffix == ".webm" else "libx264"
        path = write(tmp_path / f"a{suffix}", [0.0], codec)
        (frame,) = sampled(path)
        assert frame.time == 0.0 < frame.end <= 1.1
        assert videos.frame_at(path, 5.0).time == 0.0


@pytest.mark.parametrize("size", [(65, 47), (1, 1), (2, 2), (3, 200), (16, 16)])
def test_odd_and_very_small_sizes(tmp_path: Path, size: tuple[int, int]):
    path = write(tmp_path / "a.mkv", TIMES, "ffv1", size, pixels="yuv444p", options={"g": "1"})
    frames = sampled(path)
    assert_every_second(frames)
    assert frames[0].image.shape == (size[1], size[0], 3)


def test_frames_are_no_larger_than_asked_for(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES[:30], size=(640, 360), paint=corner)
    (first, _) = sampled(path)
    assert first.image.shape == (288, 512, 3)
    small = videos.frame_at(path, 0.0, edge=100).image
    assert small.shape == (56, 100, 3)
    assert small[10, 10].argmax() == 0 and small[50, 90].argmax() == 2


def test_a_playlist_does_not_open_other_files(tmp_path: Path):
    secret = write(tmp_path / "secret.mp4", TIMES)
    lists = {
        "concat.mp4": f"ffconcat version 1.0\nfile {secret.name}\n",
        "hls.mp4": f"#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:6,\n{secret}\n#EXT-X-ENDLIST\n",
        "network.mkv": "#EXTM3U\n#EXTINF:6,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
    }
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UnreadableVideo):
            videos.probe(tmp_path / name)
    assert videos.probe(secret).codec == "h264"
    for name in ("concat:" + str(secret), "http://127.0.0.1:9/a.mp4"):
        with pytest.raises(UnreadableVideo, match="the file is missing"):
            videos.probe(Path(name))


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "a.mp4", TIMES)
    monkeypatch.setattr(video_files, "LARGEST_FRAME", 64 * 48 - 1)
    refuses(path, "its frames have 64 x 48 pixels; 3071 pixels at most")
    monkeypatch.undo()
    monkeypatch.setattr(video_files, "MOST_STREAMS", 0)
    refuses(path, "it has 1 streams; 0 at most")
    monkeypatch.undo()
    monkeypatch.setattr(video_files, "LONGEST", 5.0)
    refuses(path, "it lasts 0 hours; 0 at most")
    monkeypatch.undo()
    monkeypatch.setattr(video_files, "_CODECS", ["vp9"])
    refuses(path, "its pictures are coded as 'h264', which is not supported")


def test_titles_in_a_strange_encoding(tmp_path: Path):
    path = write(tmp_path / "a.avi", TIMES, "mpeg4", options={"g": "250"})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"Lavf", b"\xff\xfe\xfd\xfc"))
    assert_every_second(sampled(path))


def test_damage_writes_nothing_to_the_terminal(tmp_path: Path, capfd):
    path = write(tmp_path / "a.mkv", TIMES)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(500) + data[len(data) // 2 + 500 :])
    sampled(path)
    assert capfd.readouterr() == ("", "")


def test_without_pyav():
    """The sentence has the command that helps; animated pictures work all the same."""
    code = (
        "import sys; sys.modules['av'] = None\n"
        "from pathlib import Path\n"
        "from avow.core import videos\n"
        "try: videos.probe(Path('a.mp4'))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == (
        "MissingExtra Reading videos needs the package 'av', which is not installed. "
        "Install it with: pip install 'avow[video]'.\n"
    )
    assert issubclass(MissingExtra, AvowError)


def test_importing_videos_does_not_import_pyav():
    code = "import sys, avow.core.videos, avow.core.clips; print('av' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_a_cut_shows_when_it_happened(tmp_path: Path):
    def halves(time: float, width: int, height: int) -> np.ndarray:
        return np.full((height, width, 3), 40 if time < 2.5 else 200, np.uint8)

    path = write(tmp_path / "a.mp4", TIMES, paint=halves, options={"g": "250"})
    frames = sampled(path)
    largest = max(frames, key=lambda frame: frame.change)
    assert largest.change == pytest.approx(160 / 255, abs=0.1)
    assert largest.change_time == pytest.approx(2.5, abs=0.13)
    assert largest.motion < 0.02


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
def test_clips_are_copied_from_the_keyframe_before(tmp_path: Path, suffix: str):
    path = write_with_sound(tmp_path / "a.mp4", 6.0)
    clip = clips.cut(path, 2.4, 3.9, tmp_path / f"clip{suffix}")
    assert clip.start == pytest.approx(2.0, abs=0.01)
    assert clip.end == pytest.approx(3.9, abs=0.2)
    info = videos.probe(clip.path)
    assert info.audio and info.first == pytest.approx(0.0, abs=0.05)
    assert info.duration == pytest.approx(clip.end - clip.start, abs=0.15)
    for frame in sampled(clip.path, 0.5):
        assert shown(frame.image) == pytest.approx(frame.time + clip.start, abs=0.15)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.mp4", f"clip{suffix}"]


def test_a_clip_keeps_its_rotation(tmp_path: Path):
    path = write(
        tmp_path / "a.mp4",
        TIMES,
        paint=corner,
        prepare=lambda one: one.set_display_rotation(90),
    )
    clip = clips.cut(path, 1.0, 2.0, tmp_path / "clip.mp4")
    assert videos.probe(clip.path).rotation == videos.probe(path).rotation == 270


def test_clips_that_cannot_be(tmp_path: Path):
    path = write(tmp_path / "a.mp4", TIMES)
    with pytest.raises(
        BadQuery, match=r"^The clip 'b\.txt' has no known container\. Expected a"
    ):
        clips.cut(path, 0.0, 1.0, Path("b.txt"))
    with pytest.raises(BadQuery, match=r"^There is no clip from '2' to '1' seconds\. Expected"):
        clips.cut(path, 2.0, 1.0, tmp_path / "b.mp4")
    with pytest.raises(
        BadQuery, match=r"would replace its own video\. Expected another name\.$"
    ):
        clips.cut(path, 0.0, 1.0, path)
    with pytest.raises(
        UnreadableVideo, match=r"cannot be cut to a \.webm file \(try \.mkv\): "
    ):
        clips.cut(path, 0.0, 1.0, tmp_path / "b.webm")
    gif = tmp_path / "a.gif"
    Image.new("L", (8, 8)).save(gif)
    with pytest.raises(UnreadableVideo, match="animated pictures have no packets to copy"):
        clips.cut(gif, 0.0, 1.0, tmp_path / "b.mp4")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.gif", "a.mp4"]
    assert shown(videos.frame_at(path, 1.0).image) == pytest.approx(1.0, abs=0.1)
    assert level(1.0) == 40
