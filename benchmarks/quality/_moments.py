"""How well moments were found: overlap with the truth, borders, and plainer ways."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from avow.core.shots import Segment
from benchmarks.quality._made_videos import Plan

Span = tuple[float, float]
NEAR = 1.0
"""Seconds within which a border counts as found."""


@dataclass(frozen=True)
class Moment:
    """An answer: a span of a video."""

    video: int
    span: Span


def overlap(one: Span, other: Span) -> float:
    """Intersection over union."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    union = max(one[1], other[1]) - min(one[0], other[0])
    return max(common, 0.0) / union if union > 0 else 0.0


def recalls(answers: Sequence[Moment], truths: Sequence[Moment]) -> dict[str, float]:
    """Of first answers, in percent; and how far their ends are off where they overlap."""
    right = np.array([a.video == t.video for a, t in zip(answers, truths, strict=True)])
    overlaps = np.array([overlap(a.span, t.span) for a, t in zip(answers, truths, strict=True)])
    overlaps *= right
    off = [
        abs(end - true)
        for answer, truth, met in zip(answers, truths, overlaps > 0, strict=True)
        if met
        for end, true in zip(answer.span, truth.span, strict=True)
    ]
    return {
        "queries": len(answers),
        "video": 100 * float(right.mean()),
        "iou_0.5": 100 * float((overlaps >= 0.5).mean()),
        "iou_0.7": 100 * float((overlaps >= 0.7).mean()),
        "border_error_mean": float(np.mean(off)) if off else float("nan"),
        "border_error_median": float(np.median(off)) if off else float("nan"),
    }


def borders(plans: Sequence[Plan], found: Sequence[Sequence[Segment]]) -> dict[str, dict]:
    """Which share of the true borders has one near it, by kind; and how many are none."""
    hits: dict[str, list[float]] = {"cut": [], "fade": [], "black": []}
    placed = spurious = 0
    for plan, segments in zip(plans, found, strict=True):
        free = [(before.end + after.start) / 2 for before, after in pairwise(segments)]
        placed += len(free)
        for shot in plan.shots[1:]:
            near = min(free, key=lambda time: abs(time - shot.start), default=None)
            error = float("inf") if near is None else abs(near - shot.start)
            hits[shot.transition].append(error)
            if near is not None and error <= NEAR:
                free.remove(near)
        spurious += len(free)
    shares = {
        kind: {
            "count": len(errors),
            "within_1s": 100 * float(np.mean(np.array(errors) <= NEAR)),
            "within_0.5s": 100 * float(np.mean(np.array(errors) <= NEAR / 2)),
        }
        for kind, errors in hits.items()
        if errors
    }
    return {**shares, "all": {"placed": placed, "spurious": spurious}}


def window(times: np.ndarray, ends: np.ndarray, best: int, length: float) -> Span:
    """A span of a fixed length around a frame."""
    middle = (times[best] + min(ends[best], times[best] + 1.0)) / 2
    return max(middle - length / 2, float(times[0])), min(middle + length / 2, float(ends[-1]))


def grown(
    times: np.ndarray, ends: np.ndarray, scores: np.ndarray, best: int, share: float
) -> Span:
    """The frames around the best whose score stays above a share of the way to the median."""
    bar = scores[best] - share * (scores[best] - np.median(scores))
    first = last = best
    while first > 0 and scores[first - 1] >= bar:
        first -= 1
    while last + 1 < len(scores) and scores[last + 1] >= bar:
        last += 1
    return float(times[first]), float(ends[last])
