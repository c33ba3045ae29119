from collections.abc import Iterator

import numpy as np

class GroupKFold:
    def __init__(self, n_splits: int = 5) -> None: ...
    def split(
        self, X: np.ndarray, y: np.ndarray, groups: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]: ...
