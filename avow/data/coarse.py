"""Stored features at a coarser grid: neighbouring cells averaged, once, in memory.

    6 x 6 cells --mean of 3 x 3--> 2 x 2 cells

What learns from few cells is quick, and needs no second extraction from photographs.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, Shaped

from avow.data.features import FeatureStore, Rows

_ROWS_AT_ONCE = 256


class CoarseRows:
    """The features of one split with `side` by `side` cells taken together."""

    def __init__(self, fine: Rows, grid: int, side: int):
        self.fine, self.grid, self.side = fine, grid, side
        self.ids, self.dtype = fine.ids, fine.dtype
        self.shape = (fine.shape[0], grid * grid, fine.shape[2])

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, index: Int[np.ndarray, " items"]) -> Shaped[np.ndarray, "items parts dim"]:
        """Any rows in any order."""
        return self._cells[index]

    def rows_of(self, image_ids: Sequence[str]) -> Int[np.ndarray, " images"]:
        return self.fine.rows_of(image_ids)

    @cached_property
    def _cells(self) -> Shaped[np.ndarray, "images parts dim"]:
        out = np.empty(self.shape, self.dtype)
        for start in range(0, len(self), _ROWS_AT_ONCE):
            index = np.arange(start, min(start + _ROWS_AT_ONCE, len(self)))
            cells = _in_blocks(self.fine.rows(index), self.grid, self.side)
            out[index] = cells.mean((2, 4), dtype=np.float32).reshape(
                len(index), *out.shape[1:]
            )
        return out


def coarser(store: FeatureStore, grid: int) -> FeatureStore:
    """The same store with `grid` cells per side, which must divide its own."""
    side = store.manifest["grid"] // grid
    manifest = {**store.manifest, "grid": grid, "parts": grid * grid}
    corners = _in_blocks(store.boxes[None], grid, side)[0]
    boxes = np.concatenate(
        [corners[..., :2].min((1, 3)), corners[..., 2:].max((1, 3))], axis=-1
    ).reshape(grid * grid, 4)
    splits = {name: CoarseRows(store.split(name), grid, side) for name in store.names}
    return FeatureStore(store.folder, manifest, boxes, splits)


def _in_blocks(
    cells: Float[np.ndarray, "items parts dim"], grid: int, side: int
) -> Float[np.ndarray, "items grid side grid side dim"]:
    return cells.reshape(len(cells), grid, side, grid, side, cells.shape[-1])
