"""Animated GIF and WebP as videos, read by Pillow: frames, times and limits."""

import math
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from avow.core import photographs
from avow.core.video_files import explained, unreadable
from avow.core.video_types import Frame, VideoInfo

MOST_FRAMES = 20_000
_USUAL = 0.1  # seconds of a frame that says less than 20 ms, as browsers show it
_SLACK = 0.002


def is_animated(path: Path) -> bool:
    """Whether there is a second frame."""
    with explained(path), path.open("rb") as stream:
        return bool(getattr(photographs.identify(stream), "is_animated", False))


def probe(path: Path) -> VideoInfo:
    """Reads every frame: these formats have no header that gives the length."""
    ends, size, kind = [0.0], (0, 0), ""
    for _, end, image in _shown(path):
        ends.append(end)
        size, kind = image.size, kind or (image.format or "").lower()
    rate = (len(ends) - 1) / ends[-1] if ends[-1] else None
    return VideoInfo(ends[-1], 0.0, size[0], size[1], 0, kind, kind, rate, False, 1)


def frames(
    path: Path, every: float, span: tuple[float, float], edge: int
) -> Generator[Frame, None, None]:
    """As `avow.core.videos.frames`."""
    start, stop = span
    held = last = None
    following = -math.inf
    for time, end, image in _shown(path):
        if end <= start + _SLACK or time + _SLACK < following:
            continue
        if time > stop + _SLACK:
            break
        pixels = _pixels(image, edge)
        if held is not None:
            yield replace(held, end=time)
        grey = pixels.mean(2)
        change = 0.0 if last is None else float(np.abs(grey - last).mean() / 255)
        held, last = Frame(time, end, pixels, not time, change, time, change), grey
        following = every * (math.floor((time + _SLACK) / every) + 1)
    if held is not None:
        yield held


def frame_at(path: Path, time: float, edge: int) -> Frame:
    """The frame that is shown at `time`; the last where it is over by then."""
    shown = None
    for begin, end, image in _shown(path):
        if shown is None or begin <= time + _SLACK:
            shown = Frame(begin, end, _pixels(image, edge), not begin)
        if end > time + _SLACK:
            break
    if shown is None:
        raise unreadable(path, "no frame of it can be decoded")
    return shown


def _shown(path: Path) -> Iterator[tuple[float, float, Image.Image]]:
    """Begin, end and picture of every frame; a truncated file ends early."""
    with explained(path), path.open("rb") as stream:
        image = photographs.identify(stream)
        if image.width * image.height > photographs.LARGEST:
            raise unreadable(path, f"a frame has {image.width} x {image.height} pixels")
        begin = 0.0
        for number in range(MOST_FRAMES):
            try:
                image.seek(number)
                image.load()
            except EOFError:
                return
            except (OSError, SyntaxError, ValueError):
                if not number:
                    raise
                return
            seconds = float(image.info.get("duration") or 0) / 1000
            end = begin + (seconds if seconds >= 0.02 else _USUAL)
            yield begin, end, image
            begin = end


def _pixels(image: Image.Image, edge: int) -> np.ndarray:
    small = photographs.on_paper(image)
    small.thumbnail((edge, edge), Image.Resampling.BICUBIC)
    return np.asarray(small)
