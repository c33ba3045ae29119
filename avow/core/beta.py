"""The regularised incomplete beta function in numpy; scipy takes long to import.

Method: the continued fraction of Lentz, as in Press et al., "Numerical Recipes", section 6.4.
"""

import math

import numpy as np

from avow.core.shapes import Float

_SMALL = 1e-300
_STEPS = 10_000
_BETWEEN_CHECKS = 4  # a check costs as much as a step


def betainc(
    a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"], x: float
) -> Float[np.ndarray, " n"]:
    """I_x(a, b) for positive a and b and x in 0..1; for whole ones a tail of the binomial."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x <= 0 or x >= 1:
        return np.full(a.shape, float(x >= 1))
    log_front = (
        _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    front = np.exp(log_front)
    quick = x < (a + 1) / (a + b + 2)  # elsewhere the other tail converges quickly
    first, second = np.where(quick, a, b), np.where(quick, b, a)
    tail = front * _fraction(first, second, np.where(quick, x, 1 - x)) / first
    return np.clip(np.where(quick, tail, 1 - tail), 0, 1)


def _fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of the incomplete beta function."""
    values = np.empty_like(a)
    left = np.arange(len(a))  # those that have not converged
    c = np.ones_like(a)
    d = _inverse(1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, _STEPS):
        twice = a + 2 * m
        even = m * (b - m) * x / ((twice - 1) * twice)
        odd = -(a + m) * (a + b + m) * x / (twice * (twice + 1))
        for term in (even, odd):
            c = _away_from_zero(1 + term / c)
            d = _inverse(1 + term * d)
            step = c * d
            value *= step
        if m % _BETWEEN_CHECKS:
            continue
        going = np.abs(step - 1) >= 1e-15
        if not going.all():
            values[left] = value
            left, value = left[going], value[going]
            a, b, x, c, d = (one[going] for one in (a, b, x, c, d))
        if not len(left):
            break
    values[left] = value
    return values


def _log_gamma(values: np.ndarray) -> np.ndarray:
    return np.fromiter(map(math.lgamma, values.tolist()), np.float64, len(values))


def _away_from_zero(values: np.ndarray) -> np.ndarray:
    values[np.abs(values) < _SMALL] = _SMALL
    return values


def _inverse(values: np.ndarray) -> np.ndarray:
    return 1 / _away_from_zero(values)
