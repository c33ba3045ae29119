"""Queries to fit a policy on: halved, and seen in galleries of many sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.background import Background
from avow.core.groups import halves
from avow.core.inputs import mask_of, probabilities_of
from avow.trust.coherence import TEN
from avow.trust.gallery_sampling import Hits, ScoredQueries, collect_hits, draw_sizes
from avow.trust.probability import of_query

NOTHING_THERE, TAKEN_AWAY = 0.25, 0.15
"""Share of queries with nothing to find that the probabilities are fitted for; and where such
queries are made by taking away what is relevant, which leaves the nearest misses."""
SMALL = 200
"""Candidates of a gallery that may well lack what is common."""
DRAWS = 2
"""How many times the labels of a query are drawn, where only probabilities are known."""
LEARNT = 1500
"""Queries of each kind that are learnt from."""
WITHOUT = 20
"""Galleries of its own without what is relevant, for each query of a `complete` kind."""
LARGEST_SHARE = 0.8
"""Of relevant items in the galleries of `in_other_shares`."""
FEWEST, SMALLEST = 3, 40
"""Relevant items that such a query has, and items that such a gallery has, at least."""
NAME, COMMON = "name", "common name"
"""Styles of names. Those of `COMMON` are asked over further items, with what they name and
without it; they teach when what is common is absent, and are not held out."""


@dataclass(frozen=True)
class CalibrationQueries:
    """Queries of one kind over one gallery, with what is known to be relevant.

    Where nothing is relevant to any of them, they teach what to refuse and nothing else.
    """

    style: str
    scored: ScoredQueries
    words: Int[np.ndarray, " queries"]
    """How many words each query has; 0 for a photograph."""
    common: Float[np.ndarray, " queries"] | None = None
    """How common the words of each query are (`retrieval.commonness`); None for photographs."""
    apart: bool = False
    """Whether each query has a gallery of its own (`in_other_shares`), which is asked whole."""
    complete: bool = False
    """Whether all that is relevant is known: without it, nothing is. Captions do not name all
    that a picture shows; lists of its objects do."""
    texts: list[str] | tuple[str, ...] = ()
    """What is asked; needed for levels."""
    vectors: Float[np.ndarray, "queries dim"] | None = None
    """The queries as the model reads them; needed for levels."""
    level: Float[np.ndarray, " queries"] | None = None
    """The level of every query (`trust.drawn_hits`), by a regression that did not see it."""

    @property
    def taken_away(self) -> bool:
        """Whether each query is asked where everything relevant was taken away, too."""
        return self.complete and not self.apart

    def only(self, chosen: Int[np.ndarray, " some"]) -> "CalibrationQueries":
        """Some of the queries over the same candidates."""
        return CalibrationQueries(
            self.style,
            self.scored.queries(chosen),
            self.words[chosen],
            None if self.common is None else self.common[chosen],
            self.apart,
            self.complete,
            tuple(self.texts[place] for place in chosen.tolist()) if self.texts else (),
            None if self.vectors is None else self.vectors[chosen],
            None if self.level is None else self.level[chosen],
        )


def two_halves(
    queries: CalibrationQueries, seed: int
) -> tuple[CalibrationQueries, CalibrationQueries]:
    """Two random halves; the captions of one picture stay together."""
    one, other = halves(together(queries.scored.groups), seed, larger_first=True)
    return queries.only(one), queries.only(other)


def halved_queries(
    askings: Sequence[CalibrationQueries], other_shares: int, seed: int
) -> tuple[list[tuple[CalibrationQueries, CalibrationQueries]], list[int]]:
    """Every kind in halves, then names in galleries of their own; and whose queries each has.

    A query is on the same side with all its galleries.
    """
    halved = [two_halves(asking, seed + number) for number, asking in enumerate(askings)]
    source = list(range(len(halved)))
    for number, (one, other) in enumerate(halved[:]):
        if other_shares and one.style in (NAME, COMMON):
            own = in_other_shares(one, other_shares, seed + 2 * number)
            held = in_other_shares(other, other_shares, seed + 2 * number + 1)
            if len(own.words) and len(held.words):
                halved.append((own, held))
                source.append(number)
    return halved, source


def halves_without(
    halved: Sequence[tuple[CalibrationQueries, CalibrationQueries]], seed: int
) -> list[tuple[CalibrationQueries, CalibrationQueries]]:
    """The `complete` kinds again, in galleries without what is relevant."""
    return [
        (
            without_relevant(one, seed + 2 * number),
            without_relevant(other, seed + 2 * number + 1),
        )
        for number, (one, other) in enumerate(halved)
        if one.taken_away
    ]


def together(groups: Int[np.ndarray, " queries"]) -> Int[np.ndarray, " queries"]:
    """Which queries succeed and fail together: the captions of one picture.

    Names and phrases share pictures all over the gallery, which ties everything to
    everything; each of them is then a question of its own.
    """
    largest = np.unique(groups, return_counts=True)[1].max()
    return np.arange(len(groups)) if largest > max(20, len(groups) / 50) else groups


def in_other_shares(asking: CalibrationQueries, times: int, seed: int) -> CalibrationQueries:
    """Every query in galleries of its own, in which another share of the items is relevant.

    Of the pictures of one collection a hundredth show a dog, of those of another one half;
    queries over one gallery would teach its shares. Shares above the usual one are drawn as
    often as shares below it, the further from it the smaller the gallery: a subset has no
    other way. Items outside the gallery of a query have a similarity of minus infinity.
    Queries with fewer than `FEWEST` relevant items are left out.
    """
    rng = np.random.default_rng(seed)
    enough = np.flatnonzero(asking.scored.match.sum(1) >= FEWEST)
    chosen = np.repeat(enough, times)
    inside = _with_share(asking.scored.match[chosen], rng)
    large = inside.sum(1) >= SMALLEST
    chosen, inside = chosen[large], inside[large]
    some = asking.only(chosen)
    similarity = np.where(inside, some.scored.similarity, np.float32(-np.inf))
    match = some.scored.match & inside
    own = replace(some.scored, similarity=similarity, match=match, same=chosen)
    return replace(some, scored=own, apart=True)


def without_relevant(asking: CalibrationQueries, seed: int) -> CalibrationQueries:
    """Every query in galleries of its own of many sizes, in which nothing is relevant.

    Names that occur nowhere are rare words. What is common is absent from many galleries, too,
    and is not to be answered there because its word is common.
    """
    rng = np.random.default_rng(seed)
    chosen = np.repeat(np.flatnonzero((~asking.scored.match).sum(1) >= SMALLEST), WITHOUT)
    some = asking.only(chosen)
    others = ~some.scored.match
    size = np.exp(rng.uniform(np.log(SMALLEST), np.log(others.sum(1))))
    inside = _in_some(others, size, rng)
    similarity = np.where(inside, some.scored.similarity, np.float32(-np.inf))
    nothing = np.zeros_like(inside)
    own = replace(some.scored, similarity=similarity, match=nothing, same=chosen)
    return replace(some, style="absent", scored=own, apart=True)


def without_own(
    asking: CalibrationQueries, own: Int[np.ndarray, " queries"], seed: int
) -> CalibrationQueries:
    """Every query in a gallery of its own of some size, without the item it was written for.

    own: which item that is. People do not always describe a picture of the gallery that they
    search: other pictures may fit their words, or none does. Galleries up to `SMALL` are those
    of `missed_hits`.
    """
    rng, scored = np.random.default_rng(seed), asking.scored
    queries, items = scored.match.shape
    others = np.arange(items)[None] != own[:, None]
    inside = _in_some(others, rng.uniform(min(SMALL, items - 1), items - 1, queries), rng)
    similarity = np.where(inside, scored.similarity, np.float32(-np.inf))
    alone = replace(scored, similarity=similarity, match=scored.match & inside, same=own)
    return replace(asking, scored=alone, apart=True)


def _in_some(
    allowed: Bool[np.ndarray, "queries items"],
    size: Float[np.ndarray, " queries"],
    rng: np.random.Generator,
) -> Bool[np.ndarray, "queries items"]:
    """For each query so many of the items that it may have."""
    luck = np.where(allowed, rng.random(allowed.shape), 2.0)
    place = np.argsort(np.argsort(luck, axis=1), axis=1)
    return allowed & (place < size[:, None])


def _with_share(
    match: Bool[np.ndarray, "queries items"], rng: np.random.Generator
) -> Bool[np.ndarray, "queries items"]:
    """For each query some items, of which a share is relevant that is drawn."""
    queries, items = match.shape
    relevant = match.sum(1)
    size = np.exp(rng.uniform(np.log(SMALLEST), np.log(items), queries))
    share = relevant / items * (items / size) ** rng.uniform(-1, 1, queries)
    share = np.clip(share, 1 / size, LARGEST_SHARE)
    size = np.minimum(size, np.minimum(relevant / share, (items - relevant) / (1 - share)))
    count = np.maximum(1, (size * share).round())
    luck = rng.random(match.shape)
    place = [
        np.argsort(np.argsort(np.where(some, luck, 2.0), axis=1), axis=1)
        for some in (match, ~match)
    ]
    return np.where(
        match, place[0] < count[:, None], place[1] < (size.round() - count)[:, None]
    )


def see_hits(
    asking: CalibrationQueries,
    sizes: Sequence[int],
    seed: int,
    offset: int,
    absent: bool,
    keep: int,
) -> Hits:
    """Hits in galleries of many sizes; `absent`: with everything relevant taken away."""
    scored, sizes = asking.scored, () if asking.apart else sizes
    if scored.match.any():
        hits = draw_sizes(scored, sizes, seed=seed, keep=keep, absent=absent)
    else:
        hits = _anywhere(scored, sizes, seed, keep)
    return _of_queries(asking, hits, offset)


def hits_without(
    halved: Sequence[tuple[CalibrationQueries, CalibrationQueries]], seed: int, keep: int
) -> tuple[list[Hits], list[Hits]]:
    """Hits of `halves_without`, of the first halves and of the second."""
    first: list[Hits] = []
    second: list[Hits] = []
    for number, pair in enumerate(halves_without(halved, seed), len(halved)):
        for side, hits in enumerate((first, second)):
            hits.append(see_hits(pair[side], (), seed, 2 * number + side, True, keep))
    return first, second


def missed_hits(
    asking: CalibrationQueries, sizes: Sequence[int], seed: int, offset: int, keep: int
) -> Hits:
    """Hits in small galleries that happen to hold nothing relevant.

    Even what is common is absent from most galleries of twenty pictures.
    """
    small = [size for size in sizes if size <= SMALL]
    hits = _anywhere(asking.scored, small, seed, keep, missed=True)
    return _of_queries(asking, hits, offset)


def _of_queries(asking: CalibrationQueries, hits: Hits, offset: int) -> Hits:
    """The hits with what is known of their queries."""
    scored, words = asking.scored, asking.words[hits.queries]
    # groups of different kinds must not be taken for the same
    groups = together(scored.groups)[hits.queries].astype(np.int64) + offset * 10_000_000
    common = None if asking.common is None else asking.common[hits.queries]
    level = None if asking.level is None else asking.level[hits.queries]
    names, features = of_query(hits.names, hits.features, words, common)
    return Hits(names, features, hits.right, hits.gallery, groups, hits.queries, level)


def _anywhere(
    scored: ScoredQueries, sizes: Sequence[int], seed: int, keep: int, missed: bool = False
) -> Hits:
    """Hits of queries that nothing is relevant to, each in one gallery of every size.

    missed: of queries with matches, those whose gallery happens to hold none; never the whole.
    """
    queries, candidates = scored.match.shape
    rng = np.random.default_rng(seed)
    parts = []
    whole = () if missed else (candidates,)
    for size in [*(size for size in sizes if size < 0.8 * candidates), *whole]:
        galleries = np.array_split(rng.permutation(candidates), max(1, candidates // size))
        where = rng.integers(len(galleries), size=queries)
        for number, gallery in enumerate(galleries):
            asks = np.flatnonzero(where == number)
            asks = asks[~scored.match[np.ix_(asks, gallery)].any(1)]
            if len(asks):
                parts.append(collect_hits(scored, asks, np.sort(gallery), keep=keep))
    return Hits.join(parts)


def share_without(nothing: Hits, fitted: Hits, share: float) -> Hits:
    """As many queries without a match as make up their share of all."""
    wanted = round(len(fitted.gallery) * share / (1 - share))
    chosen = np.random.default_rng(0).permutation(len(nothing.gallery))[:wanted]
    return nothing.only(np.sort(chosen))


def nothing_for_some(there: Hits, nothing: Hits, share: float) -> Hits:
    """The queries, and so many more that a share of all lacks anything relevant.

    Of those in galleries up to `SMALL` and of those in larger ones alike. Where as many of
    `there` lack it already, as captions without their own picture do, none are added.
    """
    parts = []
    for small in (True, False):
        some, more = (
            hits.only(np.flatnonzero((hits.gallery <= SMALL) == small))
            for hits in (there, nothing)
        )
        found = int(some.right.any(1).sum())
        wanted = round(found * share / (1 - share)) - (len(some.gallery) - found)
        order = np.random.default_rng(0).permutation(len(more.gallery))
        parts += [some, more.only(np.sort(order[: max(wanted, 0)]))]
    return Hits.join(parts)


def evenly(parts: Sequence[Hits], most: int = LEARNT) -> Hits:
    """The same number of queries of every kind, as far as there are so many."""
    rng = np.random.default_rng(0)
    chosen = []
    for part in parts:
        drawn = rng.permutation(len(part.gallery))[:most]
        chosen.append(part.only(np.sort(drawn)))
    return Hits.join(chosen)


def sampled(queries: int, seed: int, most: int = 500) -> Int[np.ndarray, " some"]:
    return np.sort(np.random.default_rng(seed).permutation(queries)[:most])


def thinned(hits: Hits) -> Hits:
    """The first ten hits and every fourth behind them, which are many and alike."""
    shown = np.arange(hits.right.shape[1])
    chosen = shown[(shown < TEN) | (shown % 4 == 0)]
    return replace(hits, features=hits.features[:, chosen], right=hits.right[:, chosen])


def drawn_labels(
    fits: Float[np.ndarray, "queries items"],
    rho: Float[np.ndarray, " queries"],
    seed: int = 0,
) -> Bool[np.ndarray, "queries items"]:
    """Labels that are yes with the probabilities `fits`, dependent as `rho` says.

    Up to rho = 1 an item fits by a cause that the whole query shares (one number u decides)
    or by one of its own; above, intervals of length P are laid end to end with probability
    rho - 1, and those fit that a point u, u + 1, u + 2, … falls into. Of the first k items by
    P, at least one then fits with the probability that `trust.coherence` states.
    """
    rng = np.random.default_rng(seed)
    alone = rng.random(len(fits)) < rho - 1
    u = rng.random((len(fits), 1))
    order = np.argsort(-fits, axis=1, kind="stable")
    ends = np.cumsum(np.take_along_axis(fits, order, axis=1), axis=1, dtype=np.float64)
    starts = np.concatenate([np.zeros((len(fits), 1)), ends[:, :-1]], axis=1)
    apart = np.empty(fits.shape, bool)
    np.put_along_axis(apart, order, np.ceil(ends - u) > np.ceil(starts - u), axis=1)
    own = np.minimum(rho, 1)[:, None]
    shared = 1 - (1 - fits) ** (1 - own) > u
    by_itself = 1 - (1 - fits) ** own > rng.random(fits.shape)
    return np.where(alone[:, None], apart, shared | by_itself)


def labelled(
    views: Float[np.ndarray, "views queries candidates"],
    matches: np.ndarray,
    tau: float,
    usual: Background | None,
    seed: int,
) -> ScoredQueries:
    """The queries with their matches; with probabilities, several draws of them."""
    if np.asarray(matches).dtype.kind != "f":
        match = mask_of(matches, views.shape[1:])
        return ScoredQueries(views, match, 0, tau, "exp", usual)
    fits = probabilities_of(matches, views.shape[1:])
    # how the hits of a query depend on each other is not known: as of the shipped policy's
    # held-out queries, half of which are below it
    rho = np.full(len(fits), 0.8)
    drawn = [drawn_labels(fits, rho, seed + draw) for draw in range(DRAWS)]
    row = np.tile(np.arange(len(fits)), DRAWS)
    return ScoredQueries(views[:, row], np.concatenate(drawn), 0, tau, "exp", usual, row)
