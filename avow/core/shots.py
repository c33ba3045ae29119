"""Segments of a video from its frames' vectors."""

from dataclasses import dataclass, field
import numpy as np


@dataclass
class FrameLog:
    times: list = field(default_factory=list)
    ends: list = field(default_factory=list)

    def add(self, frame):
        self.times.append(frame.time)
        self.ends.append(frame.end)


@dataclass(frozen=True)
class Segment:
    start: float
    end: float
    key: float
    first: int
    stop: int


def segments(log, vectors, keyframes=(), settings=None):
    out, first = [], 0
    for place in range(1, len(vectors) + 1):
        cut = (
            place == len(vectors)
            or place - first >= 8
            or (float(vectors[place] @ vectors[place - 1]) < 0.6)
        )
        if cut:
            middle = (first + place) // 2
            out.append(
                Segment(log.times[first], log.ends[place - 1], log.times[middle], first, place)
            )
            first = place
    return out


def pooled(vectors, segments):
    out = []
    for one in segments:
        mean = vectors[one.first : one.stop].mean(0)
        out.append(mean * (np.linalg.norm(vectors[one.first]) / np.linalg.norm(mean)))
    return np.stack(out).astype(np.float32)
