from typing import Self

import numpy as np
from numpy.typing import ArrayLike

class LogisticRegression:
    coef_: np.ndarray
    intercept_: np.ndarray
    def __init__(self, *, C: float = 1.0, max_iter: int = 100) -> None: ...
    def fit(
        self, X: np.ndarray, y: ArrayLike, sample_weight: np.ndarray | None = None
    ) -> Self: ...
    def predict_proba(self, X: np.ndarray) -> np.ndarray: ...
