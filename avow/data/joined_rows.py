"""The features of several splits as those of one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped

from avow.data.features import FeatureStore, Rows


class JoinedRows:
    """Rows of several splits, one split after the other; `Rows` of all of them."""

    def __init__(self, parts: Sequence[Rows]):
        self.parts = tuple(parts)
        self.ids = tuple(name for part in parts for name in part.ids)
        self.starts = np.cumsum([0, *(len(part) for part in parts)])
        self.shape = (int(self.starts[-1]), *parts[0].shape[1:])
        self.dtype = parts[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, index: Int[np.ndarray, " items"]) -> Shaped[np.ndarray, "items parts dim"]:
        """Any rows in any order, copied."""
        found = np.empty((len(index), *self.shape[1:]), self.dtype)
        owner = np.searchsorted(self.starts, index, side="right") - 1
        for number, part in enumerate(self.parts):
            mine = owner == number
            if mine.any():
                found[mine] = part.rows(index[mine] - self.starts[number])
        return found

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]:
        """The row of each image, -1 for one that is not there."""
        places: dict[str, int] = {}
        for row, name in enumerate(self.ids):
            places.setdefault(name, row)
        return np.array([places.get(name, -1) for name in image_ids], np.int64)


def joined(store: FeatureStore, name: str) -> FeatureStore:
    """The same store with one split called `name`, which has the rows of all."""
    rows = JoinedRows([store.split(one) for one in store.names])
    return FeatureStore(store.folder, store.manifest, store.boxes, {name: rows})
