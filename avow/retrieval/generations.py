"""Generations of a model's rows: the one readers see, and the next one being made.

    begin        a model that is new to the index
    begin_again  everything anew, beside what readers see
    go_on        add to what readers see
    compact      the same rows without the dead ones

Readers change over in one transaction, when the new generation is complete.
"""

import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.searching import Encoder
from avow.retrieval.catalogue import changing, changing_for_good
from avow.retrieval.engines import forget_engines
from avow.retrieval.spaces import Space
from avow.retrieval.writer import NAMED, Writer

_COPIED_AT_ONCE = 8192


def begin(
    link: sqlite3.Connection, index: Path, encoder: Encoder, engine: str, half: bool
) -> Writer:
    """Make room for a model that the index does not know."""
    space = Space(index, encoder.fingerprint)
    forget_engines(space.engines)
    shutil.rmtree(space.folder, ignore_errors=True)
    space.make(encoder)
    with changing(link):
        # not the default until it is complete
        link.execute("INSERT INTO models VALUES (?, 0, 0, 0)", [space.fingerprint])
        fresh = [space.fingerprint, half, engine]
        link.execute("INSERT INTO generations VALUES (?, 0, 0, ?, ?)", fresh)
    return Writer(link, space, 0)


def begin_again(link: sqlite3.Connection, space: Space, engine: str, half: bool) -> Writer:
    """A new generation beside the one that readers see; one that was cut off goes on."""
    model = space.fingerprint
    current, newest = link.execute(
        "SELECT generation, (SELECT max(number) FROM generations WHERE model = fingerprint) "
        "FROM models WHERE fingerprint = ?",
        [model],
    ).fetchone()
    if newest > current:
        started = Writer(link, space, newest)
        if (started.half, started.engine) == (half, engine):
            return started
    with changing(link):
        drop_others(link, model, current)
        fresh = [model, newest + 1, half, engine]
        link.execute("INSERT INTO generations VALUES (?, ?, 0, ?, ?)", fresh)
    space.remove_others({current})
    return Writer(link, space, newest + 1)


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
            for table in ("stored", "generations"):
                drop = f"DELETE FROM {table} WHERE model = ?"
                writer.link.execute(drop, [space.fingerprint])
            drop = "DELETE FROM models WHERE fingerprint = ?"
            writer.link.execute(drop, [space.fingerprint])
    writer.space.remove_others({writer.generation})
    _remove_strangers(writer)


def compact(writer: Writer) -> Writer:
    """Write the live rows anew, without those that nothing names any more."""
    link, space, model = writer.link, writer.space, writer.model
    named = link.execute(NAMED, [model, writer.generation]).fetchall()
    rows = np.array([row for _, row in named], np.int64)
    fresh = writer.generation + 1
    for old in writer.files():
        new = old.beside(fresh)
        new.path.unlink(missing_ok=True)
        new.settle(0)
        kept = old.read(writer.rows)
        for start in range(0, len(rows), _COPIED_AT_ONCE):
            new.write(start, kept[rows[start : start + _COPIED_AT_ONCE]])
    with changing_for_good(link):
        link.execute(
            "INSERT INTO generations VALUES (?, ?, ?, ?, ?)",
            [model, fresh, len(rows), writer.half, writer.engine],
        )
        link.executemany(
            "INSERT INTO stored VALUES (?, ?, ?, ?)",
            [(model, fresh, item, row) for row, (item, _) in enumerate(named)],
        )
        _use(writer, fresh)
    space.remove_others({fresh})
    return Writer(link, space, fresh)


def drop_others(link: sqlite3.Connection, model: str, kept: int) -> None:
    """Forget which rows the other generations had."""
    for table, column in (("stored", "generation"), ("generations", "number")):
        link.execute(f"DELETE FROM {table} WHERE model = ? AND {column} != ?", [model, kept])


def _earlier(writer: Writer) -> list[Space]:
    """Models of the same name with other weights: nobody can ask them any more."""
    index = writer.space.folder.parent.parent
    others = writer.link.execute(
        "SELECT fingerprint FROM models WHERE fingerprint != ?", [writer.model]
    ).fetchall()
    found = []
    for space in (Space(index, row[0]) for row in others):
        try:
            same = space.manifest()["model"] == writer.about["model"]
        except WrongIndex:
            same = True  # without its manifest it is of no use to anybody
        if same:
            found.append(space)
    return found


def _remove_strangers(writer: Writer) -> None:
    """Folders of models that the catalogue does not know, or knows no more."""
    known = {row[0] for row in writer.link.execute("SELECT fingerprint FROM models")}
    for folder in writer.space.folder.parent.iterdir():
        if folder.name not in known:
            forget_engines(Space(folder.parent.parent, folder.name).engines)
            shutil.rmtree(folder, ignore_errors=True)


def _use(writer: Writer, generation: int) -> None:
    before = writer.link.execute(
        "SELECT generation FROM models WHERE fingerprint = ?", [writer.model]
    ).fetchone()[0]
    writer.link.execute(
        "UPDATE models SET generation = ?, used = ? WHERE fingerprint = ?",
        [generation, time.time(), writer.model],
    )
    if before != generation:
        drop_others(writer.link, writer.model, generation)
        writer.stamp()
