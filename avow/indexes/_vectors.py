"""What every engine asks of the vectors it is given, and how it ranks scores."""

import numpy as np

from avow.core.errors import BadFeatures
from avow.core.shapes import Float32, Int64, Num


def checked(vectors: Num[np.ndarray, "..."], dim: int) -> Float32[np.ndarray, "items dim"]:
    """The vectors as contiguous float32; another width and NaN are refused."""
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise BadFeatures(
            f"The vectors have the shape {vectors.shape}. Expected [items, {dim}], as the "
            "index was made for; use the model that made it."
        )
    if not np.isfinite(vectors).all():
        raise BadFeatures(
            "The vectors hold NaN or infinite numbers. Expected finite ones; check the "
            "model that made them."
        )
    return np.ascontiguousarray(vectors, dtype=np.float32)


def last_of_each(ids: Int64[np.ndarray, " items"]) -> Int64[np.ndarray, " kept"]:
    """Positions that remain when an id given twice keeps its last vector, in order."""
    reversed_first = np.unique(ids[::-1], return_index=True)[1]
    return np.sort(len(ids) - 1 - reversed_first)


def best_of(
    ids: Int64[np.ndarray, " items"], scores: Float32[np.ndarray, " items"], k: int
) -> tuple[Int64[np.ndarray, " best"], Float32[np.ndarray, " best"]]:
    """The k largest scores, best first, ties by the smaller id; no full sort."""
    if len(scores) > k:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        # everything that ties with the last one stays in, so that the id decides
        candidates = np.flatnonzero(scores >= threshold)
        ids, scores = ids[candidates], scores[candidates]
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]
