"""How likely each of many normal scores is not from the null: local false discovery rates.

Paper: Efron, "Large-Scale Simultaneous Hypothesis Testing: The Choice of a Null Hypothesis",
JASA 2004.
"""

import math

import numpy as np
from jaxtyping import Float

_BINS = 60
_FEW = 1e-12


def chance_of_right(scores: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, " pairs"]:
    """One minus the local false discovery rate of each normal score.

    Wrong pairs are taken to be normal around 0, as wide as what lies below 0, and as many as
    twice that. Beyond 0 the chance only rises.
    """
    z = scores.astype(np.float64)
    below = z[z < 0]
    if not len(below):
        return np.ones_like(scores)
    share = min(1.0, 2 * len(below) / len(z))
    width = max(float(np.sqrt(np.square(below).mean())), 1e-3)
    low, high = float(z.min()), float(z.max())
    step = max((high - low) / _BINS, 1e-9)
    place = np.clip(((z - low) / step).astype(np.int64), 0, _BINS - 1)
    density = _smooth(np.bincount(place, minlength=_BINS) / (len(z) * step))
    middle = low + step * (np.arange(_BINS) + 0.5)
    null = np.exp(-0.5 * np.square(middle / width)) / (width * math.sqrt(2 * math.pi))
    wrong = np.minimum(share * null / np.maximum(density, _FEW), 1)
    wrong = np.where(middle < 0, 1.0, wrong)
    right = 1 - np.minimum.accumulate(wrong)
    return right[place].astype(scores.dtype)


def _smooth(counts: Float[np.ndarray, " bins"]) -> Float[np.ndarray, " bins"]:
    """Each bin with half of its neighbours, what falls off the ends given back."""
    padded = np.concatenate([counts[:1], counts, counts[-1:]])
    return padded[1:-1] / 2 + (padded[:-2] + padded[2:]) / 4
