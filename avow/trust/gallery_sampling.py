"""Sample galleries of many sizes from scored queries, and collect the hits in them.

Trust must hold for twenty photographs and for a hundred thousand, so it is learnt from
galleries of several sizes at once: the candidates are dealt into disjoint galleries of each
size, and every query asks in the one that holds its match.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from avow.core.background import Background
from avow.core.evidence import EvidenceKind
from avow.core.queries import QueryBatch
from avow.core.shapes import Bool, Float, Int
from avow.trust.probability import STRENGTHS, Probability, fit_probability
from avow.trust.top_k import TopKSummary, describe, summarise

SIZES = (20, 50, 100, 200, 500, 1000, 2500, 5000)
KEEP = 10
DEPTH = 50
"""How many hits of each query say which one serves it."""
SERVING_STRENGTH = 0.3

Query = Literal["text", "image"]


@dataclass(frozen=True)
class ScoredQueries:
    """Queries scored against candidates, with what is known to be right."""

    similarity: Float[np.ndarray, "views queries candidates"]
    match: Bool[np.ndarray, "queries candidates"]
    own: int = 0
    """The view that learnt this direction."""
    tau: float = 0.05
    kind: EvidenceKind = "exp"
    background: Background | None = None
    """What is usual for each candidate, over a bank of reference queries."""
    same: Int[np.ndarray, " queries"] | None = None
    """Which rows are one query with labels drawn several times; None: each is its own."""

    @classmethod
    def both(
        cls,
        similarity: Float[np.ndarray, "views images texts"],
        image_of: Int[np.ndarray, " texts"],
        *,
        tau: float = 0.05,
        kind: EvidenceKind = "exp",
        images: Background | None = None,
        texts: Background | None = None,
    ) -> "dict[Query, ScoredQueries]":
        """A split of captioned images, asked in both directions."""
        match = image_of[:, None] == np.arange(similarity.shape[1])[None]
        own = min(1, len(similarity) - 1)
        return {
            "text": cls(similarity.swapaxes(1, 2), match, own, tau, kind, images),
            "image": cls(similarity, match.T, 0, tau, kind, texts),
        }

    def asked(
        self,
        queries: Int[np.ndarray, " some"] | None = None,
        candidates: Int[np.ndarray, " others"] | None = None,
    ) -> QueryBatch:
        """Some of the queries in a gallery of some of the candidates."""
        part, usual = self.similarity, self.background
        if queries is not None:
            part = part[:, queries]
        if candidates is not None:
            part = part[:, :, candidates]
            usual = None if usual is None else usual.of(candidates)
        return QueryBatch(part, self.own, self.tau, self.kind, usual)

    def queries(self, chosen: Int[np.ndarray, " some"]) -> "ScoredQueries":
        """Some of the queries over the same candidates."""
        return ScoredQueries(
            self.similarity[:, chosen],
            self.match[chosen],
            self.own,
            self.tau,
            self.kind,
            self.background,
            None if self.same is None else self.same[chosen],
        )

    @property
    def averaged(self) -> Float[np.ndarray, "queries candidates"]:
        """The mean of the views, by which candidates are ranked."""
        return self.similarity.mean(0)

    @cached_property
    def belonging(self) -> tuple[Int[np.ndarray, " queries"], Int[np.ndarray, " candidates"]]:
        """The group of every query and candidate: whatever a match ties together."""
        from scipy.sparse import coo_array  # slow to import; a search needs none
        from scipy.sparse.csgraph import connected_components

        queries, candidates = self.match.shape
        rows, columns = np.nonzero(self.match)
        size = queries + candidates
        ties = coo_array((np.ones(len(rows)), (rows, queries + columns)), shape=(size, size))
        _, group = connected_components(ties, directed=False)
        return group[:queries], group[queries:]

    @cached_property
    def groups(self) -> Int[np.ndarray, " queries"]:
        """Queries with the same matches, such as the captions of one image.

        They succeed and fail together. "A dog" and "a man" are tied by one photograph that
        has both, and are still two queries.
        """
        if self.same is not None:
            return self.same
        packed = np.packbits(self.match, axis=1)
        _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        # numbered as they first appear, so that halves do not hang on the order of bits
        return np.argsort(np.argsort(first))[group.reshape(-1)]


@dataclass(frozen=True)
class Hits:
    """Features of the best hits of some queries, and whether they were right."""

    names: tuple[str, ...]
    features: Float[np.ndarray, "queries shown features"]
    right: Bool[np.ndarray, "queries shown"]
    gallery: Int[np.ndarray, " queries"]
    groups: Int[np.ndarray, " queries"]
    queries: Int[np.ndarray, " queries"]
    """Which of the scored queries each is."""
    level: Float[np.ndarray, " queries"] | None = None
    """The level of each (`trust.level`), where it is known of all."""

    @property
    def first(self) -> Float[np.ndarray, "queries features"]:
        """Features of the first answers."""
        return self.features[:, 0]

    @staticmethod
    def join(parts: Sequence["Hits"]) -> "Hits":
        shown = min(part.features.shape[1] for part in parts)
        levels = [part.level for part in parts if part.level is not None]
        return Hits(
            parts[0].names,
            np.concatenate([part.features[:, :shown] for part in parts]),
            np.concatenate([part.right[:, :shown] for part in parts]),
            np.concatenate([part.gallery for part in parts]),
            np.concatenate([part.groups for part in parts]),
            np.concatenate([part.queries for part in parts]),
            np.concatenate(levels) if len(levels) == len(parts) else None,
        )

    def only(self, chosen: Int[np.ndarray, " some"]) -> "Hits":
        """Some of the queries."""
        return Hits(
            self.names,
            self.features[chosen],
            self.right[chosen],
            self.gallery[chosen],
            self.groups[chosen],
            self.queries[chosen],
            None if self.level is None else self.level[chosen],
        )


def collect_hits(
    scored: ScoredQueries,
    queries: Int[np.ndarray, " some"] | None = None,
    candidates: Int[np.ndarray, " others"] | None = None,
    *,
    keep: int = KEEP,
    absent: bool = False,
) -> Hits:
    """The best hits of some queries in one gallery.

    absent: each query's matches are taken out of its gallery, so that nothing is right.
    """
    rows = np.arange(scored.match.shape[0]) if queries is None else queries
    columns = np.arange(scored.match.shape[1]) if candidates is None else candidates
    asked = scored.asked(queries, candidates)
    match = scored.match[np.ix_(rows, columns)]
    if absent:
        hidden = np.where(match, np.float32(-np.inf), asked.similarity)
        asked = QueryBatch(hidden, asked.own, asked.tau, asked.kind, asked.background)
    summary, order = summarise(asked)
    return noted(summary, order, match, scored.groups[rows], rows, keep)


def noted(
    summary: TopKSummary,
    order: Int[np.ndarray, "queries shown"],
    match: Bool[np.ndarray, "queries candidates"],
    groups: Int[np.ndarray, " queries"],
    queries: Int[np.ndarray, " queries"],
    keep: int = KEEP,
) -> Hits:
    """The first hits of a summary, and whether each is right."""
    features = describe(summary)[:, :keep]
    right = np.take_along_axis(match, order[:, :keep], axis=1)
    return Hits(summary.names, features, right, summary.gallery, groups, queries)


def draw(
    scored: ScoredQueries,
    size: int,
    *,
    seed: int = 0,
    keep: int = KEEP,
    absent: bool = False,
) -> Hits | None:
    """Every query once, in a gallery of about `size` candidates; None where too few."""
    parts = []
    for queries, candidates in deal(scored, size, seed):
        asks = _not_everywhere(scored, queries, candidates) if absent else queries
        if len(asks):
            parts.append(collect_hits(scored, asks, candidates, keep=keep, absent=absent))
    return Hits.join(parts) if parts else None


def _not_everywhere(
    scored: ScoredQueries,
    queries: Int[np.ndarray, " some"],
    candidates: Int[np.ndarray, " others"],
) -> Int[np.ndarray, " fewer"]:
    """Those queries whose matches can be taken away and leave enough to show."""
    others = (~scored.match[np.ix_(queries, candidates)]).sum(1)
    return queries[others >= min(KEEP, len(candidates) // 2)]


def draw_sizes(
    scored: ScoredQueries,
    sizes: Sequence[int] = SIZES,
    *,
    seed: int = 0,
    keep: int = KEEP,
    absent: bool = False,
) -> Hits:
    """The same for several sizes, and for the whole gallery."""
    whole = scored.match.shape[1]
    smaller = [
        draw(scored, size, seed=seed, keep=keep, absent=absent)
        for size in sizes
        if size < 0.8 * whole
    ]
    everything = collect_hits(scored, keep=keep, absent=absent)
    return Hits.join([*(hits for hits in smaller if hits), everything])


def deal(
    scored: ScoredQueries, size: int, seed: int
) -> Iterator[tuple[Int[np.ndarray, " some"], Int[np.ndarray, " others"]]]:
    """Disjoint galleries of about `size` candidates, and the queries that ask in each.

    What belongs together stays together: the captions of an image are in one gallery. Where
    matches tie more than a gallery together ("a dog" and all its pictures), candidates are
    dealt one by one, and a query asks in a gallery that holds one of its matches.
    """
    of_query, of_candidate = scored.belonging
    groups = int(max(of_query.max(initial=0), of_candidate.max(initial=0))) + 1
    weight = np.bincount(of_candidate, minlength=groups)
    rng = np.random.default_rng(seed)
    if weight.max(initial=0) > size:
        place = rng.permutation(len(of_candidate)) // size
        asks = _one_with_a_match(scored.match, place, rng)
    else:
        mixed = rng.permutation(np.flatnonzero(weight))
        gallery = np.full(groups, -1)
        gallery[mixed] = (np.cumsum(weight[mixed]) - 1) // size
        place, asks = gallery[of_candidate], gallery[of_query]
    for number in range(len(of_candidate) // size):
        candidates, queries = np.flatnonzero(place == number), np.flatnonzero(asks == number)
        if len(queries) and len(candidates) > 1:
            yield queries, candidates


def _one_with_a_match(
    match: Bool[np.ndarray, "queries candidates"],
    place: Int[np.ndarray, " candidates"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " queries"]:
    """For each query, a gallery that holds one of its matches; -1 where it has none."""
    luck = np.where(match, rng.random(match.shape), -1.0)
    return np.where(match.any(1), place[luck.argmax(1)], -1)


def fit_hits(event: str, hits: Hits, strengths: Sequence[float] = STRENGTHS) -> Probability:
    """The probability of every hit, whatever its rank, from hits that are known."""
    queries, shown, count = hits.features.shape
    return fit_probability(
        event,
        hits.names,
        hits.features.reshape(queries * shown, count),
        hits.right.reshape(-1),
        np.repeat(hits.gallery, shown),
        np.repeat(hits.groups, shown),
        strengths,
    )


def fit_serving(scored: ScoredQueries, depth: int = DEPTH) -> Probability:
    """That a hit is the first right one of its list, which result sets are cut by.

    A list serves its query with the first right candidate it holds; right ones behind that
    only make it longer. Sets are cut deep in the whole gallery, so it is fitted there.
    """
    summary, order = summarise(scored.asked(), shown=depth)
    everyone = np.arange(len(scored.groups))
    hits = noted(summary, order, scored.match, scored.groups, everyone, depth)
    first = hits.right & (hits.right.cumsum(1) == 1)
    return fit_hits("first right", replace(hits, right=first), (SERVING_STRENGTH,))


def fit_present(there: Hits, empty: Hits, balanced: bool = False) -> Probability:
    """That the gallery holds a match at all: right first answers against empty galleries.

    there: hits of galleries that hold the match. empty: hits of galleries without it. How
    common each is among them is no one's rate in life, so this is for refusing, and no
    promise. balanced: as if both were equally common.
    """
    right = there.right[:, 0]
    return fit_probability(
        "present",
        there.names,
        np.concatenate([there.first[right], empty.first]),
        np.concatenate([np.ones(right.sum(), bool), np.zeros(len(empty.first), bool)]),
        np.concatenate([there.gallery[right], empty.gallery]),
        np.concatenate([there.groups[right], empty.groups]),
        balanced=balanced,
    )


def predict(
    probability: Probability,
    features: Float[np.ndarray, "queries shown features"],
    gallery: Int[np.ndarray, " queries"],
) -> Float[np.ndarray, "queries shown"]:
    """The probability of every hit."""
    queries, shown, count = features.shape
    flat = probability(features.reshape(-1, count), np.repeat(gallery, shown))
    return flat.reshape(queries, shown)


def most_probable(
    probability: Probability, hits: Hits, count: int
) -> tuple[Float[np.ndarray, "queries count"], Bool[np.ndarray, "queries count"]]:
    """The hits that would be shown, most probable first, and which of them are relevant."""
    stated = predict(probability, hits.features, hits.gallery)
    order = np.argsort(-stated, axis=1, kind="stable")[:, :count]
    right = np.take_along_axis(hits.right, order, axis=1)
    return np.take_along_axis(stated, order, axis=1), right


def one_of(stated: Float[np.ndarray, "queries shown"]) -> Float[np.ndarray, " queries"]:
    """A score for "one of those shown is right"; it orders queries, and states nothing.

    Hits of a query exclude or support each other, so no product of theirs is a probability.
    """
    return 1 - np.prod(1 - stated, axis=1)
