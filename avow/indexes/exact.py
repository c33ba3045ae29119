"""Exact search: every vector is compared, in blocks, in one pass over the memory.

The rows may be a memory-mapped file that another process appends to: they are only read.
Dead rows stay where they are, with the id -1, until somebody writes the rows anew.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from avow.core.documents import read_file
from avow.core.errors import WrongIndex
from avow.core.files import new_folder, recover
from avow.core.own_threads import FEW, over_rows, products_alone
from avow.core.searching import Index
from avow.core.shapes import Float, Float32, Int64
from avow.indexes._vectors import checked, last_of_each

Best = tuple[Int64[np.ndarray, "queries _"], Float32[np.ndarray, "queries _"]]
"""Ids and scores of every query, best first."""
DEAD = -1
BLOCK = 2**18
"""Rows compared at once: few large products keep every core busy."""
_SCORES_AT_ONCE = 2**24
_OF_ALL_CORES = 2**25
"""Numbers of a product that takes all cores: two at once wait for each other, and take longer
than one after the other, with OpenBLAS many times as long."""
_TURN = threading.Lock()
_FEW = 4
"""A choice smaller than one in so many rows is gathered, a larger one is masked."""
_LOWEST = np.finfo(np.float32).min
_HALF_ROWS = 256
"""Half-precision rows widened at once: they stay in the cache of a core."""
_HALF_MANY = 2048
"""The same for many queries, whose products want larger blocks."""
_BIAS = 112
"""Between the exponents of float32 and of half precision, in powers of two."""
_NOT_SIGN_COPIES = np.int32(-0x70000001)


class Compared(NamedTuple):
    """What a search looks at: ids and rows, dead ones included."""

    ids: np.ndarray
    rows: np.ndarray
    every: np.ndarray | None
    """Receives what the first query scores with each row."""


class Exact(Index):
    """Vectors in memory or in a mapped file, float32 or half of it."""

    exact = True

    def __init__(self, dim: int, half: bool = False, block: int = BLOCK):
        self.dim, self.block = dim, block
        self._rows: np.ndarray = np.empty((0, dim), np.float16 if half else np.float32)
        self._ids = np.empty(0, np.int64)
        self._used = 0
        self._places: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def over(
        cls,
        ids: Int64[np.ndarray, " rows"],
        rows: Float[np.ndarray, "rows dim"],
        block: int = BLOCK,
    ) -> "Exact":
        """Search rows that lie somewhere already; -1 marks those that are dead."""
        index = cls(rows.shape[1], rows.dtype == np.float16, block)
        index._rows, index._ids, index._used = rows, ids, len(ids)
        return index

    def add(
        self, ids: Int64[np.ndarray, " items"], vectors: Float32[np.ndarray, "items dim"]
    ) -> None:
        vectors = checked(vectors, self.dim)
        last = last_of_each(ids)
        ids, vectors = ids[last], vectors[last]
        self.delete(ids)
        self._make_room(len(ids))
        end = self._used + len(ids)
        self._rows[self._used : end] = self._stored(vectors)
        self._ids[self._used : end] = ids
        self._used, self._places = end, None

    def _stored(self, vectors: Float32[np.ndarray, "items dim"]) -> np.ndarray:
        return vectors

    def delete(self, ids: Int64[np.ndarray, " items"]) -> None:
        gone = np.isin(self._ids[: self._used], ids)
        if gone.any():
            self._ids = np.where(gone, DEAD, self._ids[: self._used])
            self._rows = self._rows[: self._used]
            self._places = None

    def search(
        self,
        queries: Float32[np.ndarray, "queries dim"],
        k: int,
        among: Int64[np.ndarray, " chosen"] | None = None,
        every: Float32[np.ndarray, " rows"] | None = None,
    ) -> tuple[Int64[np.ndarray, "queries best"], Float32[np.ndarray, "queries best"]]:
        """every: receives what the first query scores with each row, where all are compared."""
        queries = checked(queries, self.dim)
        ids, rows = self._ids[: self._used], self._rows[: self._used]
        if among is not None:
            if not (among[1:] > among[:-1]).all():  # a gallery is in order already
                among = np.unique(among)
            places = self._rows_of(among)
            if len(places) * _FEW < self._used:
                ids, rows = ids[places], rows[places]
            else:
                allowed = np.zeros(self._used, bool)
                allowed[places] = True
                ids = np.where(allowed, ids, DEAD)
        count = max(0, min(k, int(np.count_nonzero(ids != DEAD))))
        if not count:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), "f4")
        return self._shortlists(queries, Compared(ids, rows, every), count)

    def _shortlists(self, queries: np.ndarray, among: Compared, k: int) -> Best:
        """The best k of each query, block by block."""
        ids, rows, every = among
        best = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        step = max(1, min(self.block, _SCORES_AT_ONCE // max(1, len(queries))))
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            scores = self._products(queries, rows[part])
            if every is not None:
                every[part] = scores[0]
            dead = ids[part] == DEAD
            if dead.any():
                scores[:, dead] = -np.inf
            best = _merged(best, ids[part], scores, k)
        return best

    def _products(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return _products(queries, rows)

    def ids(self) -> Int64[np.ndarray, " items"]:
        return self._sorted()[0]

    def vectors(self, ids: Int64[np.ndarray, " items"]) -> Float32[np.ndarray, "items dim"]:
        return np.asarray(self._rows[self._rows_of(ids)], np.float32)

    def save(self, folder: Path) -> None:
        ids = self.ids()
        with new_folder(folder) as home:
            with (home / "vectors").open("wb") as stream:
                for start in range(0, len(ids), self.block):
                    part = self._rows_of(ids[start : start + self.block])
                    stream.write(np.ascontiguousarray(self._rows[part]).tobytes())
            np.save(home / "ids.npy", ids)
            about = {"engine": "exact", "dim": self.dim, "dtype": self._rows.dtype.name}
            (home / "exact.json").write_text(json.dumps(about))

    @classmethod
    def open(cls, folder: Path, dim: int) -> "Exact":
        recover(folder)
        try:
            about = json.loads(read_file(folder / "exact.json"))
            ids = np.load(folder / "ids.npy", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise WrongIndex(
                f"There is no exact index in {str(folder)!r} ({error}). Expected a folder "
                "that an index was saved to."
            ) from error
        if about["dim"] != dim:
            raise WrongIndex(
                f"The index in {str(folder)!r} has vectors of {about['dim']} numbers. "
                f"Expected {dim}; open it with the model that made it."
            )
        return cls.over(ids, mapped(folder / "vectors", len(ids), dim, about["dtype"]))

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Live ids ascending, and the row of each."""
        if self._places is None:
            rows = np.flatnonzero(self._ids[: self._used] != DEAD)
            order = np.argsort(self._ids[rows], kind="stable")
            self._places = self._ids[rows][order], rows[order]
        return self._places

    def _rows_of(self, ids: Int64[np.ndarray, " items"]) -> Int64[np.ndarray, " rows"]:
        """The rows of those ids that are there."""
        live_ids, rows = self._sorted()
        if not len(live_ids):
            return np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(live_ids, ids), len(live_ids) - 1)
        return rows[places[live_ids[places] == ids]]

    def _make_room(self, more: int) -> None:
        needed = self._used + more
        if needed <= len(self._rows) and self._rows.flags.writeable:
            return
        size = max(needed, 2 * self._used)
        rows = np.empty((size, self._rows.shape[1]), self._rows.dtype)
        ids = np.full(size, DEAD, np.int64)
        rows[: self._used] = self._rows[: self._used]
        ids[: self._used] = self._ids[: self._used]
        self._rows, self._ids = rows, ids


