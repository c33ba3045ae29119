"""Generations of a model's rows: the one readers see, and the next one being made.

    begin        a model that is new to the index
    begin_again  everything anew, beside what readers see
    go_on        add to what readers see
    compact      the same rows without the dead ones

Readers change over in one transaction, when the new generation is complete.
"""

import shutil
import sqlite3
from pathlib import Path

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.searching import Encoder
from avow.core.vector_forms import FORMS
from avow.retrieval.store.catalogue import changing, changing_for_good
from avow.retrieval.store.engines import forget_engines
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.row_blocks import Noted, continued, note
from avow.retrieval.store.stable_numbers import StableNumbers
from avow.retrieval.store.writer import NAMED, Writer

_COPIED_AT_ONCE = 8192
_NEW = """
INSERT INTO generations (model, number, rows, half, engine, sealed) VALUES (?, ?, ?, ?, ?, 1)
"""


def begin(
    link: sqlite3.Connection, index: Path, encoder: Encoder, engine: str, vectors: str
) -> Writer:
    """Make room for a model that the index does not know. vectors: how they are kept."""
    space = Space(index, encoder.fingerprint)
    forget_engines(space.engines)
    _clear(space.folder)
    space.make(encoder)
    if vectors == "int8x256":
        space.keep_projection(encoder)
    with changing(link):
        # not the default until it is complete
        link.execute(
            "INSERT INTO models (fingerprint, generation, stamp, used) VALUES (?, 0, 0, 0)",
            [space.fingerprint],
        )
        link.execute(_NEW, [space.fingerprint, 0, 0, FORMS.index(vectors), engine])
    return Writer(link, space, 0)


def begin_again(link: sqlite3.Connection, space: Space, engine: str, vectors: str) -> Writer:
    """A new generation beside the one that readers see; one that was cut off goes on."""
    model = space.fingerprint
    current, newest = link.execute(
        "SELECT generation, (SELECT max(number) FROM generations WHERE model = fingerprint) "
        "FROM models WHERE fingerprint = ?",
        [model],
    ).fetchone()
    if newest > current:
        started = _started(link, space, newest)
        if started is not None and (started.vectors_as, started.engine) == (
            vectors,
            engine,
        ):
            return started
    with changing(link):
        drop_others(link, model, current)
        link.execute(_NEW, [model, newest + 1, 0, FORMS.index(vectors), engine])
    space.remove_others({current})
    return Writer(link, space, newest + 1)


def remembered(link: sqlite3.Connection, space: Space) -> tuple[str, str]:
    """How the generation that readers see keeps its vectors, and its engine.

    float32 and "exact" where that is damaged.
    """
    row = link.execute(
        "SELECT half, engine FROM generations JOIN models ON model = fingerprint "
        "AND number = generation WHERE model = ?",
        [space.fingerprint],
    ).fetchone()
    form, engine = row or (0, "exact")
    whole = form in range(len(FORMS)) and isinstance(engine, str)
    return (FORMS[form], engine) if whole else (FORMS[0], "exact")


def _started(link: sqlite3.Connection, space: Space, generation: int) -> Writer | None:
    """A rebuild that was cut off; None where what it wrote is damaged."""
    try:
        writer = Writer(link, space, generation)
        for rows in writer.files():
            writer.verified(rows)
        return writer
    except WrongIndex:
        return None


def go_on(link: sqlite3.Connection, space: Space, engine: str | None) -> Writer:
    """The generation that readers see; a rebuild that was cut off is given up."""
    model = space.fingerprint
    with changing(link):
        current = link.execute(
            "SELECT generation FROM models WHERE fingerprint = ?", [model]
        ).fetchone()[0]
        drop_others(link, model, current)
        if engine is not None:
            link.execute(
                "UPDATE generations SET engine = ? WHERE model = ? AND number = ?",
                [engine, model, current],
            )
    space.remove_others({current})
    return Writer(link, space, current)


