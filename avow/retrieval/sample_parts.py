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

from avow.core.shapes import Float, Int
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
    each = np.zeros(scores.sampled.shape)
    inside = np.flatnonzero(~np.isin(gallery.sampled, left_out))
    for start in range(PARTS):
        some = inside[start::PARTS]
        each[:, some] = _judged(policy, gallery, scores, some, asked)
    count = np.full(len(hits), max(scores.gallery - hits.shape[1], 0))
    each = np.minimum(each, hits[:, -1:])
    return counted(hits, each, scores.left, count, policy.spread, asked.words, policy.line)


def _judged(
    policy: Policy,
    gallery: Gallery,
    scores: QueryScores,
    some: Int[np.ndarray, " some"],
    asked: Asked,
) -> Float[np.ndarray, "queries some"]:
    """P of some sampled items, as a gallery of their own."""
    means, background = scores.sampled[:, some], gallery.background
    order = np.argsort(-means, axis=1, kind="stable")[:, :SHOWN]
    others = np.ones(means.shape, bool)
    np.put_along_axis(others, order, False, 1)
    best = by_view(gallery.vectors[some[order]], asked.vectors, len(scores.best))
    part = QueryScores(best, means, others, len(some))
    usual = None if gallery.usual is None else gallery.usual[some]
    first = None if background is None else background.of(some[order].ravel())
    summary = part.summary(asked.tau, first, usual)
    reading = policy.read(summary, asked.words, asked.common, asked.vectors)
    assert reading.agreed is not None and policy.tail is not None
    hits = reading.agreed[0]
    each = each_behind(hits, part.behind(summary, usual), policy.tail, asked.words)
    by_probability = np.argsort(-reading.stated, axis=1, kind="stable")
    np.put_along_axis(each, np.take_along_axis(order, by_probability, 1), hits, 1)
    return each
