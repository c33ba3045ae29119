"""From frames and their vectors to segments of a video: start, end, key frame, one vector.

    frames --log--> times, looks, changes  .
                                            +--> segments --> pooled vectors
    frames --encoder--> vectors            '

Segments are those that leave the least variance inside them, with a price for every border:
the best partition is found by dynamic programming over all of them (kernel temporal
segmentation). A border is cheaper where the pictures jumped from one decoded frame to the next,
or where the encoder of the video began a new keyframe; features must confirm it. Cross-fades
need no rule of their own: their middle is where the variance is least.

Paper: Potapov et al., "Category-specific video summarization", ECCV 2014.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from avow.core.shapes import Bool, Float, Float32, Int
from avow.core.video_types import Frame

_BLACKEST, _WHITEST = 0.07, 0.97  # mean brightness of frames that show nothing
_FLATTEST = 0.025  # standard deviation of brightness of frames that show nothing
_SMALL = 96  # pixels of the longer side on which a frame is judged
_SHARP_ENOUGH = 0.7  # of the sharpest frame of the segment: not blurred beside it
_LONGEST_GAP = 2.0  # seconds of black that divide what is before from what is after


@dataclass(frozen=True)
class ShotSettings:
    """Chosen on videos made of dev photographs (benchmarks/quality/video_moments.py)."""

    longest: float = 30.0
    """Seconds of one segment; a longer shot is divided, so that its parts can be told apart."""
    border: float = 1.0
    """Price of a border, in variance: of unit vectors, summed over the frames of a segment."""
    jump_discount: float = 0.4
    """The price is multiplied by this where the picture jumped."""
    keyframe_discount: float = 0.8
    """And by this where a keyframe stands that does not follow a fixed distance."""
    jump: float = 0.06
    """Change of brightness from frame to frame, 0 to 1, that may be a cut."""
    jump_ratio: float = 4.0
    """How many times the usual change of the same second it must be."""


@dataclass(frozen=True)
class Segment:
    """A part of a video that shows one thing."""

    start: float
    end: float
    """In seconds of the file."""
    key: float
    """Time of the frame that shows it best."""
    first: int
    stop: int
    """Rows of the frames it is made of: first, first + 1, ..., stop - 1."""


@dataclass
class FrameLog:
    """What segments need to know of frames, but their pixels."""

    times: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    shows_something: list[bool] = field(default_factory=list)
    sharpness: list[float] = field(default_factory=list)
    changes: list[tuple[float, float, float]] = field(default_factory=list)
    """The largest change before every frame, when it was, and what is usual."""

    def add(self, frame: Frame) -> None:
        grey = _grey(frame.image)
        self.times.append(frame.time)
        self.ends.append(frame.end)
        self.shows_something.append(
            bool(_BLACKEST < grey.mean() < _WHITEST and grey.std() > _FLATTEST)
        )
        self.sharpness.append(_sharpness(grey))
        self.changes.append((frame.change, frame.change_time, frame.motion))

    def __len__(self) -> int:
        return len(self.times)


def segments(
    log: FrameLog,
    vectors: Float[np.ndarray, "frames dim"],
    keyframes: Sequence[float] = (),
    settings: ShotSettings | None = None,
) -> list[Segment]:
    """Divide a video; frames that show nothing belong to no segment, unless all are such."""
    if len(log) != len(vectors):
        raise ValueError(f"{len(vectors)} vectors of {len(log)} frames; expected one each")
    if not len(log):
        return []
    settings = settings or ShotSettings()
    shown = np.array(log.shows_something)
    rows = np.flatnonzero(shown) if shown.any() else np.arange(len(log))
    units = _units(vectors[rows])
    prices = _prices(log, rows, keyframes, settings)
    begins = np.array(log.times)[rows]
    borders = _partition(units, prices, begins, np.array(log.ends)[rows], settings.longest)
    parts = list(zip([0, *borders], [*borders, len(rows)], strict=True))
    edges = [_border(log, rows, units, border, settings) for border in borders]
    starts = [_opening(log, rows), *(after for _, after in edges)]
    ends = [*(before for before, _ in edges), log.ends[rows[-1]]]
    return [
        Segment(start, end, log.times[rows[_key(log, rows, units, part)]],
                int(rows[part[0]]), int(rows[part[1] - 1]) + 1)
        for start, end, part in zip(starts, ends, parts, strict=True)
    ]  # fmt: skip


def pooled(
    vectors: Float[np.ndarray, "frames dim"],
    parts: Sequence[Segment],
    log: FrameLog | None = None,
    views: int = 1,
) -> Float32[np.ndarray, "segments dim"]:
    """One vector a segment: the mean direction of its frames, in every view.

    log: frames that show nothing are left out. views: parts of a vector with a length of their
    own, as in `avow.core.searching.Encoder`.
    """
    out = np.empty((len(parts), vectors.shape[1]), np.float32)
    for number, part in enumerate(parts):
        rows = np.arange(part.first, part.stop)
        if log is not None and any(log.shows_something[row] for row in rows):
            rows = rows[[log.shows_something[row] for row in rows]]
        mean = vectors[rows].mean(0, dtype=np.float64).reshape(views, -1)
        mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12) * views**0.5
        out[number] = mean.ravel()
    return out


def _units(vectors: np.ndarray) -> Float32[np.ndarray, "frames dim"]:
    """Single precision: two hours of them are tens of megabytes."""
    units = np.array(vectors, np.float32)
    units /= np.maximum(np.linalg.norm(units, axis=1, keepdims=True), 1e-12)
    return units


def _jumped(log: FrameLog, settings: ShotSettings) -> Bool[np.ndarray, " frames"]:
    change, _, usual = np.array(log.changes).T
    return (change > settings.jump) & (change > settings.jump_ratio * usual)


def _prices(
    log: FrameLog, rows: Int[np.ndarray, " shown"], keyframes: Sequence[float],
    settings: ShotSettings,
) -> Float[np.ndarray, " shown"]:  # fmt: skip
    """Of a border before every frame."""
    prices = np.full(len(rows), settings.border)
    jumped = _jumped(log, settings)
    times = np.array(log.times)
    begun = np.searchsorted(times, _irregular(keyframes), side="left")  # the frame after each
    marked = np.zeros(len(times) + 1, bool)
    marked[begun] = True
    for number in range(1, len(rows)):  # what happened on frames left out counts too
        between = slice(rows[number - 1] + 1, rows[number] + 1)
        prices[number] *= settings.jump_discount if jumped[between].any() else 1.0
        prices[number] *= settings.keyframe_discount if marked[between].any() else 1.0
    return prices


def _irregular(keyframes: Sequence[float]) -> np.ndarray:
    """Keyframes that came before their turn: encoders place them where the picture changes."""
    times = np.asarray(keyframes, np.float64)
    if len(times) < 3:
        return times[1:]
    gaps = np.diff(times)
    return times[1:][gaps < 0.9 * np.quantile(gaps, 0.9)]


def _partition(
    units: Float[np.ndarray, "shown dim"],
    prices: Float[np.ndarray, " shown"],
    begins: Float[np.ndarray, " shown"],
    ends: Float[np.ndarray, " shown"],
    longest: float,
) -> list[int]:
    """First rows of all segments but the first, of the cheapest partition."""
    count = len(units)
    cost, origin = np.full(count + 1, np.inf), np.zeros(count + 1, int)
    cost[0] = 0.0
    for stop in range(1, count + 1):
        low = min(int(np.searchsorted(begins, ends[stop - 1] - longest - 1e-6)), stop - 1)
        starts = np.arange(low, stop)
        sums = units[low:stop][::-1].cumsum(0, dtype=np.float64)[::-1]  # from each to the stop
        scatter = stop - starts - (sums**2).sum(1) / (stop - starts)
        total = cost[low:stop] + scatter + np.where(starts > 0, prices[low:stop], 0.0)
        best = int(total.argmin())
        cost[stop], origin[stop] = total[best], low + best
    borders, stop = list[int](), count
    while origin[stop] > 0:
        stop = int(origin[stop])
        borders.append(stop)
    return borders[::-1]


def _border(
    log: FrameLog, rows: np.ndarray, units: np.ndarray, border: int, settings: ShotSettings
) -> tuple[float, float]:
    """When the segment before a border ends, and when the one after it begins."""
    before, after = rows[border - 1], rows[border]
    if after - before > 1:  # black in between
        dark, light = log.ends[before], log.times[after]
        middle = (log.times[before + 1] + light) / 2
        return (dark, light) if light - dark > _LONGEST_GAP else (middle, middle)
    if _jumped(log, settings)[after]:
        moment = log.changes[after][1]
    else:
        moment = _crossing(np.array(log.times)[rows], units, border)
    return moment, moment


def _crossing(times: np.ndarray, units: np.ndarray, border: int) -> float:
    """When a fade is half done: frames are placed between the means of both sides."""
    low, high = max(border - 3, 0), min(border + 3, len(units))
    before = units[low : max(border - 1, low + 1)].mean(0)
    after = units[min(border + 1, high - 1) : high].mean(0)
    way = after - before
    share = (units[low:high] - before) @ way / max(float(way @ way), 1e-12)
    left = float(np.clip(share[border - 1 - low], 0.0, 0.5))
    right = float(np.clip(share[border - low], 0.5, 1.0))
    part = (0.5 - left) / (right - left) if right > left else 0.5
    return float(times[border - 1] + part * (times[border] - times[border - 1]))


def _opening(log: FrameLog, rows: np.ndarray) -> float:
    """When the first segment begins: after a black opening, the moment of its first change."""
    first = int(rows[0])
    change, moment, _ = log.changes[first]
    return moment if first and change > 0 else log.times[first]


def _key(log: FrameLog, rows: np.ndarray, units: np.ndarray, part: tuple[int, int]) -> int:
    """The frame nearest to the mean, among those that are not blurred."""
    inside = np.arange(*part)
    near = units[inside] @ units[inside].mean(0)
    sharpness = np.array(log.sharpness)[rows[inside]]
    sharp = sharpness >= _SHARP_ENOUGH * sharpness.max()
    return int(inside[np.where(sharp, near, -np.inf).argmax()])


def _grey(image: np.ndarray) -> Float32[np.ndarray, "height width"]:
    """Brightness of a miniature, 0 to 1, by means over blocks."""
    step = max(max(image.shape[:2]) // _SMALL, 1)
    height, width = (size - size % step for size in image.shape[:2])
    if not height or not width:
        step, height, width = 1, *image.shape[:2]
    grey = image[:height, :width].mean(2, dtype=np.float32) / 255
    return grey.reshape(height // step, step, width // step, step).mean((1, 3))


def _sharpness(grey: np.ndarray) -> float:
    """Variance of the Laplacian, to the contrast."""
    if min(grey.shape) < 3:
        return 0.0
    centre = grey[1:-1, 1:-1]
    edges = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * centre
    return float(edges.var() / (centre.var() + 1e-4))