def mapped(path: Path, rows: int, dim: int, dtype: str) -> Float[np.ndarray, "rows dim"]:
    """The first `rows` rows of a file, without reading them."""
    if not rows:
        return np.empty((0, dim), dtype)
    return np.memmap(path, dtype, "r", shape=(rows, dim))


def _products(
    queries: Float32[np.ndarray, "queries dim"], rows: Float[np.ndarray, "rows dim"]
) -> Float32[np.ndarray, "queries rows"]:
    """What every query scores with every row, in float32 whatever the rows are stored in."""
    if rows.dtype == np.float16:
        return _half_products(queries, rows)
    with _TURN if rows.size > _OF_ALL_CORES else nullcontext():
        # a product with one vector is much faster than one with a matrix of one column
        return (rows @ queries[0])[None] if len(queries) == 1 else queries @ rows.T


def _half_products(
    queries: Float32[np.ndarray, "queries dim"], rows: Float[np.ndarray, "rows dim"]
) -> Float32[np.ndarray, "queries rows"]:
    """The same of half-precision rows, widened block by block; exact to float32 rounding.

    Shifted into the places of a float32, the bits of a half are its value divided by
    2 ** 112, and numpy shifts four times as fast as it converts. The queries make up for the
    factor; scaled by powers of two, they lose nothing. Rows are finite: the writer checks.
    """
    _, exponents = np.frexp(np.abs(queries).max(1, keepdims=True))
    scaled = np.ldexp(queries, _BIAS - exponents)
    scores = np.empty((len(queries), len(rows)), np.float32)
    if len(queries) > FEW:
        with _TURN if rows.size > _OF_ALL_CORES else nullcontext():
            for start, values in _widened(rows, _HALF_MANY):
                scores[:, start : start + len(values)] = scaled @ values.T
    else:
        over_rows(
            lambda part: _few_products(scaled, rows[part], scores[:, part]),
            len(rows),
            whole=_HALF_ROWS,
        )
    return np.ldexp(scores, exponents)