def use(writer: Writer) -> None:
    """Make this generation the one that readers see, and this model the default."""
    earlier = _earlier(writer)
    with changing_for_good(writer.link):
        _use(writer, writer.generation)
        for space in earlier:
            for table in ("stored", "generations", "blocks", "attached"):
                drop = f"DELETE FROM {table} WHERE model = ?"
                writer.link.execute(drop, [space.fingerprint])
            drop = "DELETE FROM models WHERE fingerprint = ?"
            writer.link.execute(drop, [space.fingerprint])
    writer.space.remove_others({writer.generation})
    _remove_strangers(writer)
    StableNumbers(writer.space.folder.parent.parent).keep(writer.link)


def compact(writer: Writer) -> Writer:
    """Write the live rows anew, without those that nothing names any more."""
    link, space, model = writer.link, writer.space, writer.model
    named = link.execute(NAMED, [model, writer.generation]).fetchall()
    rows = np.array([row for _, row in named], np.int64)
    fresh = writer.generation + 1
    blocks: dict[str, Noted] = {}
    for old in writer.files():
        new, checksums = old.beside(fresh), blocks.setdefault(old.path.stem, {})
        new.path.unlink(missing_ok=True)
        new.settle(0)
        old_rows = writer.verified(old).data
        for start in range(0, len(rows), _COPIED_AT_ONCE):
            data = new.write(start, old_rows[rows[start : start + _COPIED_AT_ONCE]])
            checksums |= continued(checksums, new, start, data)
    with changing_for_good(link):
        kept_as = FORMS.index(writer.vectors_as)
        link.execute(_NEW, [model, fresh, len(rows), kept_as, writer.engine])
        for name, checksums in blocks.items():
            note(link, model, fresh, name, checksums)
        link.executemany(
            "INSERT INTO stored VALUES (?, ?, ?, ?)",
            [(model, fresh, item, row) for row, (item, _) in enumerate(named)],
        )
        _use(writer, fresh)
    space.remove_others({fresh})
    return Writer(link, space, fresh)


def drop_others(link: sqlite3.Connection, model: str, keep: int) -> None:
    """Forget which rows the other generations had."""
    for table, column in (
        ("stored", "generation"),
        ("generations", "number"),
        ("blocks", "generation"),
    ):
        link.execute(f"DELETE FROM {table} WHERE model = ? AND {column} != ?", [model, keep])


def _earlier(writer: Writer) -> list[Space]:
    """Models of the same name with other weights: nobody can ask them any more."""
    index = writer.space.folder.parent.parent
    rows = writer.link.execute(
        "SELECT fingerprint FROM models WHERE fingerprint != ?", [writer.model]
    ).fetchall()
    earlier = []
    for space in (Space(index, row[0]) for row in rows):
        try:
            same = space.manifest()["model"] == writer.about["model"]
        except WrongIndex:
            same = True  # without its manifest it is of no use to anybody
        if same:
            earlier.append(space)
    return earlier


def _clear(folder: Path) -> None:
    """Remove what an index kept of a model, but not the trust that was fitted for it."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif not path.match("trust-*.json"):
            path.unlink(missing_ok=True)


def _remove_strangers(writer: Writer) -> None:
    """Folders of models that the catalogue does not know, or knows no more."""
    fingerprints = {row[0] for row in writer.link.execute("SELECT fingerprint FROM models")}
    for folder in writer.space.folder.parent.iterdir():
        if folder.name not in fingerprints:
            forget_engines(Space(folder.parent.parent, folder.name).engines)
            shutil.rmtree(folder, ignore_errors=True)


def _use(writer: Writer, generation: int) -> None:
    before = writer.link.execute(
        "SELECT generation FROM models WHERE fingerprint = ?", [writer.model]
    ).fetchone()[0]
    writer.link.execute(
        # a counter rather than the time: clocks are set back
        "UPDATE models SET generation = ?, used = (SELECT max(used) + 1 FROM models) "
        "WHERE fingerprint = ?",
        [generation, writer.model],
    )
    if before != generation:
        drop_others(writer.link, writer.model, generation)
        writer.stamp()
