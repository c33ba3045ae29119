import numpy as np

class coo_array:
    def __init__(
        self, arg1: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]
    ) -> None: ...
