"""Exact search over bytes: every row is compared, and the best ones once more, unrounded.

    query, rounded --products of bytes--> best 200 --the query itself, stored rows--> best k

A quarter of the memory of float32 and a quarter of the time. Scores are those of the rows as
they are kept. `avow[fast]` makes the pass several times as fast.
"""

import numpy as np

from avow.core.byte_products import byte_products
from avow.core.shapes import Float32, Int8, Int64
from avow.core.vector_forms import Bytes, rounded_queries
from avow.indexes.exact import BLOCK, DEAD, Best, Compared, Exact

RESCORED = 200
"""Rows of each query that are compared again with the query as it is."""
_RESCORED_NUMBERS = 2**24


class Int8Rows(Exact):
    """Rows of bytes in memory or in a mapped file."""

    def __init__(self, dim: int, form: Bytes, block: int = BLOCK, threads: int = 0):
        """block: rows compared at once. threads: that compare them; 0: one per core."""
        super().__init__(dim, block=block)
        self.form, self.threads = form, threads
        self._rows = np.empty((0, form.width), np.int8)

    @classmethod
    def over_bytes(
        cls,
        ids: Int64[np.ndarray, " rows"],
        rows: Int8[np.ndarray, "rows width"],
        dim: int,
        form: Bytes,
        *,
        block: int = BLOCK,
        threads: int = 0,
    ) -> "Int8Rows":
        """Search rows that lie somewhere already; -1 marks those that are dead."""
        index = cls(dim, form, block, threads)
        index._rows, index._ids, index._used = rows, ids, len(ids)
        return index

    def vectors(self, ids: Int64[np.ndarray, " items"]) -> Float32[np.ndarray, "items dim"]:
        return self.form.decode(self._rows[self._rows_of(ids)])

    def _stored(self, vectors: Float32[np.ndarray, "items dim"]) -> Int8[np.ndarray, "items _"]:
        return self.form.encode(vectors)

    def _shortlists(self, queries: np.ndarray, among: Compared, k: int) -> Best:
        turned = self.form.turn(queries)
        count = min(max(k, RESCORED), int(np.count_nonzero(among.ids != DEAD)))
        near, _ = super()._shortlists(rounded_queries(turned), among, count)
        scores = np.empty(near.shape, np.float32)
        step = max(1, _RESCORED_NUMBERS // (count * self.form.width))
        for start in range(0, len(near), step):
            part = slice(start, start + step)
            places = self._rows_of(near[part].ravel())
            bytes_ = self._rows[places].reshape(*near[part].shape, -1).astype(np.float32)
            scores[part] = np.matmul(bytes_, turned[part, :, None])[..., 0]
        scores *= np.float32(self.form.step)
        order = np.lexsort((near, -scores), axis=-1)[:, :k]
        return np.take_along_axis(near, order, 1), np.take_along_axis(scores, order, 1)

    def _products(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return byte_products(queries, rows, self.threads)
