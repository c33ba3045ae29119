"""Fit what tells how many items fit a query: the tail behind the hits, and its spread."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from avow.core.shapes import Int
from avow.trust.calibration_queries import CalibrationQueries, sampled, together
from avow.trust.coherence import Behind, behind_features, fit_tail, measured_spread
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import relative_evidence, summarise

_TAIL = 64  # candidates behind the hits that each query teaches with, on average


def counting(
    policy: Policy, halved: Sequence[tuple[CalibrationQueries, CalibrationQueries]], seed: int
) -> Policy:
    """The policy with what tells how many items fit, where there is anything behind hits.

    halved: the queries to learn from, and those that the spread is measured with.
    """
    parts = [_behind(policy, one, seed) for one, _ in halved]
    rows, fits, gallery, groups = (
        np.concatenate([part[place] for part in parts]) for place in range(4)
    )
    if not fits.any() or fits.all():
        return policy
    tailed = replace(policy, tail=fit_tail(policy.event, rows, fits, gallery, groups))
    expected, true = [], []
    for _, other in halved:
        some = other.only(sampled(len(other.words), seed))
        summary, order = summarise(some.scored.asked())
        reading = tailed.read(summary, some.words, some.common, level=some.level)
        count = tailed.number(reading, behind(some.scored, order))
        assert count is not None
        expected.append(count.expected)
        true.append(some.scored.match.sum(1))
    return replace(
        tailed, spread=measured_spread(np.concatenate(expected), np.concatenate(true))
    )


def behind(scored: ScoredQueries, order: Int[np.ndarray, "queries hits"]) -> Behind:
    """All candidates behind the hits of queries with whole rows of similarities."""
    evidence = scored.averaged / scored.tau
    if scored.background is not None:
        evidence = relative_evidence(scored.similarity, scored.background, scored.tau)
    behind_hits = np.isfinite(evidence)
    np.put_along_axis(behind_hits, order, False, axis=1)
    last = np.take_along_axis(evidence, order[:, -1:], axis=1)
    gap = last - np.where(behind_hits, evidence, last)
    return Behind(gap, behind_hits, behind_hits.sum(1))


def _behind(
    policy: Policy, asking: CalibrationQueries, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, truth, gallery sizes and groups of a sample of candidates behind the hits."""
    some = asking.only(sampled(len(asking.words), seed))
    summary, order = summarise(some.scored.asked())
    reading = policy.read(summary, some.words, some.common, level=some.level)
    assert reading.agreed is not None
    others = behind(some.scored, order)
    drawn = np.random.default_rng(seed).random(others.seen.shape) < _TAIL / others.seen.shape[1]
    query, column = np.nonzero(others.seen & drawn)
    last = reading.agreed[0][:, -1]
    rows = behind_features(last, others.gap, reading.words, reading.above)[query, column]
    groups = together(some.scored.groups)[query]
    return rows, some.scored.match[query, column], summary.gallery[query], groups
