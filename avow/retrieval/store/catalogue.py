"""The catalogue of an index: which files and items there are, and who has a vector.

One SQLite file in WAL mode: one process writes, any number read meanwhile. A vector's row
is named here only after its bytes are on the disk, so what the catalogue says is there.

An item is one content at one place: a file that changes gives a new item with a new
number, a file that moves keeps its items. Numbers are never given twice.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from avow.core.errors import NoRoom, WrongIndex
from avow.core.places import CATALOGUE, index_folder
from avow.retrieval.store.row_checksums import (
    DAMAGED,
    arm,
    check_sums,
    damaged,
    definitions_intact,
    intact,
    is_sealed,
    note_definitions,
    seal_everything,
    teach,
)
from avow.retrieval.store.schema import FORMAT, FORMAT_1, FORMAT_2, PLAIN, statements

FILE = CATALOGUE


def open_catalogue(folder: Path, *, make: bool = False) -> sqlite3.Connection:
    """Connect to the catalogue in `folder`; a missing one is made, or refused."""
    path = folder / FILE
    if not make:
        index_folder(folder)
    with sentences(path):
        link = _connected(path, make)
        try:
            if make:
                _make_tables(link)
            version = link.execute("PRAGMA user_version").fetchone()[0]
            if version not in (FORMAT, PLAIN):
                raise WrongIndex(
                    f"The index in {str(folder)!r} has format {version}. Expected {FORMAT}; "
                    "make it anew with `avow index --rebuild`, or open it with the Avow that "
                    "made it."
                )
            if version == FORMAT and not definitions_intact(link):
                raise damaged(folder, "the definition of a table has changed")
        except BaseException:
            link.close()
            raise
    return link


def current_models(link: sqlite3.Connection, folder: Path) -> list[str]:
    """Fingerprints of the models of an index; the one last used to index comes first."""
    with damage_told(folder):
        if is_sealed(link):
            check_rows(link, folder, "models")
        rows = link.execute("SELECT fingerprint FROM models ORDER BY used DESC").fetchall()
        return [str(row[0]) for row in rows]


def check_rows(link: sqlite3.Connection, folder: Path, table: str) -> None:
    """Refuse a table with a row that is damaged, lost or added."""
    check_sums(link, folder, [table])
    wrong = f"SELECT 1 FROM {table} NOT INDEXED WHERE NOT {intact(table)} LIMIT 1"
    if link.execute(wrong).fetchone():
        raise damaged(folder, f"a row of the table {table!r} has changed")


def _connected(path: Path, make: bool) -> sqlite3.Connection:
    """A connection for reading and writing, or for reading only where that is all there is."""
    try:
        return _configured(sqlite3.connect(path, **_SETTINGS), "PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if make or not _may_be_read_only(error):
            raise
    # the log can be neither read nor made: without one, the file itself is all there is
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return _configured(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", **_SETTINGS))
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    return _configured(sqlite3.connect(address, **_SETTINGS))


_SETTINGS: dict[str, Any] = {
    "timeout": 60,
    "isolation_level": None,
    "check_same_thread": False,
    "uri": True,
}


def _configured(link: sqlite3.Connection, first: str = "") -> sqlite3.Connection:
    try:
        if first:
            link.execute(first)
        # a commit survives a kill as it is; only a change of generations waits for the disk
        link.execute("PRAGMA synchronous = NORMAL")
        link.execute("PRAGMA foreign_keys = ON")
        link.execute("PRAGMA trusted_schema = OFF")  # a stranger's file may bring triggers
        link.execute("PRAGMA busy_timeout = 60000")
        link.execute("PRAGMA user_version")
        teach(link)
    except BaseException:
        link.close()
        raise
    return link


def _may_be_read_only(error: sqlite3.OperationalError) -> bool:
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM"))


@contextmanager
def changing(link: sqlite3.Connection) -> Iterator[None]:
    """One transaction: all of it or nothing, and every changed row with its checksum."""
    if is_sealed(link):
        arm(link)
    with transaction(link):
        yield


@contextmanager
def changing_for_good(link: sqlite3.Connection) -> Iterator[None]:
    """The same, and on the disk when it returns: what it replaces may be removed."""
    link.execute("PRAGMA synchronous = FULL")
    try:
        with changing(link):
            yield
    finally:
        link.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def reading(link: sqlite3.Connection) -> Iterator[None]:
    """Several questions to one and the same state of the catalogue."""
    link.execute("BEGIN")
    try:
        yield
    finally:
        link.execute("COMMIT")


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn what SQLite says of broken files and full disks into our own errors."""
    try:
        yield
    except UnicodeDecodeError as error:  # of the message itself, which repeats the damage
        raise damaged(path, "its definitions cannot be read") from error
    except sqlite3.Error as error:
        # the disk's limit shows as SQLITE_FULL or, in the log file, as SQLITE_IOERR_WRITE
        if getattr(error, "sqlite_errorname", "") in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
            raise NoRoom(
                f"The disk is full while writing {str(path)!r}. Everything written before "
                "is kept. Free some space and run the same command again to continue."
            ) from error
        if DAMAGED in str(error):
            raise damaged(path, str(error)) from error
        raise WrongIndex(
            f"The catalogue {str(path)!r} cannot be used ({error}). Expected a file that "
            "`avow index` wrote; check its permissions, or make the index anew with "
            "`avow index --rebuild`, which keeps everything that is intact."
        ) from error


@contextmanager
def damage_told(index: Path) -> Iterator[None]:
    """As `sentences`; values of an unexpected type are reported as damage, too."""
    try:
        with sentences(index):
            yield
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        message = f"{type(error).__name__}: {error}"
        raise damaged(index, f"a row cannot be read ({message})") from error


@contextmanager
def transaction(link: sqlite3.Connection) -> Iterator[None]:
    """All of what is executed inside, or nothing."""
    link.execute("BEGIN IMMEDIATE")
    try:
        yield
        link.execute("COMMIT")
    except BaseException:
        if link.in_transaction:
            link.execute("ROLLBACK")
        raise


def _make_tables(link: sqlite3.Connection) -> None:
    with transaction(link):
        if not link.execute("PRAGMA user_version").fetchone()[0]:
            for statement in statements(FORMAT_1):
                link.execute(statement)
            for statement in statements(FORMAT_2):
                link.execute(statement)
            seal_catalogue(link)


def seal_catalogue(link: sqlite3.Connection) -> None:
    """Give the tables of format 2 their checksums; inside the transaction that made them."""
    seal_everything(link)
    note_definitions(link)
    link.execute(f"PRAGMA user_version = {FORMAT}")
