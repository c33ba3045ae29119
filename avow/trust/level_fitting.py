"""Learn the levels of names (`trust.level`); each query gets one that did not learn from it.

A policy is fitted with the levels of its queries. Were they those of a regression that saw
the same names, it would learn to trust a level further than it holds for others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from avow.trust.calibration_queries import FEWEST, CalibrationQueries
from avow.trust.level import Level
from avow.trust.top_k import relative_evidence

NAMES = 50
"""Names with a level that it takes to learn those of others."""
_PENALTY = 5.0  # of the regression, for vectors of length one
_FOLDS = 10


def with_levels(
    askings: Sequence[CalibrationQueries], seed: int
) -> tuple[Level | None, list[CalibrationQueries]]:
    """The regression of all names, and the queries with levels; none where vectors lack."""
    known = known_levels(askings)
    if len(known) < NAMES or any(asking.vectors is None for asking in askings):
        return None, list(askings)
    texts = [text for asking in askings for text in asking.texts]
    vectors = np.concatenate(
        [asking.vectors for asking in askings if asking.vectors is not None]
    )
    level, levels = crossed_levels(texts, vectors, known, seed)
    ends = np.cumsum([len(asking.texts) for asking in askings])[:-1]
    parts = np.split(levels, ends)
    return level, [replace(one, level=part) for one, part in zip(askings, parts, strict=True)]


def known_levels(askings: Sequence[CalibrationQueries]) -> dict[str, float]:
    """Of every name that some items fit, their mean relative evidence, over all galleries."""
    seen: dict[str, list[float]] = {}
    for asking in askings:
        scored = asking.scored
        if asking.style != "name" or scored.background is None:
            continue
        evidence = relative_evidence(scored.similarity, scored.background, scored.tau)
        for text, each, fits in zip(asking.texts, evidence, scored.match, strict=False):
            if fits.sum() >= FEWEST:
                seen.setdefault(text, []).append(float(each[fits].mean()))
    return {text: float(np.mean(levels)) for text, levels in seen.items()}


def crossed_levels(
    texts: Sequence[str],
    vectors: Float[np.ndarray, "queries dim"],
    known: Mapping[str, float],
    seed: int,
) -> tuple[Level, Float[np.ndarray, " queries"]]:
    """The regression of all names; levels of all queries, those of names in folds."""
    row = {text: number for number, text in enumerate(texts)}
    names = sorted(known)
    place, levels = [row[name] for name in names], np.array([known[name] for name in names])
    fold = np.random.default_rng(seed).permutation(len(names)) % _FOLDS
    whole = fit_level(vectors[place], levels)
    own = dict(zip(names, fold.tolist(), strict=True))
    of_query = np.array([own.get(text, -1) for text in texts])
    stated = whole(vectors)
    for number in range(_FOLDS):
        left, asks = np.flatnonzero(fold != number), of_query == number
        part = fit_level(vectors[place][left], levels[left])
        stated[asks] = part(vectors[asks])
    return whole, stated


def fit_level(
    vectors: Float[np.ndarray, "names dim"], levels: Float[np.ndarray, " names"]
) -> Level:
    """Ridge regression, by as many unknowns as there are names."""
    middle, mean = vectors.mean(0, dtype=np.float64), levels.mean()
    centred = vectors - middle
    shares = np.linalg.solve(
        centred @ centred.T + _PENALTY * np.eye(len(levels)), levels - mean
    )
    weights = centred.T @ shares
    return Level(tuple(weights.tolist()), float(mean - middle @ weights))
