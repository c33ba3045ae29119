import numpy as np
from scipy.sparse import coo_array

def connected_components(
    csgraph: coo_array, directed: bool = True
) -> tuple[int, np.ndarray]: ...
