"""Work over rows, divided among the cores by threads of our own, which meet once at the end.

Those of OpenBLAS meet after each product. Where other programs want the cores too, each
meeting waits for whoever has one, and many small products take ten times as long.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np

from avow.core.shapes import Float32

FEW = 16
"""Queries that are compared with some rows by small products."""
_FEWEST = 2**15
"""Rows that are worth a thread of their own."""
_ALONE = 2**18
"""Multiplications of a product that OpenBLAS does not divide among its threads."""


def over_rows(
    work: Callable[[slice], None], rows: int, threads: int = 0, whole: int = 1
) -> None:
    """Do the work of each part of some rows.

    threads: 0 takes one per core. whole: parts begin at multiples of it, so that what is done
    in blocks of as many rows is the same however many cores there are.
    """
    count = min(threads or _cores(), -(-rows // _FEWEST))
    if count < 2:
        work(slice(0, rows))
        return
    edges = np.linspace(0, rows, count + 1).astype(int) // whole * whole
    edges[-1] = rows
    list(_pool().map(work, (slice(*pair) for pair in pairwise(edges.tolist()))))


def products_alone(
    queries: Float32[np.ndarray, "queries width"],
    rows: Float32[np.ndarray, "rows width"],
    out: Float32[np.ndarray, "queries rows"],
) -> None:
    """What every query scores with every row, by this thread alone where they are `FEW`."""
    if len(queries) == 1:  # a product with one vector is faster than one with a matrix of a row
        np.dot(rows, queries[0], out=out[0])
        return
    many = len(queries) > FEW
    step = len(rows) if many else max(1, _ALONE // max(1, queries.size))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        out[:, part] = queries @ rows[part].T


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), "rows")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads are not there


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
