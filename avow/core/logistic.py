"""The logistic function, its inverse and its regression in numpy: scipy is slow to import."""

from typing import Any

import numpy as np

from avow.core.shapes import Bool, Float

_STEPS, _TOLERANCE = 100, 1e-4
_LENGTHS = 0.5 ** np.arange(21)  # of a step, until the objective falls
_ENOUGH = 2.0**-11  # of the fall that the gradient promises
_NOTHING = 16 * np.finfo(np.float64).eps


def expit(values: Any) -> Any:
    """1 / (1 + exp(-x)) of a number or of every number of an array; exact at both ends."""
    small = np.exp(-np.abs(values))
    return np.where(np.asarray(values) >= 0, 1 / (1 + small), small / (1 + small))[()]


def logit(shares: Any) -> Any:
    """The inverse: log(p / (1 - p)); infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.log(shares) - np.log1p(-np.asarray(shares))


def fit_logistic(
    features: Float[np.ndarray, "n features"],
    happened: Bool[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    strength: float,
    start: Float[np.ndarray, " features1"] | None = None,
) -> Float[np.ndarray, " features1"]:
    """The coefficients of a logistic regression, and its intercept behind them.

    start: coefficients to begin with, such as those of another strength; all 0 without.

    Newton's method with a backtracking line search, step by step that of scikit-learn's
    LogisticRegression(C=strength, solver="newton-cholesky"), whose checks of arguments take
    longer than the regression where thousands of small ones are fitted.
    """
    wide = np.concatenate([features, np.ones((len(features), 1))], 1, dtype=np.float64)
    share = weight / weight.sum()
    penalty = np.full(wide.shape[1], 1 / (strength * weight.sum()))
    penalty[-1] = 0.0  # the intercept is free
    against = np.where(happened, -1.0, 1.0)

    def value_at(coefficients: np.ndarray, raw: np.ndarray) -> float:
        return share @ np.logaddexp(0, against * raw) + coefficients**2 @ penalty / 2

    coefficients, raw = np.zeros(wide.shape[1]), np.zeros(len(wide))
    if start is not None:
        coefficients, raw = start, wide @ start
    value = value_at(coefficients, raw)
    chance = expit(raw)
    gradient = (share * (chance - happened)) @ wide + penalty * coefficients
    for _ in range(_STEPS):
        scaled = wide * np.sqrt(share * chance * (1 - chance))[:, None]
        hessian = scaled.T @ scaled  # half of the work of a product of two arrays
        hessian[np.diag_indices(len(penalty))] += penalty
        try:
            step = np.linalg.solve(hessian, -gradient)
        except np.linalg.LinAlgError:  # every probability is 0 or 1 already
            break
        forward, slope = wide @ step, gradient @ step
        for length in _LENGTHS:
            new = value_at(coefficients + length * step, raw + length * forward)
            if new - value <= length * slope * _ENOUGH or abs(new - value) <= _NOTHING * value:
                break
        else:
            break
        coefficients, raw, value = coefficients + length * step, raw + length * forward, new
        chance = expit(raw)
        gradient = (share * (chance - happened)) @ wide + penalty * coefficients
        if np.abs(gradient).max() <= _TOLERANCE and step @ hessian @ step / 2 <= _TOLERANCE:
            break
    return coefficients
