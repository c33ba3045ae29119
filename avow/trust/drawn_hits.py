"""What a policy for searches is fitted and checked with: levels and hits of all queries.

One half of each kind's queries fits, the other half is held out; both are seen in galleries of
many sizes, with and without what is relevant.

The levels of names (`trust.level`) are learnt from the same queries; each query gets one that
did not learn from it. Were they those of a regression that saw the same names, a policy would
learn to trust a level further than it holds for others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from avow.core.errors import BadData
from avow.trust.calibration_queries import (
    COMMON,
    FEWEST,
    NAME,
    NOTHING_THERE,
    TAKEN_AWAY,
    CalibrationQueries,
    evenly,
    halved_queries,
    hits_without,
    missed_hits,
    see_hits,
    share_without,
)
from avow.trust.gallery_sampling import Hits
from avow.trust.level import Level
from avow.trust.top_k import SHOWN as CANDIDATES
from avow.trust.top_k import relative_evidence

HELD = 4000
"""Queries of all kinds that are kept to check with."""
RARE = "rare name"
"""The style of names that few items fit. They teach that what is rare may be there, and are not
held out: as one kind of several they would count for more there than they are asked for."""
NAMES = 50
"""Names with a level that it takes to learn those of others."""
_PENALTY = 5.0  # of the regression, for vectors of length one
_FOLDS = 10


@dataclass(frozen=True)
class DrawnHits:
    """Queries of all kinds in halves, and their hits in galleries of many sizes."""

    halved: list[tuple[CalibrationQueries, CalibrationQueries]]
    level: Level | None
    fitted: Hits
    """Of the first halves, where something is relevant."""
    held: Hits
    """Of the second halves."""
    without: list[Hits]
    """Of the first halves, where nothing is."""
    unseen: list[Hits]
    common: tuple[list[Hits], list[Hits]]
    """Of both halves of what is common, where it was taken away; held out is what is asked."""
    share: float
    """Of queries that nothing is relevant to."""
    seed: int

    @property
    def learnt(self) -> Hits:
        nothing = share_without(evenly(self.without), self.fitted, self.share)
        return Hits.join([self.fitted, nothing])

    @classmethod
    def of(
        cls,
        askings: Sequence[CalibrationQueries],
        sizes: Sequence[int],
        other_shares: int,
        seed: int,
    ) -> "DrawnHits":
        level, askings = with_levels(askings, seed)
        halved, source = halved_queries(askings, other_shares, seed)
        there = [n for n, (one, _) in enumerate(halved) if one.scored.match.any()]
        if not there:
            raise BadData("No query has a relevant item. Expected some; give right answers.")
        # what is relevant is taken away from all where no query asks for what is absent
        away = [n for n in range(len(halved)) if n not in there] or there

        def see(numbers: Sequence[int], side: int, absent: bool) -> list[Hits]:
            return [
                see_hits(halved[n][side], sizes, seed, 2 * source[n] + side, absent, CANDIDATES)
                for n in numbers
            ]

        fitted = evenly(see(there, 0, False))
        asked = [n for n in there if halved[n][0].style not in (RARE, COMMON)] or there
        held = evenly(see(asked, 1, False), HELD // len(asked))
        without, unseen = see(away, 0, True), see(away, 1, True)
        share = TAKEN_AWAY if away == there else NOTHING_THERE
        if away != there:
            for side, numbers, hits in ((0, there, without), (1, asked, unseen)):
                hits += [
                    missed_hits(halved[n][side], sizes, seed, 2 * n + side, CANDIDATES)
                    for n in numbers
                    if not halved[n][0].apart
                ]
        learnt, checked = hits_without(halved, seed, CANDIDATES)
        complete = [n for n, (one, _) in enumerate(halved) if one.taken_away]
        checked = [hits for n, hits in zip(complete, checked, strict=True) if n in asked]
        common = learnt, checked
        return cls(halved, level, fitted, held, without, unseen, common, share, seed)


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
        if asking.style not in (NAME, COMMON) or scored.background is None:
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
