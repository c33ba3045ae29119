"""Are promises kept? Calibrate on one half of the queries, count on the other, many times.

A promise of risk alpha with confidence 1 - delta may be broken in a share delta of the
splits. "Never answer" keeps every promise, so the share that is answered stands beside it,
and so do the same promises made with other measures.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import binom

from avow.core.groups import halves
from avow.trust.conformal_sets import candidate_scores, conformal_limit
from avow.trust.risk_control import promise

SPLITS = 200
_SURELY = 0.05  # a count this unlikely under the promise is no accident of the test half


def split_halves(
    groups: Int[np.ndarray, " queries"], splits: int, seed: int
) -> Iterator[tuple[Int[np.ndarray, " one"], Int[np.ndarray, " other"]]]:
    """Halves of the groups at random; members of a group stay together."""
    rng = np.random.default_rng(seed)
    for _ in range(splits):
        yield halves(groups, rng)


def kept_promises(
    confidence: Mapping[str, Float[np.ndarray, " queries"]],
    wrong: Bool[np.ndarray, " queries"],
    groups: Int[np.ndarray, " queries"],
    alpha: float,
    delta: float = 0.1,
    splits: int = SPLITS,
    seed: int = 0,
) -> dict[str, dict[str, float]]:
    """Per measure: how often the promise was broken, and how much was answered.

    exceeded: share of splits whose test half has more than alpha of its answers wrong.
    surely: share where that excess is more than the chance of a finite test half explains.
    """
    figures = {}
    for name, values in confidence.items():
        rows = [
            _one(values, wrong, groups, fitted, tested, alpha, delta)
            for fitted, tested in split_halves(groups, splits, seed)
        ]
        exceeded, surely, answered, never = np.array(rows, float).T
        figures[name] = {
            "exceeded": float(exceeded.mean()),
            "surely": float(surely.mean()),
            "coverage": float(answered.mean()),
            "never": float(never.mean()),
        }
    return figures


def _one(
    confidence: Float[np.ndarray, " queries"],
    wrong: Bool[np.ndarray, " queries"],
    groups: Int[np.ndarray, " queries"],
    fitted: Int[np.ndarray, " one"],
    tested: Int[np.ndarray, " other"],
    alpha: float,
    delta: float,
) -> tuple[bool, bool, float, bool]:
    fitted_promise = promise(
        confidence[fitted], wrong[fitted], alpha, delta, groups=groups[fitted]
    )
    answered = fitted_promise.answers(confidence[tested])
    count, errors = int(answered.sum()), int(wrong[tested][answered].sum())
    exceeded = count > 0 and errors > alpha * count
    surely = exceeded and binom.sf(errors - 1, count, alpha) < _SURELY
    return exceeded, bool(surely), count / len(tested), fitted_promise.threshold is None


def kept_sets(
    values: Mapping[str, tuple[Any, Float[np.ndarray, "queries candidates"]]],
    right: Bool[np.ndarray, "queries candidates"],
    groups: Int[np.ndarray, " queries"],
    alpha: float,
    splits: int = SPLITS,
    seed: int = 0,
) -> dict[str, dict[str, float]]:
    """Per measure: how often a result set holds a right candidate, and how long it is.

    values: per name the kind of score (`conformal_sets.Score`) and what it reads, for the first
    candidates of every query; lists longer than that count as long as they are known.
    """
    figures = {}
    for name, (kind, content) in values.items():
        scores = candidate_scores(content, kind)
        best = np.where(right, scores, np.inf).min(1)
        ordered = np.sort(scores, axis=1)
        held, sizes = [], []
        for fitted, tested in split_halves(groups, splits, seed):
            limit = conformal_limit(best[fitted], alpha, groups[fitted])
            held.append(float((best[tested] <= limit).mean()))
            sizes.append(float((ordered[tested] <= limit).sum(1).mean()))
        figures[name] = {"held": float(np.mean(held)), "size": float(np.mean(sizes))}
    return figures
