"""Videos: the one place that decodes them, at their true times, upright and bounded in size.

    file --probe--> VideoInfo
    file --frames(every=1.0)--> Frame, Frame, ...   one a second, two in memory
    file --keyframe_times--> times of frames that stand alone; nothing is decoded
    file --frame_at--> the frame that is shown at a time

Times are those of the frames, in seconds of the file: the rate may vary, and the first frame
may come late. Animated GIF and WebP are read by Pillow (`avow.core.animations`), all others
by PyAV; `avow.core.clips` cuts. What cannot be read raises `UnreadableVideo`.
"""

import bisect
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from avow.core import animations, video_decoder, video_pixels
from avow.core.errors import BadQuery
from avow.core.formats import ANIMATION_SUFFIXES
from avow.core.video_decoder import Decoder
from avow.core.video_files import opened, unreadable
from avow.core.video_types import EDGE, Frame, VideoInfo

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

__all__ = [
    "EDGE",
    "Frame",
    "Frames",
    "VideoInfo",
    "frame_at",
    "frames",
    "is_animated",
    "keyframe_times",
    "probe",
]

SMALLEST_STEP = 0.01
_FRAMES_PER_STEP = 12  # encoders write a frame that others refer to at least this often
_LATEST = 1.1  # steps between two keyframes that are chosen, at most
_FAR = 0.2  # seconds between two decoded frames
_SLACK = 0.002  # seconds: times are rounded to the clock of the container


def is_animated(path: Path) -> bool:
    """Whether a GIF or WebP file has more than one frame."""
    return path.suffix.lower() in ANIMATION_SUFFIXES and animations.is_animated(path)


def probe(path: Path) -> VideoInfo:
    """What the headers and the first frame say."""
    if path.suffix.lower() in ANIMATION_SUFFIXES:
        return animations.probe(path)
    with opened(path) as (container, stream):
        decoder = Decoder(container, stream)
        decoder.prepare(threads=1)
        first = next(decoder.frames(), None)
        if first is None:
            raise unreadable(path, "no frame of it can be decoded")
        time, frame = first
        turn = video_pixels.orientation(frame)
        width, height = video_pixels.upright_size(frame, decoder.aspect, turn)
        return VideoInfo(
            duration=None if decoder.end is None else max(decoder.end - time, 0.0),
            first=time,
            width=width,
            height=height,
            rotation=turn.degrees,
            codec=stream.codec_context.name,
            container=container.format.name.partition(",")[0],
            rate=float(stream.average_rate) if stream.average_rate else None,
            audio=bool(container.streams.audio),
            streams=len(container.streams),
        )


def keyframe_times(path: Path) -> list[float]:
    """When the frames that can be decoded alone are shown, from the packets; ascending."""
    if path.suffix.lower() in ANIMATION_SUFFIXES:
        return [0.0]
    return video_decoder.keyframe_times(path)


def frames(
    path: Path,
    every: float = 1.0,
    *,
    start: float | None = None,
    end: float | None = None,
    edge: int = EDGE,
    keyframes: list[float] | None = None,
    threads: int = 0,
) -> "Frames":
    """One frame in every step of `every` seconds, in order, read one by one.

    start, end: only what is shown between these times of the file.
    edge: pixels of the longer side at most.
    keyframes: from `keyframe_times`, where the caller has them already.
    threads: of the decoder; 0: one per core, four at most.
    """
    if not every >= SMALLEST_STEP:
        raise BadQuery(
            f"Frames every '{every}' seconds cannot be read. Expected {SMALLEST_STEP} seconds "
            "or more."
        )
    span = -math.inf if start is None else start, math.inf if end is None else end
    return Frames(path, every, span, edge, keyframes, threads)


def frame_at(path: Path, time: float, edge: int = EDGE) -> Frame:
    """The frame shown at `time`; the first before the video begins, the last at its end."""
    if path.suffix.lower() in ANIMATION_SUFFIXES:
        return animations.frame_at(path, time, edge)
    for begin in (time, 0.0):  # a file that cannot seek well is read from its start
        with opened(path) as (container, stream):
            decoder = Decoder(container, stream)
            decoder.prepare(threads=0)
            decoder.seek(begin)
            shown = following = None
            for following, frame in decoder.frames():
                if shown is not None and following > time + _SLACK:
                    break
                shown = following, frame
            if shown is not None and (shown[0] <= time + _SLACK or begin == 0.0):
                sampler = _Sampler(decoder, 1.0, (-math.inf, math.inf), edge)
                end = max(following or 0.0, shown[0] + decoder.frame_seconds)
                return replace(sampler.convert(*shown), end=end)
    raise unreadable(path, f"nothing of it can be decoded at {time:g} seconds")


