"""The logistic function and its inverse in numpy; scipy takes long to import."""

from typing import Any

import numpy as np


def expit(values: Any) -> Any:
    """1 / (1 + exp(-x)) of a number or of every number of an array; exact at both ends."""
    small = np.exp(-np.abs(values))
    return np.where(np.asarray(values) >= 0, 1 / (1 + small), small / (1 + small))[()]


def logit(shares: Any) -> Any:
    """The inverse: log(p / (1 - p)); infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.log(shares) - np.log1p(-np.asarray(shares))
