from collections.abc import Sequence
from typing import Self

import numpy as np

class HistGradientBoostingClassifier:
    def __init__(
        self,
        *,
        learning_rate: float = 0.1,
        max_iter: int = 100,
        max_leaf_nodes: int | None = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        monotonic_cst: Sequence[int] | None = None,
        early_stopping: bool | str = "auto",
        random_state: int | None = None,
    ) -> None: ...
    def fit(
        self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> Self: ...
    def predict_proba(self, X: np.ndarray) -> np.ndarray: ...
    def decision_function(self, X: np.ndarray) -> np.ndarray: ...
