"""How far two orders agree: scores of pairs against the judgements of people.

Paper: Stuart, "The Estimation and Comparison of Strengths of Association in Contingency
Tables", Biometrika 1953 (tau-c).
"""

from typing import Any

import numpy as np
from jaxtyping import Num
from scipy.stats import kendalltau


def kendall_tau_c(a: Num[np.ndarray, " items"], b: Num[np.ndarray, " items"]) -> float:
    r"""Kendall's tau-c: 1 in the same order, -1 in the opposite one, 0 on average by chance.

    $$ \tau_c = \frac{2 (C - D)}{n^2} \cdot \frac{m}{m - 1} $$

    | symbol | here                                                        |
    |--------|-------------------------------------------------------------|
    | $C, D$ | pairs of items in the same and in the opposite order        |
    | $m$    | the smaller number of different values, of `a` and of `b`   |

    Made for few levels on one side (people judge from 1 to 4) and many on the other. NaN
    where all values of a side are equal.
    """
    found: Any = kendalltau(a, b, variant="c")
    return float(found.statistic)
