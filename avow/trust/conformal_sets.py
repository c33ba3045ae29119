"""Result sets: the shortest list that holds a right candidate for 1 - alpha of the queries.

    every candidate of a query --score--> how far down the list it would have to reach
    calibration queries        --limit--> candidates that score within it are shown

A query is served by its best right candidate, so the limit is a quantile of the lowest score
among them. Three scores:

    rank         its place among the candidates; every query gets a list of one length
    cumulative   the probability of all candidates at least as likely; sure queries get
                 short lists, doubtful ones long lists
    probability  how unlikely the candidate is by itself; the shortest lists on average

The guarantee is marginal: over calibration sets and queries together. Queries in groups
weigh as much as their group, and a new query belongs to a new group.

Papers: Romano et al., "Classification with Valid and Adaptive Coverage", NeurIPS 2020
(cumulative); Sadinle et al., "Least Ambiguous Set-Valued Classifiers with Bounded Error
Levels", JASA 2019 (probability); Lee et al., "Distribution-Free Inference with Hierarchical
Data", arXiv 2023 (groups).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.groups import numbered
from avow.core.inputs import check_shares

Score = Literal["rank", "cumulative", "probability"]


@dataclass(frozen=True)
class ResultSets:
    """Which candidates to show, so that a right one is among them often enough."""

    kind: Score
    alpha: float
    limit: float
    """Candidates that score at most this are shown; infinite where all must be."""
    queries: int
    """How many calibration queries it rests on."""
    groups: int

    def members(
        self,
        values: Float[np.ndarray, "queries candidates"],
        luck: Float[np.ndarray, " queries"] | None = None,
    ) -> Bool[np.ndarray, "queries candidates"]:
        """Which candidates belong to the list of each query.

        The first candidates of a long gallery are enough: those left out cannot change who
        among them belongs.
        """
        return candidate_scores(values, self.kind, luck) <= self.limit

    def sizes(
        self,
        values: Float[np.ndarray, "queries candidates"],
        luck: Float[np.ndarray, " queries"] | None = None,
    ) -> Int[np.ndarray, " queries"]:
        """How many candidates each query shows; may be none."""
        return self.members(values, luck).sum(1)

    def __str__(self) -> str:
        if math.isinf(self.limit):
            return (
                f"No list but the whole gallery holds a right candidate for "
                f"{1 - self.alpha:.1%} of queries, as far as {self.queries} can show."
            )
        return (
            f"Lists of candidates up to {self.kind} score {self.limit:.4g} hold a right one "
            f"for at least {1 - self.alpha:.1%} of queries ({self.queries} calibrated)."
        )


def conformal_sets(
    values: Float[np.ndarray, "queries candidates"],
    right: Bool[np.ndarray, "queries candidates"],
    alpha: float,
    kind: Score = "rank",
    *,
    groups: Int[np.ndarray, " queries"] | None = None,
    luck: Float[np.ndarray, " queries"] | None = None,
) -> ResultSets:
    """Calibrate result sets on queries whose right candidates are known.

    values: similarities for ranks, probabilities for the other two. luck: one uniform number
    per query makes "cumulative" lists shorter, at the price of a random last candidate; give
    it to `members` too.
    """
    scores = candidate_scores(values, kind, luck)
    best = np.where(right, scores, np.inf).min(1, initial=np.inf)
    group = numbered(groups, len(best))
    count = int(group.max(initial=-1)) + 1
    return ResultSets(kind, alpha, conformal_limit(best, alpha, groups), len(best), count)


def conformal_limit(
    scores: Float[np.ndarray, " queries"],
    alpha: float,
    groups: Int[np.ndarray, " queries"] | None = None,
) -> float:
    """What at least 1 - alpha of new scores do not exceed; infinite with too few to say.

    The (n + 1)(1 - alpha)-th smallest of n scores. Where queries come in groups, each
    counts as its share of one.
    """
    check_shares(alpha=alpha)
    group = numbered(groups, len(scores))
    members = np.bincount(group)
    order = np.argsort(scores, kind="stable")
    counted = np.cumsum((1 / members[group])[order])
    enough = counted >= (1 - alpha) * (len(members) + 1) - 1e-9
    return float(scores[order[np.argmax(enough)]]) if enough.any() else math.inf


def candidate_scores(
    values: Float[np.ndarray, "queries candidates"],
    kind: Score,
    luck: Float[np.ndarray, " queries"] | None = None,
) -> Float[np.ndarray, "queries candidates"]:
    """How far down a list reaches each candidate; equal values share the largest score."""
    if kind == "probability":
        return 1.0 - values
    order = np.argsort(-values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, 1)
    first, last = _runs(ordered)
    if kind == "rank":
        reached = last + 1.0
    else:
        mass = np.cumsum(ordered, 1, dtype=np.float64)
        reached = np.take_along_axis(mass, last, 1)
        if luck is not None:
            above = np.take_along_axis(mass - ordered, first, 1)
            reached = above + luck[:, None] * (reached - above)
    scores = np.empty_like(reached)
    np.put_along_axis(scores, order, reached, 1)
    return scores


def _runs(
    ordered: Float[np.ndarray, "queries candidates"],
) -> tuple[Int[np.ndarray, "queries candidates"], Int[np.ndarray, "queries candidates"]]:
    """For each place, where its run of equal values begins and ends."""
    count = ordered.shape[1]
    places = np.broadcast_to(np.arange(count), ordered.shape)
    differs = ordered[:, 1:] != ordered[:, :-1]
    begins = np.pad(differs, ((0, 0), (1, 0)), constant_values=True)[:, :count]
    ends = np.pad(differs, ((0, 0), (0, 1)), constant_values=True)[:, :count]
    first = np.maximum.accumulate(np.where(begins, places, 0), 1)
    last = np.minimum.accumulate(np.where(ends, places, count)[:, ::-1], 1)[:, ::-1]
    return first, last
