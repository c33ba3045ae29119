"""Small real videos, encoded by PyAV: stripes in one colour after another."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from encoders import COLOURS, picture

RATE = 10
_SIZE = (64, 48)
_CODECS = {".webm": "libvpx", ".avi": "mpeg4"}


def write_video(
    path: Path,
    scenes: list[tuple[str, float]],
    *,
    codec: str | None = None,
    size: tuple[int, int] = _SIZE,
    noise: int = 12,
) -> Path:
    """scenes: colours and seconds, in order."""
    av = pytest.importorskip("av")
    rng = np.random.default_rng(0)
    stripes = np.where(np.arange(size[0]) % 8 < 4, 1.0, 0.6)[None, :, None]
    name = codec or _CODECS.get(path.suffix, "libx264")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(name, rate=RATE)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = RATE
        stream.time_base = Fraction(1, RATE)
        count = 0
        for colour, seconds in scenes:
            rgb = np.array(COLOURS.get(colour, colour))
            for _ in range(round(seconds * RATE)):
                pixels = stripes * rgb + rng.integers(-noise, noise + 1, (size[1], size[0], 3))
                frame = av.VideoFrame.from_ndarray(pixels.clip(0, 255).astype(np.uint8))
                frame.pts, frame.time_base = count, Fraction(1, RATE)
                count += 1
                container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_holiday(folder: Path, *pictures: str) -> Path:
    """A new folder with a video of three scenes, and with pictures of one colour each."""
    folder.mkdir()
    write_video(folder / "holiday.mp4", HOLIDAY)
    for colour in pictures:
        picture(colour).save(folder / f"{colour}.png")
    return folder


HOLIDAY = [("red", 4), ("green", 5), ("blue", 4)]
