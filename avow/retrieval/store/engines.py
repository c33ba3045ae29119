"""The engine of an index, and what it does not know yet.

The rows are what an index is; an engine other than the exact one is made from them and may
lag behind: a writer brings it up to date at the end of a run. Until then, rows that it
lacks are compared one by one, and ids that are gone are taken out of its answers.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from avow import indexes
from avow.core import folder
from avow.core.errors import WrongIndex
from avow.core.folder import AllowCode
from avow.core.searching import Ids, Index, Nearest, Queries
from avow.core.shapes import Int64
from avow.core.vector_forms import Bytes, Decoded, VectorForm
from avow.indexes.exact import DEAD, Exact
from avow.retrieval.store.int8_rows import Int8Rows

_AT_ONCE = 65536
_TRIES = 3


class Searched:
    """One state of the rows, searched through an engine where there is one."""

    def __init__(
        self,
        ids: Int64[np.ndarray, " rows"],
        rows: np.ndarray,
        form: VectorForm,
        engine: Index | None = None,
        *,
        dim: int,
    ):
        self.engine, self.gone = engine, 0
        self.lacking: Int64[np.ndarray, " lacking"] | None = None
        """Rows that the engine does not hold, and that are read here."""
        self.exact = engine is None or engine.exact
        if engine is not None:
            held = engine.ids()
            self.live = np.sort(ids[ids != DEAD])
            self.gone = len(np.setdiff1d(held, self.live))
            lacking = np.flatnonzero((ids != DEAD) & ~np.isin(ids, held))
            self.lacking = lacking
            if len(lacking) < _AT_ONCE:
                ids, rows = ids[lacking], rows[lacking]
            else:
                ids = np.where(np.isin(ids, held), DEAD, ids)
        if isinstance(form, Bytes):
            self.rest: Exact = Int8Rows.over_bytes(ids, rows, dim, form)
        else:
            self.rest = Exact.over(ids, rows)

    def search(self, queries: Queries, k: int, among: Ids | None = None) -> Nearest:
        rest = self.rest.search(queries, k, among)
        if self.engine is None:
            return rest
        if among is not None:
            among = np.intersect1d(among, self.live)
        asked = k if among is not None else k + self.gone
        nearest = self.engine.search(queries, asked, among)
        real = np.isin(nearest[0], self.live)
        ids = np.concatenate([nearest[0], rest[0]], 1)
        scores = np.concatenate([np.where(real, nearest[1], -np.inf), rest[1]], 1)
        there = int(real.sum(1).min(initial=real.shape[1])) + rest[0].shape[1]
        order = np.lexsort((ids, -scores), axis=-1)[:, : min(k, there)]
        best_scores = np.take_along_axis(scores, order, 1).astype(np.float32)
        return np.take_along_axis(ids, order, 1), best_scores

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()


def open_engine(
    place: Path, name: str, dim: int, allow_code: AllowCode = False
) -> Index | None:
    """The engine as a writer left it; none where the rows themselves are searched.

    allow_code: whether it may be a module outside Avow; its name comes from the catalogue.
    """
    if name == "exact":
        return None
    kind = _kind(name, allow_code)
    left = _TRIES
    while place.is_dir():
        left -= 1
        try:
            return kind.open(place, dim)
        except WrongIndex:
            if not left:
                raise
            time.sleep(0.05)  # a writer may be replacing it this very moment
    return folder.make(indexes, name, {"dim": dim}, allow_code=allow_code)  # never saved


def bring_up_to_date(
    place: Path,
    name: str,
    ids: Int64[np.ndarray, " rows"],
    vectors: Decoded,
    anew: bool = False,
    allow_code: AllowCode = False,
) -> None:
    """Make an engine hold exactly the live rows, and save it. anew: replace all it has."""
    try:
        engine = open_engine(place, name, vectors.shape[1], allow_code)
    except WrongIndex:  # damaged: the rows have all that is needed to make it again
        shutil.rmtree(place, ignore_errors=True)
        engine = open_engine(place, name, vectors.shape[1], allow_code)
    if engine is None:
        return
    if anew:
        engine.delete(engine.ids())
    held = engine.ids()
    engine.delete(np.setdiff1d(held, ids[ids != DEAD]))
    rows = np.flatnonzero((ids != DEAD) & ~np.isin(ids, held))
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        engine.add(ids[part], vectors[part])
    engine.save(place)
    engine.close()


def forget_engines(engines: Path, keep: str | None = None) -> None:
    """Remove the engines saved below a folder, all but one, with what they keep elsewhere."""
    for place in sorted(engines.iterdir()) if engines.is_dir() else ():
        if place.name == keep:
            continue
        if place.name in folder.names(indexes):  # the name of a folder imports nothing else
            _kind(place.name).forget(place)
        shutil.rmtree(place, ignore_errors=True)


def _kind(name: str, allow_code: AllowCode = False) -> type[Index]:
    module: Any = folder.find(indexes, name, allow_code=allow_code)
    return module.build.__annotations__["return"]
