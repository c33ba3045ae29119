"""The regularised incomplete beta function in numpy; scipy takes long to import.

Method: the continued fraction of Lentz, as in Press et al., "Numerical Recipes", section 6.4.
"""

import math

import numpy as np
from jaxtyping import Float

_SMALL = 1e-300
_STEPS = 10_000
_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


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
    c = np.ones_like(a)
    d = 1 - (a + b) * x / (a + 1)
    d[np.abs(d) < _SMALL] = _SMALL
    d = 1 / d
    value = d.copy()
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            c = 1 + term / c
            d = 1 + term * d
            c[np.abs(c) < _SMALL] = _SMALL
            d[np.abs(d) < _SMALL] = _SMALL
            d = 1 / d
            value *= c * d
        if (np.abs(d * c - 1) < 1e-15).all():
            break
    return value