class Frames(Iterator[Frame]):
    """An iterator over frames; a context manager too, to let go of the file early."""

    def __init__(
        self,
        path: Path,
        every: float,
        span: tuple[float, float],
        edge: int,
        keyframes: list[float] | None,
        threads: int,
    ):
        self.path = path
        self.damaged = 0
        """Packets that could not be decoded and frames without a usable time, so far."""
        self.keyframes_only = False
        """Whether frames between keyframes are not decoded, as no step needs them."""
        if path.suffix.lower() in ANIMATION_SUFFIXES:
            self._frames = animations.frames(path, every, span, edge)
        else:
            self._frames = self._decode(every, span, edge, keyframes, threads)

    def _decode(
        self,
        every: float,
        span: tuple[float, float],
        edge: int,
        keyframes: list[float] | None,
        threads: int,
    ) -> Generator[Frame, None, None]:
        if keyframes is None and math.isinf(span[0]):
            keyframes = video_decoder.keyframe_times(self.path)
        with opened(self.path) as (container, stream):
            decoder = Decoder(container, stream)
            wanted = _chosen_keyframes(keyframes or [], every, decoder.end)
            self.keyframes_only = wanted is not None
            skip = "DEFAULT"
            if self.keyframes_only:
                skip = "NONINTRA"
            elif every / decoder.frame_seconds >= _FRAMES_PER_STEP:
                skip = "NONREF"
            decoder.prepare(threads, skip, self.keyframes_only)
            decoder.seek(span[0])
            for frame in _Sampler(decoder, every, span, edge, wanted).frames():
                self.damaged = decoder.damaged
                yield frame
            self.damaged = decoder.damaged

    def __iter__(self) -> "Frames":
        return self

    def __next__(self) -> Frame:
        return next(self._frames)

    def __enter__(self) -> "Frames":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._frames.close()


def _chosen_keyframes(
    keyframes: list[float], every: float, end: float | None
) -> list[float] | None:
    """Keyframes about `every` seconds apart; None where there are not enough of them."""
    if len(keyframes) < 2 or end is None:
        return None
    chosen = [keyframes[0]]
    for time, later in pairwise([*keyframes, end]):
        target = chosen[-1] + every
        if time > chosen[-1] and abs(time - target) <= later - target:
            chosen.append(time)
    gaps = np.diff([*chosen, max(end, chosen[-1])])
    return chosen if gaps.max() <= every * _LATEST else None


@dataclass
class _Sampler:
    """Chooses among decoded frames, and measures how they change in between."""

    decoder: Decoder
    every: float
    span: tuple[float, float]
    edge: int
    wanted: list[float] | None = None
    """Times of the frames to choose; None: the first of every step."""
    _last: tuple[float, np.ndarray] | None = None
    _changes: list[tuple[float, float]] = field(default_factory=list)

    def frames(self) -> Iterator[Frame]:
        """Every frame is held until the next gives its end."""
        held = None
        for time, frame in self._chosen():
            converted = self.convert(time, frame)
            if held is not None:
                yield replace(held, end=time)
            held = converted
        if held is not None:
            end = held.time + self.decoder.frame_seconds
            known = self.decoder.end or end
            yield replace(held, end=min(max(end, known), end + self.every, self._stop(end)))

    def _stop(self, end: float) -> float:
        return max(self.span[1], end)

    def _chosen(self) -> "Iterator[tuple[float, VideoFrame]]":
        """The frame shown at the start, then the first of every step."""
        start, stop = self.span
        before = None
        following = origin = -math.inf
        for time, frame in self.decoder.frames():
            if time <= start + _SLACK:
                before = time, frame
                continue
            if before is not None:
                origin, following = start, start + self.every
                yield before
                before = None
            if time > stop + _SLACK:
                return
            self._compare(time, frame)
            if time + _SLACK < following:
                continue
            origin = time if math.isinf(origin) else origin
            following = self._following(time, origin)
            yield time, frame
        if before is not None and start <= before[0] + self.decoder.frame_seconds + _SLACK:
            yield before

    def _following(self, time: float, origin: float) -> float:
        """From when on the next frame is taken; steps do not drift."""
        if self.wanted is not None:
            later = bisect.bisect_right(self.wanted, time + _SLACK)
            return self.wanted[later] if later < len(self.wanted) else math.inf
        return origin + self.every * (math.floor((time + _SLACK - origin) / self.every) + 1)

    def convert(self, time: float, frame: "VideoFrame") -> Frame:
        """Pixels and changes; its end is not known yet."""
        turn = video_pixels.orientation(frame)
        pixels = video_pixels.rgb(
            frame, self.edge, self.decoder.aspect, turn, self.decoder.scaler
        )
        change, moment = max(self._changes, default=(0.0, time))
        motion = float(np.median([one for one, _ in self._changes])) if self._changes else 0.0
        self._changes.clear()
        return Frame(time, time, pixels, bool(frame.key_frame), change, moment, motion)

    def _compare(self, time: float, frame: "VideoFrame") -> None:
        blocks = video_pixels.brightness(frame)
        if self._last is not None:
            before, last = self._last
            far = time - before > _FAR  # what happened when is not known: take the middle
            moment = (before + time) / 2 if far else time
            self._changes.append((float(np.abs(blocks - last).mean()), moment))
        self._last = time, blocks
