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

from avow.metrics.bootstrap import interval
from avow.metrics.calibration import (
    brier,
    brier_skill,
    calibration_floor,
    debiased_calibration_error,
    expected_calibration_error,
    reliability,
)
from avow.metrics.rejection import (
    aurc,
    auroc,
    coverage_at_risk,
    excess_aurc,
    median_rank_curve,
    normalised_auc,
    rejection_curve,
    risk_at_coverage,
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
    groups: Int[np.ndarray, " queries"],
    draws: int = 500,
) -> dict[str, Any]:
    """One row of the table: how well `confidence` tells right answers from wrong ones."""
    right = right_at(ranks)
    low, high = interval(
        lambda chosen: _auroc(confidence[chosen], right[chosen]), groups, draws=draws
    )
    return {
        "auroc": _auroc(confidence, right),
        "interval": [low, high],
        "area": _areas(confidence, ranks),
        "aurc": aurc(confidence, right),
        "excess_aurc": excess_aurc(confidence, right),
        "nauc": normalised_auc(confidence, right),
    }


def lead_over(
    ours: Values,
    other: Values,
    right: Bool[np.ndarray, " queries"],
    groups: Int[np.ndarray, " queries"],
    draws: int = 500,
) -> dict[str, float]:
    """How much more AUROC `ours` has on the same queries, with its interval."""
    low, high = interval(
        lambda chosen: (
            _auroc(ours[chosen], right[chosen]) - _auroc(other[chosen], right[chosen])
        ),
        groups,
        draws=draws,
    )
    return {"by": _auroc(ours, right) - _auroc(other, right), "low": low, "high": high}


def curves(confidence: Values, ranks: Int[np.ndarray, " queries"]) -> dict[str, list[float]]:
    """The rejection curves of R@1 and R@10 at a few coverages, for a picture."""
    out: dict[str, list[float]] = {}
    for cut in (1, 10):
        curve = rejection_curve(confidence, right_at(ranks, cut))
        place = np.unique(np.linspace(0, len(ranks) - 1, POINTS).round().astype(int))
        out["coverage"] = curve.coverage[place].tolist()
        out[f"r{cut}"] = (100 * curve.value[place]).tolist()
    return out


def coverage(confidence: Values, right: Bool[np.ndarray, " queries"]) -> dict[str, float]:
    """What share can be answered at a risk, were the threshold known."""
    found = {f"at {risk:.0%} risk": coverage_at_risk(confidence, right, risk) for risk in RISKS}
    return found | {"risk at 80%": risk_at_coverage(confidence, right, 0.8)}


def calibration(
    stated: Values,
    right: Bool[np.ndarray, " queries"],
    groups: Int[np.ndarray, " queries"],
    draws: int = 500,
) -> dict[str, Any]:
    """Does the stated probability come true? Equal-mass bins; floors beside the errors.

    floor: the 95th percentile of the ECE of a perfectly calibrated predictor with the same
    probabilities, its queries independent of each other.
    """
    error = expected_calibration_error(stated, right, BINS, equal_mass=True)
    low, high = interval(
        lambda chosen: expected_calibration_error(
            stated[chosen], right[chosen], BINS, equal_mass=True
        ),
        groups,
        draws=draws,
    )
    return {
        "ece": error,
        "interval": [low, high],
        "floor": calibration_floor(stated, BINS, True, levels=(0.95,), draws=draws)[0],
        "debiased": debiased_calibration_error(stated, right, BINS, True, draws=draws),
        "brier": brier(stated, right),
        "brier_skill": brier_skill(stated, right),
        "reliability": [list(row) for row in reliability(stated, right, BINS, True)],
    }


def platt(
    fitted: Values, right: Bool[np.ndarray, " fitted"], new: Values
) -> Float[np.ndarray, " new"]:
    """A single measure as a probability: a logistic curve fitted on other queries."""
    centre, scale = fitted.mean(), fitted.std() + 1e-12
    model = LogisticRegression(C=1e6).fit(((fitted - centre) / scale)[:, None], right)
    return model.predict_proba(((new - centre) / scale)[:, None])[:, 1]


def _areas(confidence: Values, ranks: Int[np.ndarray, " queries"]) -> dict[str, float]:
    found = {
        f"r{cut}": 100 * rejection_curve(confidence, right_at(ranks, cut)).area for cut in CUTS
    }
    return found | {"median_rank": median_rank_curve(confidence, ranks).area}


def _auroc(confidence: Values, right: Bool[np.ndarray, " queries"]) -> float:
    if right.all() or not right.any():
        return float("nan")
    return auroc(confidence[right], confidence[~right])
