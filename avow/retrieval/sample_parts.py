"""How many items of a large gallery fit: its sample, judged in parts as small galleries.

What falls behind the hits of tens of thousands is far from what any fit has seen. A part of
the sample is a gallery drawn from the large one, of a size that the policy was fitted on, so it
is judged as one: the probabilities of its own best items and of those behind them. Together the
parts say what share of the large gallery fits. No item is more probable than the last hit of
the whole gallery, which stands before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avow.core.shapes import Float, Float32, Int, Int64
from avow.retrieval.gallery import Gallery, QueryScores, by_view
from avow.trust.coherence import Number, counted, each_behind
from avow.trust.judgements import Reading
from avow.trust.policy import Policy
from avow.trust.top_k import SHOWN

PARTS = 4
"""Of about 500 items each: where the numbers of the shipped policy were the nearest."""


@dataclass(frozen=True)
class Asked:
    """Queries as a policy reads them."""

    vectors: Float[np.ndarray, "queries dim"]
    words: Int[np.ndarray, " queries"]
    common: Float[np.ndarray, " queries"] | None
    tau: float


def number_by_parts(
    policy: Policy,
    reading: Reading,
    gallery: Gallery,
    scores: QueryScores,
    asked: Asked,
    left_out: Sequence[int] = (),
) -> Number | None:
    """policy: for small galleries. reading: of the whole gallery, by its own policy."""
    if reading.agreed is None or policy.tail is None:
        return None
    hits = reading.agreed[0]
    inside = np.flatnonzero(~np.isin(gallery.sampled, left_out))
    parts = _dealt(gallery.vectors, inside)
    each, seen = np.zeros(scores.sampled.shape), np.zeros(scores.left.shape, bool)
    seen[:, parts.ravel()] = scores.left[:, parts.ravel()]
    judged = _judged(policy, gallery, scores, parts, asked)
    each[:, parts.ravel()] = np.minimum(judged, hits[:, -1:])
    count = np.full(len(hits), max(scores.gallery - hits.shape[1], 0))
    return counted(hits, each, seen, count, policy.spread, asked.words, policy.line)


def _dealt(
    vectors: Float32[np.ndarray, "sample dim"], inside: Int64[np.ndarray, " some"]
) -> Int64[np.ndarray, "parts share"]:
    """Parts of one size, so that all are judged at once; up to three items are left out.

    Dealt by what the items are, as their numbers, and so their order, are each store's own.
    """
    inside = inside[np.argsort(vectors[inside, 0], kind="stable")]
    return inside[: len(inside) // PARTS * PARTS].reshape(-1, PARTS).T


def _judged(
    policy: Policy,
    gallery: Gallery,
    scores: QueryScores,
    parts: Int[np.ndarray, "parts some"],
    asked: Asked,
) -> Float[np.ndarray, "queries every"]:
    """P of the sampled items of all parts, each part a gallery of its own."""
    queries, (number, size) = len(asked.words), parts.shape
    items = np.tile(parts, (queries, 1))  # a row per query and part
    means = scores.sampled[:, parts].reshape(-1, size)
    order = np.argsort(-means, axis=1, kind="stable")[:, :SHOWN]
    others = np.ones(means.shape, bool)
    np.put_along_axis(others, order, False, 1)
    first = np.take_along_axis(items, order, 1)
    vectors = np.repeat(asked.vectors, number, 0)
    best = by_view(gallery.vectors[first], vectors, len(scores.best))
    part = QueryScores(best, means, others, size)
    background = gallery.background
    usual = None if gallery.usual is None else gallery.usual[items]
    known = None if background is None else background.of(first.ravel())
    summary = part.summary(asked.tau, known, usual)
    words = np.repeat(asked.words, number)
    common = None if asked.common is None else np.repeat(asked.common, number)
    reading = policy.read(summary, words, common, vectors)
    assert reading.agreed is not None and policy.tail is not None
    hits = reading.agreed[0]
    behind = part.behind(summary, usual)
    each = each_behind(hits, behind, policy.tail, words, reading.above)
    by_probability = np.argsort(-reading.stated, axis=1, kind="stable")
    np.put_along_axis(each, np.take_along_axis(order, by_probability, 1), hits, 1)
    return each.reshape(queries, number * size)