def _few_products(scaled: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> None:
    """Of some half-precision rows; the scores are written."""
    for start, values in _widened(rows, _HALF_ROWS):
        products_alone(scaled, values, scores[:, start : start + len(values)])


def _widened(rows: np.ndarray, step: int) -> Iterator[tuple[int, np.ndarray]]:
    """Where each block of half-precision rows begins, and its numbers divided by 2 ** 112."""
    bits = rows.view(np.int16)
    widened = np.empty((min(step, len(rows)), rows.shape[1]), np.int32)
    for start in range(0, len(rows), step):
        part = bits[start : start + step]
        block = widened[: len(part)]
        np.copyto(block, part)  # copies the sign bit into all of the upper half
        np.left_shift(block, 13, out=block)
        np.bitwise_and(block, _NOT_SIGN_COPIES, out=block)
        yield start, block.view(np.float32)


def _merged(
    best: Best,
    ids: Int64[np.ndarray, " rows"],
    scores: Float32[np.ndarray, "queries rows"],
    k: int,
) -> Best:
    """The best so far of every query, with a block of scores added."""
    queries, width = best[1].shape
    if width < k:
        last = max(0, len(ids) - k)
        least = np.partition(scores, last, axis=1)[:, last : last + 1]
    else:
        least = best[1][:, -1:]
    # what ties with the last one stays in, so that the id decides; what is dead stays out
    above = np.flatnonzero(scores >= np.maximum(least, _LOWEST))
    if not len(above):
        return best
    query, place = np.divmod(above, len(ids))  # faster than np.nonzero over two axes
    whose = np.concatenate([np.repeat(np.arange(queries), width), query])
    names = np.concatenate([best[0].ravel(), ids[place]])
    values = np.concatenate([best[1].ravel(), scores[query, place]])
    order = np.lexsort((names, -values, whose))
    whose = whose[order]
    rank = np.arange(len(whose)) - np.searchsorted(whose, np.arange(queries))[whose]
    order = order[rank < k]  # as many for every query: all see the same rows
    return names[order].reshape(queries, -1), values[order].reshape(queries, -1)


def build(*, dim: int, half: bool = False, block: int = BLOCK) -> Exact:
    """half: store sixteen bits per number. block: rows compared at once."""
    return Exact(dim, half, block)
