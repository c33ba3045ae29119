"""What a store that many machines share must do: one file in `stores/` fulfils it.

    index   put, delete, files            rows by stable ids: repeated work doubles nothing
    search  search, read, count, sample   filters are the store's work, never lists of ids
    trust   `usual` of the rows           what a bank of queries usually scores with an item
    notes   notes, note, erase            feedback, policies, folders, skipped files

Rows live in generations. Readers see the published one; a rebuild fills the next, and
`publish` shows it. A store whose server is away raises `Unavailable`.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.folder import AllowCode
from avow.core.searching import Encoder, Nearest, Queries
from avow.core.shapes import Float32, Int64
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.store.report import Report
from avow.retrieval.where import Where

FORMAT = 1
"""Of everything a store holds; a newer Avow may raise it, and migrates."""
_BITS = 53
"""Of an id: JavaScript and JSON hold whole numbers up to this size."""
_NAME = re.compile("[a-z][a-z0-9_]{0,39}")


Filter = Where | None
Vectors = Float32[np.ndarray, "items dim"]
Usual = Float32[np.ndarray, "items numbers"]
"""As `Space.usual_rows` writes them; no columns where the model has no bank."""


@dataclass(frozen=True)
class Row:
    """An item with all that a filter may ask of it, without its vector."""

    id: int
    kind: str
    path: str
    part: str
    content: str
    file_content: str
    """The hash of the whole file."""
    file_items: int
    """How many items the file has; it is all there when so many rows have its path."""
    size: int
    mtime_ns: int
    text: str | None = None
    width: int | None = None
    height: int | None = None
    taken: str | None = None
    look: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stored:
    """Rows as they were read, in the order in which they were asked for; lost ones are out."""

    rows: tuple[Row, ...]
    vectors: Vectors
    usual: Usual


@dataclass(frozen=True)
class Present:
    """A file as the rows of it tell."""

    path: str
    size: int
    mtime_ns: int
    content: str
    whole: bool
    """Whether all its items are there, and of one version of it."""
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Current:
    """What readers see."""

    generation: int
    stamp: str
    """Changes with every change of rows."""
    noted: str
    """Changes with every change of notes."""
    manifest: dict[str, Any]
    """The model, as `Space` describes it, with `engine`, `half` and `exact`."""
    size: int | None = None
    """How many rows there are, where the store keeps that number beside its stamp."""
    behind: bool = False
    """Whether this is a replica that knows of changes it does not show yet."""


class Store(ABC):
    """Where an index lives: a folder, or a database."""

    @property
    @abstractmethod
    def address(self) -> str:
        """What a user calls it."""

    @abstractmethod
    def library(
        self, encoder: Encoder | None = None, *, allow_code: AllowCode = False
    ) -> OpenIndex:
        """Open it for reading. encoder: refused where another model made the index."""

    @abstractmethod
    def index(self, folders: Sequence[str | Path], encoder: Encoder, **options: Any) -> Report:
        """Bring it up to date with folders; options: as for `indexing.index_folders`."""


class SharedStore(Store):
    """One named index in a database; a handle may be used by several threads."""

    kind: str
    """How addresses begin, such as "postgres"."""

    def __init__(self, name: str):
        self.name = checked_name(self.kind, name)
        self.generation = 0
        """Of the rows that this handle reads and writes; 0: nothing was published yet."""

    @property
    def address(self) -> str:
        return f"{self.kind}:{self.name}"

    def library(
        self, encoder: Encoder | None = None, *, allow_code: AllowCode = False
    ) -> OpenIndex:
        from avow.retrieval.shared_library import SharedLibrary

        return SharedLibrary.open(self, encoder)

    def index(self, folders: Sequence[str | Path], encoder: Encoder, **options: Any) -> Report:
        from avow.retrieval.indexing import index_folders

        return index_folders(folders, index=Path(self.address), encoder=encoder, **options)

    # --- which rows -------------------------------------------------------------------

    @abstractmethod
    def current(self) -> Current | None:
        """What is published; None where the store is empty. Asked before every search."""

    @abstractmethod
    def use(self, current: Current) -> None:
        """Read the rows that are published, from here on."""

    @abstractmethod
    def prepare(self, manifest: Mapping[str, Any], anew: bool) -> None:
        """Set `generation` to rows for this model, and make their tables where needed.

        That is the published generation where its model is this one and `anew` is False,
        else the one that is being filled for this model, else a new one.
        """

    @abstractmethod
    def publish(self) -> None:
        """Show readers this handle's generation, and remove all others."""

    @abstractmethod
    def drop(self) -> None:
        """Remove everything this store holds."""

    # --- rows -------------------------------------------------------------------------

    @abstractmethod
    def put(
        self, rows: Sequence[Row], vectors: Vectors, usual: Usual, gone: Sequence[int] = ()
    ) -> None:
        """Insert or replace rows, and delete others; at once where the store can."""

    def delete(self, ids: Sequence[int]) -> None:
        """Take rows out; ids that are not there are ignored."""
        empty = np.empty((0, 0), np.float32)
        self.put([], empty, empty, ids)

    @abstractmethod
    def files(self, below: Sequence[str]) -> Iterator[Present]:
        """The files whose path is one of `below` or lies in it."""

    @abstractmethod
    def read(self, ids: Sequence[int]) -> Stored: ...

    @abstractmethod
    def find(self, where: Where | None, kind: str) -> Int64[np.ndarray, " items"]:
        """The ids of all rows that pass, ascending. kind: "image" (and moments) or "text"."""

    @abstractmethod
    def count(self, where: Where | None, kind: str, *, files: bool = False) -> int:
        """How many rows pass; files: of how many different files."""

    @abstractmethod
    def sample(self, where: Where | None, kind: str, size: int) -> Int64[np.ndarray, " sample"]:
        """The smallest ids that pass, ascending.

        Ids are hashes, so these are a uniform sample, and the same one in every store.
        """

    @abstractmethod
    def search(
        self, queries: Queries, k: int, where: Filter, kind: str, passing: int | None = None
    ) -> Nearest:
        """The k largest dot products of each query among the rows that pass.

        Best first, ties by the smaller id where every row is compared. passing: how many
        pass, where that is known: few are better compared one by one. An answer with fewer
        columns than `min(k, passing)` is partial.
        """

    # --- notes ------------------------------------------------------------------------

    @abstractmethod
    def notes(self, subject: str, starting: str = "") -> dict[str, str]:
        """The notes on a subject by key, in the order of the keys.

        starting: only keys that begin like this.
        """

    @abstractmethod
    def note(self, subject: str, notes: Mapping[str, str]) -> None:
        """Write notes, in place of earlier ones with their keys."""

    @abstractmethod
    def erase(self, subject: str, keys: Iterable[str]) -> None: ...

    def close(self) -> None:  # some hold nothing
        """Let go of connections."""


def item_id(path: str, part: str, content: str) -> int:
    """The number of one content at one place: the same on every machine and in every run."""
    named = "\0".join((path, part, content)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(named).digest()[:8], "big") >> (64 - _BITS)


def checked_name(kind: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise WrongIndex(
            f"The store {f'{kind}:{name}'!r} has no usable name. Expected up to 40 small "
            f"letters, digits and underscores after {kind!r} and a colon, a letter first."
        )
    return name
