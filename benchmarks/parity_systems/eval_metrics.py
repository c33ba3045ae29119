"""Retrieval metrics: ranks and recalls of recorded scores, with and without ties.

The order of equal scores is an accident of the published sort, so a recorded rank must lie
between the best and the worst that ties allow. What stands first must score highest, and
the recorded metrics must be those of the recorded ranks.
"""

from collections.abc import Iterator

import numpy as np
from parity_systems._claims import Bounds, Claim, inputs
from parity_systems._oracle import Oracle

from avow.metrics.recall import Ranks, ranks, summarise

PREFIXES = ("eval_metrics",)
SIDES = {"i2t": "image_to_text", "t2i": "text_to_image"}


def recompute(oracle: Oracle) -> Iterator[Claim]:
    for array in [name for name in oracle.arrays if name.startswith("sims_")]:
        kind = array.removeprefix("sims_")
        scores = oracle.arrays[array]
        yield from inputs(array)
        yield from of_ranks(oracle, scores, kind)
        yield from of_metrics(oracle, kind)
        for side in SIDES:
            for count in (1, 5):
                yield of_first(oracle, scores if side == "i2t" else scores.T, side, count, kind)


def of_ranks(oracle: Oracle, scores: np.ndarray, kind: str) -> Iterator[Claim]:
    image_of = np.arange(scores.shape[1]) // (scores.shape[1] // scores.shape[0])
    own = image_of[None] == np.arange(len(scores))[:, None]
    worst = ranks([scores], image_of)
    best = ranks([np.where(own, np.nextafter(scores, np.inf), scores)], image_of)
    for side, name in SIDES.items():
        array = f"{side}_ranks_{kind}"
        ends = Bounds(getattr(best, name) - 1, getattr(worst, name) - 1)  # theirs from 0
        yield Claim(array, ends if whole(oracle.arrays[array]) else np.nan)


def whole(numbers: np.ndarray) -> bool:
    return np.array_equal(numbers, np.round(numbers))


def of_metrics(oracle: Oracle, kind: str) -> Iterator[Claim]:
    theirs = [oracle.arrays[f"{side}_ranks_{kind}"] for side in SIDES]
    if not all(whole(found) for found in theirs):
        return  # no ranks, so their metrics are not checked either
    recall = summarise(Ranks(*(found.astype(np.int64) + 1 for found in theirs)))
    for side, name in SIDES.items():
        found = getattr(recall, name)
        values = [*found.recalls, found.median_rank, found.mean_rank]
        yield Claim(f"{side}_metrics_{kind}", np.array(values))


def of_first(oracle: Oracle, scores: np.ndarray, side: str, count: int, kind: str) -> Claim:
    """The scores of the candidates that were recorded first, beside the highest scores."""
    array = f"{side}_top{count}_{kind}"
    places = np.asarray(oracle.arrays[array], np.float64).reshape(len(scores), -1)
    highest = -np.sort(-scores, axis=1)[:, : places.shape[1]]
    inside = (places >= 0).all() and (places < scores.shape[1]).all()
    distinct = all(len(set(row)) == len(row) for row in places.tolist())
    if not (whole(places) and inside and distinct):
        return Claim(array, np.full(highest.shape, np.nan), expected=highest)
    found = np.take_along_axis(scores, places.astype(np.int64), 1)
    return Claim(array, found, expected=highest)
