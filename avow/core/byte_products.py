"""Dot products of bytes: by numkong where it is installed, else by numpy.

`pip install 'avow[fast]'` brings numkong, whose products of bytes are single instructions of
the processor. Without it numpy widens the rows block by block, several times as slowly.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from avow.core.own_threads import FEW, over_rows, products_alone
from avow.core.shapes import Float32, Int8

_WIDENED_BYTES = 2**18
"""Numbers widened at once: they stay in the cache of a core."""


def byte_products(
    queries: Int8[np.ndarray, "queries width"],
    rows: Int8[np.ndarray, "rows width"],
    threads: int = 0,
) -> Float32[np.ndarray, "queries rows"]:
    """What every query scores with every row. threads: 0 takes one per core."""
    out = np.empty((len(queries), len(rows)), np.float32)
    if not out.size:
        return out
    products = _numkong_products(queries)
    if products is None:
        products = _numpy_products(queries)
        if len(queries) > FEW:
            threads = 1  # those of OpenBLAS divide such products
    over_rows(lambda part: products(rows[part], out[:, part]), len(rows), threads)
    return out


def is_fast() -> bool:
    """Whether numkong is there."""
    return _numkong() is not None


Products = Callable[[np.ndarray, np.ndarray], None]
"""Of some rows; the scores are written to the second argument."""


def _numkong_products(queries: np.ndarray) -> Products | None:
    numkong = _numkong()
    if numkong is None:
        return None
    queries = np.ascontiguousarray(queries)
    if len(queries) == 1 and not _has_tiles():
        # packing pays for several queries; for one it takes half as long again

        def of_one(rows: np.ndarray, out: np.ndarray) -> None:
            numkong.cdist(queries, np.ascontiguousarray(rows), "dot", out=out)

        return of_one
    packed = numkong.dots_pack(queries, "int8")

    def of_several(rows: np.ndarray, out: np.ndarray) -> None:
        scores = numkong.dots_packed(np.ascontiguousarray(rows), packed)
        np.copyto(out, np.asarray(scores).T, casting="same_kind")

    return of_several


def _numpy_products(queries: np.ndarray) -> Products:
    wide = queries.astype(np.float32)
    often = 4 if len(queries) > FEW else 1  # what many threads divide is larger
    step = max(1, often * _WIDENED_BYTES // queries.shape[1])

    def products(rows: np.ndarray, out: np.ndarray) -> None:
        widened = np.empty((min(step, len(rows)), rows.shape[1]), np.float32)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            block = widened[: len(part)]
            np.copyto(block, part)
            products_alone(wide, block, out[:, start : start + len(part)])

    return products


@cache
def _numkong() -> Any:
    try:
        import numkong
    except ImportError:
        return None
    return numkong


@cache
def _has_tiles() -> bool:
    """Whether the processor multiplies tiles of bytes (AMX), which want packed queries."""
    return bool(_numkong().get_capabilities().get("sapphireamx"))
