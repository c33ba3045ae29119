"""Does a stated probability come true as often as it says?

    ECE      mean gap between stated and observed, over bins of equal width or equal mass
    floor    the ECE that a perfectly calibrated predictor would show with as many queries
    squared  mean squared gap, from pairs of queries: no bias, so no floor
    Brier    mean squared error of the probability; its skill is the gain over one constant

Papers: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017; Nixon et al.,
"Measuring Calibration in Deep Learning", CVPR workshops 2019 (adaptive bins); Kumar et al.,
"Verified Uncertainty Calibration", NeurIPS 2019, and Bröcker, "Estimating Reliability and
Resolution of Probability Forecasts through Decomposition of the Empirical Score", Climate
Dynamics 2012 (squared error without bias).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int


def expected_calibration_error(
    stated: Float[np.ndarray, " queries"],
    right: Bool[np.ndarray, " queries"],
    bins: int = 15,
    equal_mass: bool = False,
) -> float:
    """ECE: the gap of every bin, weighted by how many queries it holds."""
    place = _bins(stated, bins, equal_mass)
    gaps = np.bincount(place, stated - right, bins)
    return float(np.abs(gaps).sum() / len(stated))


def calibration_floor(
    stated: Float[np.ndarray, " queries"],
    bins: int = 15,
    equal_mass: bool = False,
    levels: Sequence[float] = (0.5, 0.95),
    draws: int = 1000,
    seed: int = 0,
    group: Int[np.ndarray, " queries"] | None = None,
) -> list[float]:
    """Quantiles of the ECE when every statement is exactly true.

    group: queries of one group (captions of one image) come true or fail together, which
    makes the floor higher; without groups they are independent.
    """
    rng = np.random.default_rng(seed)
    place = _bins(stated, bins, equal_mass)
    owner = (
        np.arange(len(stated)) if group is None else np.unique(group, return_inverse=True)[1]
    )
    errors = np.empty(draws)
    for draw in range(draws):
        luck = rng.random(int(owner.max()) + 1)[owner]
        gaps = np.bincount(place, stated - (luck < stated), bins)
        errors[draw] = np.abs(gaps).sum() / len(stated)
    return [float(value) for value in np.quantile(errors, levels)]


def debiased_calibration_error(
    stated: Float[np.ndarray, " queries"],
    right: Bool[np.ndarray, " queries"],
    bins: int = 15,
    equal_mass: bool = False,
    draws: int = 1000,
    by: Literal["floor", "pairs"] = "floor",
) -> float:
    """Calibration error less what chance alone would show, never below 0.

    by: "floor" takes the median floor off the ECE. It is right for a calibrated predictor
    and too strict for others: where gaps are larger than chance, they are not inflated by
    it. "pairs" is the root of `squared_calibration_error`, which is right for both; it
    weighs large gaps more than the ECE does.
    """
    if by == "pairs":
        return max(squared_calibration_error(stated, right, bins, equal_mass), 0.0) ** 0.5
    floor = calibration_floor(stated, bins, equal_mass, levels=(0.5,), draws=draws)[0]
    return max(0.0, expected_calibration_error(stated, right, bins, equal_mass) - floor)


def squared_calibration_error(
    stated: Float[np.ndarray, " queries"],
    right: Bool[np.ndarray, " queries"],
    bins: int = 15,
    equal_mass: bool = False,
    group: Int[np.ndarray, " queries"] | None = None,
) -> float:
    """Mean squared gap of the bins, without bias: about 0 when statements are true.

    The square of a mean gap contains the square of its noise; the product of the gaps of
    two different queries does not, so a bin's square is the mean of those products. Where
    all statements of a bin are equal this is the debiased estimator of Kumar et al. It can
    be negative. group: only pairs of different groups are multiplied. Bins that hold no
    pair are left out.
    """
    gap = stated - right
    place = _bins(stated, bins, equal_mass)
    owner = np.arange(len(gap)) if group is None else np.unique(group, return_inverse=True)[1]
    cells, cell = np.unique(place * len(gap) + owner, return_inverse=True)
    bin_of = cells // len(gap)

    def crossed(values: np.ndarray) -> np.ndarray:
        """Per bin, the sum of products over pairs of different groups."""
        own = np.bincount(cell, values, len(cells)) ** 2
        return np.bincount(place, values, bins) ** 2 - np.bincount(bin_of, own, bins)

    pairs = crossed(np.ones(len(gap)))
    some = pairs > 0.5
    weight = np.bincount(place, minlength=bins)[some]
    squares = crossed(gap)[some] / pairs[some]
    return float((weight * squares).sum() / weight.sum()) if some.any() else float("nan")


def brier(stated: Float[np.ndarray, " queries"], right: Bool[np.ndarray, " queries"]) -> float:
    """Mean squared difference between what was stated and what happened."""
    return float(np.mean((stated - right) ** 2))


def brier_skill(
    stated: Float[np.ndarray, " queries"], right: Bool[np.ndarray, " queries"]
) -> float:
    """Share of the Brier score of a constant base rate that the statement saves."""
    base = float(np.mean(right))
    constant = base * (1 - base)
    return 1 - brier(stated, right) / constant if constant > 0 else float("nan")


def reliability(
    stated: Float[np.ndarray, " queries"],
    right: Bool[np.ndarray, " queries"],
    bins: int = 15,
    equal_mass: bool = False,
) -> list[tuple[float, float, int]]:
    """Per bin that holds any: mean stated, share that came true, number of queries."""
    place = _bins(stated, bins, equal_mass)
    count = np.bincount(place, minlength=bins)
    stated_sum, right_sum = np.bincount(place, stated, bins), np.bincount(place, right, bins)
    return [
        (float(stated_sum[b] / count[b]), float(right_sum[b] / count[b]), int(count[b]))
        for b in np.flatnonzero(count)
    ]


def _bins(
    stated: Float[np.ndarray, " queries"], bins: int, equal_mass: bool
) -> Int[np.ndarray, " queries"]:
    """The bin of every statement; equal statements always share one."""
    if not equal_mass:
        return np.clip(np.ceil(stated * bins).astype(np.int64) - 1, 0, bins - 1)
    rank = np.searchsorted(np.sort(stated), stated, side="left")
    return np.minimum(rank * bins // len(stated), bins - 1)
