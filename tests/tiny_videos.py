"""Tiny videos for tests, made by PyAV: what every frame shows follows from its time."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

av = pytest.importorskip("av")

RATE = 25
TICKS = 1000


def level(time: float) -> int:
    """The grey of a frame, which tells its time: 20 a second."""
    return round(20 + 20 * time)


def shown(image: np.ndarray) -> float:
    """The time that a grey tells."""
    return (float(image.mean()) - 20) / 20


def grey(time: float, width: int, height: int) -> np.ndarray:
    return np.full((height, width, 3), level(time), np.uint8)


def corner(time: float, width: int, height: int) -> np.ndarray:
    """Red at the top left, blue at the bottom right, white elsewhere."""
    pixels = np.full((height, width, 3), 255, np.uint8)
    pixels[: height // 2, : width // 2] = (255, 0, 0)
    pixels[height // 2 :, width // 2 :] = (0, 0, 255)
    return pixels


def write(
    path: Path,
    times: Sequence[float] = tuple(np.arange(75) / RATE),
    codec: str = "libx264",
    size: tuple[int, int] = (64, 48),
    paint: Callable[[float, int, int], np.ndarray] = grey,
    pixels: str = "yuv420p",
    options: dict[str, str] | None = None,
    prepare: Callable[[Any], None] = lambda stream: None,
) -> Path:
    """A video with a frame at every time."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE, options=options or {})
        stream.width, stream.height = size
        stream.pix_fmt = pixels
        stream.codec_context.time_base = Fraction(1, TICKS if codec != "mpeg4" else RATE)
        prepare(stream)
        for time in times:
            array = paint(time, *size)
            frame = av.VideoFrame.from_ndarray(
                array, "rgba" if array.shape[2] == 4 else "rgb24"
            )
            frame.time_base = stream.codec_context.time_base
            frame.pts = round(time / frame.time_base)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def add_sound(container: Any, seconds: float = 3.0, codec: str = "aac") -> None:
    """A stream of silence, written at once."""
    stream = container.add_stream(codec, rate=16000)
    stream.layout = "mono"
    count = int(seconds * 16000)
    for start in range(0, count, 1024):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode())


def write_with_sound(path: Path, seconds: float = 3.0) -> Path:
    """Pictures as `write` makes them, and silence."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            "libx264", rate=RATE, options={"g": "25", "sc_threshold": "0"}
        )
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        sound = container.add_stream("aac", rate=16000)
        sound.layout = "mono"
        for number in range(int(seconds * RATE)):
            frame = av.VideoFrame.from_ndarray(grey(number / RATE, 64, 48), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        for start in range(0, int(seconds * 16000), 1024):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
            container.mux(sound.encode(frame))
        container.mux(sound.encode())
    return path
