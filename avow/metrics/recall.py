"""How often the right answer is among the first: R@K, MedR, MeanR, rSum.

An image query is answered rightly by any of its captions, a text query by its image. The
rank of a query is 1 + the number of *wrong* candidates that score at least as high as its
best match: a tie counts against us, so a constant model never beats chance.

The 1K protocol of MS-COCO averages over consecutive folds of 1,000 images; the 5K
protocol ranks the whole split.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

CUTS = (1, 5, 10)
Join = Callable[[Sequence[Float[np.ndarray, "block texts"]]], Float[np.ndarray, "block texts"]]
"""Makes one score of what several matrices say of the same pairs."""


@dataclass(frozen=True)
class Ranks:
    """For each query, the 1-based rank of its best match."""

    image_to_text: Int[np.ndarray, " images"]
    text_to_image: Int[np.ndarray, " texts"]


@dataclass(frozen=True)
class Direction:
    """Retrieval in one direction; recalls in percent."""

    r1: float
    r5: float
    r10: float
    median_rank: float
    mean_rank: float

    @property
    def recalls(self) -> tuple[float, float, float]:
        return (self.r1, self.r5, self.r10)


@dataclass(frozen=True)
class Recall:
    """Retrieval both ways: one row of a paper's table."""

    image_to_text: Direction
    text_to_image: Direction

    @property
    def rsum(self) -> float:
        return sum(self.image_to_text.recalls) + sum(self.text_to_image.recalls)

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "rsum": self.rsum}


def mean_score(
    parts: Sequence[Float[np.ndarray, "block texts"]],
) -> Float[np.ndarray, "block texts"]:
    """The plain mean, as views are joined."""
    return np.mean(parts, axis=0)


def match_ranks(
    scores: Float[np.ndarray, "queries candidates"],
    match: Bool[np.ndarray, "queries candidates"],
) -> Int[np.ndarray, " queries"]:
    """1 + the number of wrong candidates that score at least as high as the best match."""
    best = np.where(match, scores, -np.inf).max(1, keepdims=True)
    return ((scores >= best) & ~match).sum(1) + 1


def ranks(
    scores: Sequence[Float[np.ndarray, "images texts"]],
    image_of: Int[np.ndarray, " texts"],
    block: int = 512,
    join: Join = mean_score,
) -> Ranks:
    """Ranks under the given score matrices joined to one, `block` rows at a time.

    The matrices may be memory-mapped: they are read twice, in blocks, once per direction.
    A single matrix is ranked as it is.
    """
    images, texts = scores[0].shape
    to_text = np.empty(images, np.int64)
    above = np.zeros(texts, np.int64)
    # kept as exact as the join makes it: rounded, a match would tie with what it beats
    best = np.empty(texts, _joined(scores, 0, 1, join).dtype)
    for start in range(0, images, block):
        part = _joined(scores, start, start + block, join)
        own = image_of[None] == np.arange(start, start + len(part))[:, None]
        to_text[start : start + block] = match_ranks(part, own)
        mine = (image_of >= start) & (image_of < start + len(part))
        best[mine] = part[image_of[mine] - start, np.flatnonzero(mine)]
    for start in range(0, images, block):
        part = _joined(scores, start, start + block, join)
        own = image_of[None] == np.arange(start, start + len(part))[:, None]
        above += ((part >= best) & ~own).sum(0)
    return Ranks(to_text, above + 1)


def summarise(query_ranks: Ranks) -> Recall:
    """The numbers a table shows."""
    return Recall(_direction(query_ranks.image_to_text), _direction(query_ranks.text_to_image))


def average(rows: Sequence[Recall]) -> Recall:
    """The mean of several rows, as the 1K protocol reports its folds."""
    return Recall(
        _mean_direction([row.image_to_text for row in rows]),
        _mean_direction([row.text_to_image for row in rows]),
    )


def folds(
    image_of: Int[np.ndarray, " texts"], images: int, size: int
) -> list[tuple[slice, Int[np.ndarray, " fold"]]]:
    """Consecutive whole folds of `size` images: which images, and which texts."""
    starts = range(0, images - size + 1, size)
    return [
        (slice(start, start + size), np.flatnonzero(image_of // size == start // size))
        for start in starts
    ]


def bootstrap(
    query_ranks: Ranks,
    image_of: Int[np.ndarray, " texts"],
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of the recalls, mean ranks and rSum.

    Images are redrawn and bring their captions along, because captions of one image
    succeed and fail together.
    """
    images = len(query_ranks.image_to_text)
    to_text = _columns(query_ranks.image_to_text, np.arange(images), images)
    to_image = _columns(query_ranks.text_to_image, image_of, images)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(images, np.full(images, 1 / images), size=draws)
    drawn = {}
    for side, table in (("image_to_text", to_text), ("text_to_image", to_image)):
        sums = counts @ table
        means = sums[:, :-1] / sums[:, -1:]
        for column, cut in enumerate(CUTS):
            drawn[f"{side}.r{cut}"] = 100 * means[:, column]
        drawn[f"{side}.mean_rank"] = means[:, -1]
    recalls = [values for name, values in drawn.items() if ".r" in name]
    drawn["rsum"] = np.sum(recalls, axis=0)
    tails = ((1 - level) / 2, (1 + level) / 2)
    return {
        name: (float(low), float(high))
        for name, (low, high) in (
            (name, np.quantile(values, tails)) for name, values in drawn.items()
        )
    }


def _columns(
    values: Int[np.ndarray, " queries"], owner: Int[np.ndarray, " queries"], images: int
) -> Float[np.ndarray, "images columns"]:
    """Per image, summed over its queries: hits at each cut, rank, and their number."""
    rows = [*(values <= cut for cut in CUTS), values, np.ones_like(values)]
    return np.stack([np.bincount(owner, row, images) for row in rows], axis=1)


def _direction(values: Int[np.ndarray, " queries"]) -> Direction:
    shares = [100.0 * float((values <= cut).mean()) for cut in CUTS]
    # the median is rounded down, as every published table does
    median = float(np.floor(np.median(values)))
    return Direction(shares[0], shares[1], shares[2], median, float(values.mean()))


def _mean_direction(rows: Sequence[Direction]) -> Direction:
    return Direction(*np.mean([list(asdict(row).values()) for row in rows], axis=0))


def _joined(
    scores: Sequence[Float[np.ndarray, "images texts"]], start: int, stop: int, join: Join
) -> Float[np.ndarray, "block texts"]:
    if len(scores) == 1:
        return np.asarray(scores[0][start:stop])
    return join([score[start:stop] for score in scores])
