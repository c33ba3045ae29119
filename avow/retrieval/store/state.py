"""One state of an index: rows and numbers of items that belong together, read and verified.

The numbers of the items and their kinds are verified here, the vectors when they are needed.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.errors import BadQuery, WrongIndex
from avow.core.folder import AllowCode
from avow.core.shapes import Bool, Int64
from avow.core.vector_forms import FORMS, VectorForm
from avow.indexes.exact import DEAD
from avow.retrieval.store.catalogue import reading
from avow.retrieval.store.engines import Searched, open_engine
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.row_blocks import Blocks, noted
from avow.retrieval.store.row_checksums import FACTOR, PRIME, damaged, intact, is_sealed


@dataclass(frozen=True)
class State:
    """Rows and ids that belong together."""

    stamp: int
    generation: int
    engine: str
    form: VectorForm
    ids: Int64[np.ndarray, " rows"]
    """By row; -1 where the row is dead."""
    texts: Bool[np.ndarray, " rows"]
    """Whether the item of a row is a text; by row."""
    vectors: Blocks
    usual: Blocks | None
    searched: Searched
    live_ids: Int64[np.ndarray, " items"]
    """Live ids, ascending."""
    rows: Int64[np.ndarray, " items"]
    """The row of each."""

    def rows_of(
        self, ids: Sequence[int] | Int64[np.ndarray, " wanted"], folder: Path
    ) -> Int64[np.ndarray, " wanted"]:
        """Where the vectors of these items lie."""
        wanted = np.asarray(ids, np.int64).reshape(-1)
        live_ids = self.live_ids
        places = np.searchsorted(live_ids, wanted)
        inside = np.minimum(places, len(live_ids) - 1)
        right = live_ids[inside] == wanted if len(live_ids) else np.zeros(len(wanted), bool)
        if not right.all():
            raise no_item(int(wanted[~right][0]), folder)
        return self.rows[places]


def no_item(number: int, folder: Path) -> BadQuery:
    return BadQuery(
        f"There is no item {number} in the index {str(folder)!r}. Expected a number that a "
        "search returned; search again."
    )


def current(link: sqlite3.Connection, space: Space, index: Path) -> tuple[int, int] | None:
    """Stamp and generation of a model; None where the index does not know it."""
    fits = intact("models") if is_sealed(link) else "1"
    row = link.execute(
        f"SELECT stamp, generation, {fits} FROM models WHERE fingerprint = ?",
        [space.fingerprint],
    ).fetchone()
    if row is not None and not row[2]:
        raise damaged(index, "a row of the table 'models' has changed")
    return None if row is None else (row[0], row[1])


def read_state(
    link: sqlite3.Connection,
    space: Space,
    about: dict[str, Any],
    before: State | None,
    allow_code: AllowCode = False,
) -> State:
    """What the catalogue says now. before: the state that was read earlier."""
    index = space.folder.parent.parent
    while True:
        asked = current(link, space, index)
        try:
            with reading(link):
                return _read_once(link, space, about, before, allow_code)
        except WrongIndex:
            now = current(link, space, index)
            # a writer may replace the rows between question and answer: then ask again
            if (asked and asked[1]) == (now and now[1]):
                raise


def _read_once(
    link: sqlite3.Connection,
    space: Space,
    about: dict[str, Any],
    before: State | None,
    allow_code: AllowCode,
) -> State:
    index, model = space.folder.parent.parent, space.fingerprint
    now = current(link, space, index)
    if now is None:
        raise replaced(index)
    stamp, generation = now
    count, kept_as, engine, sealed, named, total = _generation(link, model, generation, index)
    form = space.form(kept_as, about)
    files = {
        "vectors": space.vectors(generation, form),
        "usual": space.usual(generation, about),
    }
    # first, so that no more rows are counted below than the files have
    data = {name: file.read(count) for name, file in files.items() if file is not None}
    numbers, places, texts, live = _items(link, model, generation)
    if not (
        ((places >= 0) & (places < count)).all()
        and np.bincount(places, minlength=1).max() <= 1
        and (named is None or (named, total) == (len(numbers), _sum(numbers, places)))
    ):
        raise damaged(index, "rows of the table 'stored' are missing or changed")
    ids, kinds = np.full(count, DEAD, np.int64), np.zeros(count, bool)
    ids[places[live]], kinds[places[live]] = numbers[live], texts[live]
    rows = np.flatnonzero(ids != DEAD)
    rows = rows[np.argsort(ids[rows], kind="stable")]
    same = before is not None and before.generation == generation
    blocks = {
        name: Blocks(
            file,
            data[name],
            noted(link, model, generation, name) if sealed else None,
            getattr(before, name) if same else None,
        )
        for name, file in files.items()
        if file is not None
    }
    vectors = blocks["vectors"]
    opened = open_engine(space.engine(engine), engine, about["dim"], allow_code)
    searched = Searched(ids, vectors.data, form, opened, dim=about["dim"])
    if searched.lacking is not None:
        vectors.check(searched.lacking)
    return State(
        *(stamp, generation, engine, form, ids, kinds),
        *(vectors, blocks.get("usual"), searched, ids[rows], rows),
    )


def _generation(
    link: sqlite3.Connection, model: str, generation: int, index: Path
) -> tuple[int, str, str, bool, int | None, int | None]:
    more = f", sealed, named, total, {intact('generations')}" if is_sealed(link) else ""
    row = link.execute(
        f"SELECT rows, half, engine{more} FROM generations WHERE model = ? AND number = ?",
        [model, generation],
    ).fetchone()
    if row is None or (more and not row[-1]):
        raise damaged(index, "a row of the table 'generations' is missing or has changed")
    count, kept_as, engine = row[:3]
    if not 0 <= kept_as < len(FORMS):
        raise damaged(index, f"its vectors are kept in the unknown form {kept_as}")
    sealed, named, total = row[3:6] if more else (False, None, None)
    return int(count), FORMS[kept_as], str(engine), bool(sealed), named, total


def _items(
    link: sqlite3.Connection, model: str, generation: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of every stored row: item, place, whether it is a text, whether it is live.

    Items that lost their mark, or their row in the catalogue, are left out; the sum tells.
    """
    sealed = is_sealed(link)
    mark = "mark" if sealed else "(kind = 'text') * 2 + gone"
    rows = link.execute(
        f"SELECT item, row, {mark} FROM stored JOIN items ON items.id = item "
        "WHERE model = ? AND generation = ?",
        [model, generation],
    )
    columns = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 3)
    numbers, places, low = columns.T
    if sealed:
        low = low & 3
        fits = columns[:, 2] >> 2 == mixed(numbers, low)
        numbers, places, low = numbers[fits], places[fits], low[fits]
    return numbers, places, low >= 2, low & 1 == 0


def mixed(
    first: Int64[np.ndarray, " rows"], second: Int64[np.ndarray, " rows"]
) -> Int64[np.ndarray, " rows"]:
    """One number for a pair of numbers, as `row_checksums` has it in SQL.

    A sum of cubes changes when two rows swap their cells.
    """
    base = (first * FACTOR + second) % PRIME
    return base * base % PRIME * base % PRIME


def _sum(numbers: Int64[np.ndarray, " rows"], places: Int64[np.ndarray, " rows"]) -> int:
    return int(mixed(numbers, places).sum())


def replaced(index: Path) -> WrongIndex:
    return WrongIndex(
        f"The index in {str(index)!r} was made anew with another model while it was open. "
        "Vectors of two models cannot be compared; open it again."
    )
