"""Recall of video retrieval, by the protocol of CE and TeachText: R@1/5/10/50, MedR, MeanR.

A video may have many captions, and each of them is a query. A video query is answered by the
best of its captions, and its other captions stand in the way like any other text. Candidates
with the same score share the mean of their ranks, so that a constant model ranks in the
middle; R@1 counts a query only where nothing ties with its answer. `recall.py` has the
protocol of images, where own captions never stand in the way and a tie counts against us.

Paper: Liu et al., "Use What You Have", BMVC 2019 (its published evaluation).
"""

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class VideoDirection:
    """Retrieval in one direction; recalls in percent, ranks from 1."""

    r1: float
    r5: float
    r10: float
    r50: float
    median_rank: float
    mean_rank: float

    @property
    def geometric_mean(self) -> float:
        """Of R@1, R@5 and R@10; published systems choose their epoch by it."""
        return float(np.cbrt(self.r1 * self.r5 * self.r10))

    @property
    def row(self) -> tuple[float, ...]:
        """All seven numbers, in the order of the published tables."""
        return (*asdict(self).values(), self.geometric_mean)


@dataclass(frozen=True)
class VideoRecall:
    """Retrieval both ways."""

    text_to_video: VideoDirection
    video_to_text: VideoDirection

    def to_dict(self) -> dict[str, object]:
        sides = {
            name: {**asdict(side), "geometric_mean": side.geometric_mean}
            for name, side in vars(self).items()
        }
        return {**sides, "rsum": self.rsum}

    @property
    def rsum(self) -> float:
        return sum(side.r1 + side.r5 + side.r10 for side in vars(self).values())


def video_recall(
    scores: Float[np.ndarray, "videos texts"], video_of: Int[np.ndarray, " texts"]
) -> VideoRecall:
    """The table of a score matrix; video_of: the video of each text."""
    by_text, by_video = video_ranks(scores, video_of)
    return VideoRecall(_direction(by_text), _direction(by_video))


def video_ranks(
    scores: Float[np.ndarray, "videos texts"],
    video_of: Int[np.ndarray, " texts"],
    block: int = 512,
) -> tuple[Float[np.ndarray, " texts"], Float[np.ndarray, " videos"]]:
    """The rank of the right video of each text, and of the best caption of each video.

    Reads `block` rows at a time, so that the scores may lie in a file.
    """
    videos, texts = scores.shape
    own = scores[video_of, np.arange(texts)]
    above, level = np.zeros(texts), np.zeros(texts)
    by_video = np.empty(videos)
    for start in range(0, videos, block):
        part = np.asarray(scores[start : start + block])
        above += (part > own).sum(0)
        level += (part == own).sum(0)
        mine = video_of[None] == np.arange(start, start + len(part))[:, None]
        best = np.where(mine, part, -np.inf).max(1, keepdims=True)
        by_video[start : start + block] = _shared((part > best).sum(1), (part == best).sum(1))
    return _shared(above, level), by_video


def _shared(
    above: Int[np.ndarray, " queries"] | Float[np.ndarray, " queries"],
    level: Int[np.ndarray, " queries"] | Float[np.ndarray, " queries"],
) -> Float[np.ndarray, " queries"]:
    """The mean rank of `level` candidates with one score that come after `above` others."""
    return 1 + above + (level - 1) / 2


def _direction(ranks: Float[np.ndarray, " queries"]) -> VideoDirection:
    # a shared first place is none; at the other cuts half a rank counts as the lower one
    five, ten, fifty = (100.0 * float((ranks < cut + 1).mean()) for cut in (5, 10, 50))
    first = 100.0 * float((ranks == 1).mean())
    middle, mean = float(np.median(ranks)), float(ranks.mean())
    return VideoDirection(first, five, ten, fifty, middle, mean)
