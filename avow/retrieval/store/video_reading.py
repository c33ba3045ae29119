"""A video to segments with vectors: a thread decodes one batch of frames ahead of the encoder.

    file --frames, fps a second--> prepared pixels --encode--> vectors --shots--> segments

A batch of pixels at a time is held, and one vector per frame. One segment is one item of the
index, and its times are in its `part` (`core.moments`). The same file with the same rate gives
the same segments, so that a run that was cut off finds those which it stored already.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from avow.core import shots, videos
from avow.core.errors import AvowError, MissingExtra, UnreadableVideo
from avow.core.formats import NEEDS_PYAV
from avow.core.moments import Moment
from avow.core.searching import Encoder
from avow.retrieval.store.reading import Fresh, Unreadable, difference_hash
from avow.retrieval.store.walk import FileStat

Watch = Callable[[float | None], bool]
"""Is told which share of a video is read, where its length is known; says whether to stop."""
FRAMES_AT_ONCE = 32
"""Frames between two questions to a `Watch`."""


class Stopped(Exception):
    """The caller wants no more; nothing of the video in hand is kept."""


def read_segments(
    stat: FileStat, content: str, encoder: Encoder, fps: float, watch: Watch
) -> list[Fresh]:
    """The segments of a video, with their vectors. watch: asked after every batch of frames."""
    try:
        segments = _read(stat, content, encoder, fps, watch)
    except (Unreadable, Stopped):
        raise
    except UnreadableVideo as error:
        raise Unreadable(error.why) from error
    except MissingExtra as error:  # installed, and cannot be imported
        raise Unreadable(NEEDS_PYAV, again=True) from error
    except MemoryError as error:
        raise Unreadable("needs more memory than there is", again=True) from error
    except AvowError:
        raise  # of the encoder: it would fail with every file
    except Exception as error:  # whatever one file does, the others are read
        raise Unreadable(f"cannot be decoded ({' '.join(str(error).split())[:200]})") from error
    about = os.stat(stat.path) if os.path.exists(stat.path) else None
    if about is None or (about.st_size, about.st_mtime_ns) != (stat.size, stat.mtime_ns):
        raise Unreadable("changed while it was being read", again=True)
    return segments


@dataclass
class _Read:
    """What is kept of the frames so far."""

    log: shots.FrameLog = field(default_factory=shots.FrameLog)
    looks: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    last: float = 0.0


def _read(
    stat: FileStat, content: str, encoder: Encoder, fps: float, watch: Watch
) -> list[Fresh]:
    path = Path(stat.path)
    info, keyframes = videos.probe(path), videos.keyframe_times(path)
    frames, encoded = _Read(), []
    with videos.frames(path, 1 / fps, keyframes=keyframes) as decoded:
        batches = _batches(decoded, frames, encoder)
        with ThreadPoolExecutor(1, "avow-decode") as ahead:
            following = ahead.submit(next, batches, None)
            while (pixels := following.result()) is not None:
                following = ahead.submit(next, batches, None)
                encoded.append(encoder.encode_prepared(pixels))
                if watch(_share(frames, info)):
                    raise Stopped
    if not encoded:
        raise Unreadable("no frame of it can be decoded")
    vectors = np.concatenate(encoded).astype(np.float32, copy=False)
    parts = shots.segments(frames.log, vectors, keyframes=keyframes)
    first = min(frames.times[0], parts[0].start)
    duration = max(frames.last - first, info.duration or 0.0)
    fresh: dict[str, Fresh] = {}
    pooled = shots.pooled(vectors, parts, frames.log, encoder.views)
    for segment, vector in zip(parts, pooled, strict=True):
        start, end, key = (max(t, 0.0) for t in (segment.start, segment.end, segment.key))
        part = Moment(start, end, key, duration).part
        look = frames.looks[_nearest(frames.times, segment.key)]
        size = (info.width, info.height)
        fresh[part] = Fresh(part, "video", content, None, *size, None, look, vector=vector)
    return list(fresh.values())


def _batches(
    decoded: Iterator[videos.Frame], frames: _Read, encoder: Encoder
) -> Iterator[np.ndarray]:
    """Prepared frames, some at a time; what is kept of them goes to `frames`."""
    pixels: list[np.ndarray] = []
    for frame in decoded:
        picture = Image.fromarray(frame.image)
        frames.log.add(frame)
        frames.looks.append(difference_hash(picture))
        frames.times.append(frame.time)
        frames.last = max(frames.last, frame.end)
        pixels.append(encoder.prepare(picture))
        if len(pixels) == FRAMES_AT_ONCE:
            yield np.stack(pixels)
            pixels = []
    if pixels:
        yield np.stack(pixels)


def _share(frames: _Read, info: videos.VideoInfo) -> float | None:
    """How much of a video is read; None where its headers do not say how long it is."""
    if not info.duration:
        return None
    return min(max((frames.last - info.first) / info.duration, 0.0), 1.0)


def _nearest(times: list[float], moment: float) -> int:
    return int(np.abs(np.asarray(times) - moment).argmin())
