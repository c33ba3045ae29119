"""Similarities as they are shown: between -1 and 1, or not at all."""

from pathlib import Path

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.shapes import Float32

_ROUNDING = 0.01
"""Vectors of sixteen bits are this far from unit length at most, with room to spare."""


def checked_scores(
    scores: Float32[np.ndarray, "..."], index: Path
) -> Float32[np.ndarray, "..."]:
    """Scores with their rounding error cut off; anything beyond is no similarity."""
    if not scores.size:
        return scores
    low, high = float(scores.min()), float(scores.max())
    if not (low >= -1 - _ROUNDING and high <= 1 + _ROUNDING):  # NaN compares with nothing
        wrong = high if not high <= 1 + _ROUNDING else low
        raise WrongIndex(
            f"A similarity in the index {str(index)!r} is {wrong:.4g}. Expected numbers "
            "between -1 and 1, as the vectors of a model have unit length; run `avow check`, "
            "and make the index anew with `avow index --rebuild`."
        )
    return np.clip(scores, -1, 1) if low < -1 or high > 1 else scores
