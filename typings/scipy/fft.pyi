from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

def dct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Literal["ortho"] | None = None,
) -> np.ndarray: ...
def idct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Literal["ortho"] | None = None,
) -> np.ndarray: ...
