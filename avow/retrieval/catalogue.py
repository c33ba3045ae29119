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

from avow.core.errors import NoRoom, WrongIndex

FILE = "catalogue.sqlite"
FORMAT = 1
_SCHEMA = f"""
CREATE TABLE files (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, folder TEXT NOT NULL,
  name TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
  content TEXT NOT NULL, gone INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX files_by_path ON files(path) WHERE gone = 0;
CREATE INDEX files_by_content ON files(content);
CREATE TABLE items (
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL REFERENCES files(id),
  part TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL, content TEXT NOT NULL,
  text TEXT, width INTEGER, height INTEGER, taken TEXT, look INTEGER, same_as INTEGER,
  gone INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX items_by_place ON items(file, part) WHERE gone = 0;
CREATE INDEX items_by_content ON items(content, kind);
CREATE TABLE tags (
  item INTEGER NOT NULL REFERENCES items(id) ON DELETE CASCADE, tag TEXT NOT NULL,
  PRIMARY KEY (item, tag)) WITHOUT ROWID;
CREATE TABLE models (
  fingerprint TEXT PRIMARY KEY, generation INTEGER NOT NULL, stamp INTEGER NOT NULL,
  used REAL NOT NULL);
CREATE TABLE generations (
  model TEXT NOT NULL REFERENCES models(fingerprint), number INTEGER NOT NULL,
  rows INTEGER NOT NULL, half INTEGER NOT NULL, engine TEXT NOT NULL,
  PRIMARY KEY (model, number)) WITHOUT ROWID;
CREATE TABLE stored (
  model TEXT NOT NULL, generation INTEGER NOT NULL,
  item INTEGER NOT NULL REFERENCES items(id) ON DELETE CASCADE, row INTEGER NOT NULL,
  PRIMARY KEY (model, generation, item)) WITHOUT ROWID;
CREATE INDEX stored_by_item ON stored(item);
CREATE TABLE known (name TEXT NOT NULL, files TEXT NOT NULL, fingerprint TEXT NOT NULL,
  PRIMARY KEY (name, files)) WITHOUT ROWID;
CREATE TABLE skipped (
  path TEXT PRIMARY KEY, why TEXT NOT NULL, happened REAL NOT NULL, size INTEGER,
  mtime_ns INTEGER, inode INTEGER, again INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE feedback (
  id INTEGER PRIMARY KEY, query TEXT NOT NULL, item INTEGER NOT NULL,
  good INTEGER NOT NULL, happened REAL NOT NULL);
PRAGMA user_version = {FORMAT};
"""


def open_catalogue(folder: Path, *, make: bool = False) -> sqlite3.Connection:
    """Connect to the catalogue in `folder`; a missing one is made, or told about."""
    path = folder / FILE
    if not make and not path.is_file():
        raise WrongIndex(
            f"There is no index in {str(folder)!r}. Expected a folder made by "
            "`avow index FOLDER`; run it first, or name another one with --index."
        )
    with sentences(path):
        link = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        link.execute("PRAGMA journal_mode = WAL")
        # a commit survives a kill as it is; only a change of generations waits for the disk
        link.execute("PRAGMA synchronous = NORMAL")
        link.execute("PRAGMA foreign_keys = ON")
        link.execute("PRAGMA busy_timeout = 60000")
        if make:
            _make_tables(link)
        version = link.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT:
        raise WrongIndex(
            f"The index in {str(folder)!r} has format {version}. Expected {FORMAT}; make it "
            "anew with `avow index --rebuild`, or open it with the Avow that made it."
        )
    return link


@contextmanager
def changing(link: sqlite3.Connection) -> Iterator[None]:
    """One transaction: all of it or nothing."""
    link.execute("BEGIN IMMEDIATE")
    try:
        yield
        link.execute("COMMIT")
    except BaseException:
        if link.in_transaction:
            link.execute("ROLLBACK")
        raise


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
    except sqlite3.Error as error:
        # the disk's limit shows as SQLITE_FULL or, in the log file, as SQLITE_IOERR_WRITE
        if getattr(error, "sqlite_errorname", "") in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
            raise NoRoom(
                f"The disk is full while writing {str(path)!r}. Everything written before "
                "is kept. Free some space and run the same command again to continue."
            ) from error
        raise WrongIndex(
            f"The catalogue {str(path)!r} cannot be used ({error}). Expected a file that "
            "`avow index` wrote; check its permissions, or remove its folder and index anew."
        ) from error


def _make_tables(link: sqlite3.Connection) -> None:
    with changing(link):
        if link.execute("PRAGMA user_version").fetchone()[0]:
            return
        for statement in _SCHEMA.split(";\n"):
            link.execute(statement)
