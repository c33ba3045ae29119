"""Every way to doubt an answer, judged side by side on the same queries.

A measure is good when it is small for right first answers and large for wrong ones. Each
gets the figures users and papers ask for: AUROC of "the first answer is right", areas under
rejection curves (Hama et al. 2019, Table 2), AURC, nAUC, what can be answered at a risk.
Each is also turned into a probability by a logistic model of its own (Platt), so that
calibration can be compared too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.linear_model import LogisticRegression

from avow.metrics import rejection
from avow.metrics.bootstrap import interval
from avow.metrics.calibration import (
    brier,
    brier_skill,
    calibration_floor,
    debiased_calibration_error,
    expected_calibration_error,
    reliability,
)

CUTS = (1, 5, 10)
BINS = 15
POINTS = 50
RISKS = (0.05, 0.1)

Doubt = Mapping[str, Float[np.ndarray, " queries"]]
"""Measures by name; a larger number means less trust."""
Values = Float[np.ndarray, " queries"]


def right_at(ranks: Int[np.ndarray, " queries"], cut: int = 1) -> Bool[np.ndarray, " queries"]:
    return ranks <= cut


def judge(
    confidence: Values,
    ranks: Int[np.ndarray, " queries"],
    redrawn: Float[np.ndarray, "draws queries"],
) -> dict[str, Any]:
    """One row of the table: how well `confidence` tells right answers from wrong ones.

    redrawn: how often each query stands in each bootstrap draw (`redraw`).
    """
    right = right_at(ranks)
    low, high = _ends(weighted_auroc(confidence, right, redrawn))
    return {
        "auroc": _auroc(confidence, right),
        "interval": [low, high],
        "area": _areas(confidence, ranks),
        "aurc": rejection.aurc(confidence, right),
        "excess_aurc": rejection.excess_aurc(confidence, right),
        "nauc": rejection.normalised_auc(confidence, right),
    }


def lead_over(
    ours: Values,
    other: Values,
    right: Bool[np.ndarray, " queries"],
    redrawn: Float[np.ndarray, "draws queries"],
) -> dict[str, float]:
    """How much more AUROC `ours` has on the same queries, with its interval."""
    gap = weighted_auroc(ours, right, redrawn) - weighted_auroc(other, right, redrawn)
    low, high = _ends(gap)
    return {"by": _auroc(ours, right) - _auroc(other, right), "low": low, "high": high}


def redraw(
    groups: Int[np.ndarray, " queries"], draws: int = 500, seed: int = 0
) -> Float[np.ndarray, "draws queries"]:
    """Bootstrap draws of the groups, as the number of times each query is taken."""
    names, group = np.unique(groups, return_inverse=True)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)
    return counts[:, group].astype(np.float32)


def weighted_auroc(
    confidence: Values,
    right: Bool[np.ndarray, " queries"],
    weight: Float[np.ndarray, "draws queries"],
) -> Float[np.ndarray, " draws"]:
    """AUROC of every draw from one sort; ties count half, NaN where all are alike."""
    order = np.argsort(confidence, kind="stable")
    _, first, run = np.unique(confidence[order], return_index=True, return_inverse=True)
    heavy = weight[:, order]
    yes, no = heavy * right[order], heavy * ~right[order]
    wrong = np.add.reduceat(no, first, axis=1, dtype=np.float64)
    below = np.cumsum(wrong, axis=1) - wrong / 2
    above = (yes * below[:, run]).sum(1)
    pairs = yes.sum(1, dtype=np.float64) * no.sum(1, dtype=np.float64)
    return np.divide(above, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def _ends(drawn: Float[np.ndarray, " draws"]) -> tuple[float, float]:
    defined = drawn[~np.isnan(drawn)]
    if not len(defined):
        return float("nan"), float("nan")
    low, high = np.quantile(defined, (0.025, 0.975))
    return float(low), float(high)


def curves(confidence: Values, ranks: Int[np.ndarray, " queries"]) -> dict[str, list[float]]:
    """The rejection curves of R@1 and R@10 at a few coverages, for a picture."""
    out: dict[str, list[float]] = {}
    for cut in (1, 10):
        curve = rejection.rejection_curve(confidence, right_at(ranks, cut))
        place = np.unique(np.linspace(0, len(ranks) - 1, POINTS).round().astype(int))
        out["coverage"] = curve.coverage[place].tolist()
        out[f"r{cut}"] = (100 * curve.value[place]).tolist()
    return out


def coverage(confidence: Values, right: Bool[np.ndarray, " queries"]) -> dict[str, float]:
    """What share can be answered at a risk, were the threshold known."""
    covered = {
        f"at {risk:.0%} risk": rejection.coverage_at_risk(confidence, right, risk)
        for risk in RISKS
    }
    return covered | {"risk at 80%": rejection.risk_at_coverage(confidence, right, 0.8)}


def calibration(
    stated: Values,
    right: Bool[np.ndarray, " queries"],
    groups: Int[np.ndarray, " queries"] | None = None,
    draws: int = 500,
) -> dict[str, Any]:
    """Does the stated probability come true? Equal-mass bins; floors beside the errors.

    floor: the 95th percentile of the ECE of a perfectly calibrated predictor with the same
    probabilities, its queries independent of each other. groups: where given, the error
    also gets an interval over redrawn groups.
    """
    intervals = (
        {} if groups is None else {"interval": _error_interval(stated, right, groups, draws)}
    )
    return intervals | {
        "ece": expected_calibration_error(stated, right, BINS, equal_mass=True),
        "floor": calibration_floor(stated, BINS, True, levels=(0.95,), draws=draws)[0],
        "debiased": debiased_calibration_error(stated, right, BINS, True, draws=draws),
        "brier": brier(stated, right),
        "brier_skill": brier_skill(stated, right),
        "reliability": [list(row) for row in reliability(stated, right, BINS, True)],
    }


def _error_interval(
    stated: Values,
    right: Bool[np.ndarray, " queries"],
    groups: Int[np.ndarray, " queries"],
    draws: int,
) -> list[float]:
    def error(chosen: Int[np.ndarray, " drawn"]) -> float:
        return expected_calibration_error(stated[chosen], right[chosen], BINS, equal_mass=True)

    low, high = interval(error, groups, draws=draws)
    return [float(low), float(high)]


def platt(
    fitted: Float[np.ndarray, " fitted"],
    right: Bool[np.ndarray, " fitted"],
    new: Float[np.ndarray, " new"],
) -> Float[np.ndarray, " new"]:
    """A single measure as a probability: a logistic curve fitted on other queries."""
    centre, scale = fitted.mean(), fitted.std() + 1e-12
    model = LogisticRegression(C=1e6).fit(((fitted - centre) / scale)[:, None], right)
    return model.predict_proba(((new - centre) / scale)[:, None])[:, 1]


def _areas(confidence: Values, ranks: Int[np.ndarray, " queries"]) -> dict[str, float]:
    areas = {
        f"r{cut}": 100 * rejection.rejection_curve(confidence, right_at(ranks, cut)).area
        for cut in CUTS
    }
    return areas | {"median_rank": rejection.median_rank_curve(confidence, ranks).area}


def _auroc(confidence: Values, right: Bool[np.ndarray, " queries"]) -> float:
    if right.all() or not right.any():
        return float("nan")
    return rejection.auroc(confidence[right], confidence[~right])
