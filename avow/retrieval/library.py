"""An index opened for reading: the items, their vectors, and the search over them.

    library = Library.open(Path("index"), encoder)
    ids, scores = library.search(encoder.encode_texts(["a dog"]), k=10)
    library.items(ids[0])

It shows one state of the index, as it was when it was opened or last refreshed, while
another process may add to it.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from avow.core.background import Background
from avow.core.errors import BadQuery, WrongIndex
from avow.core.fingerprint import of_text
from avow.core.places import avow_home
from avow.core.searching import Encoder
from avow.indexes.exact import DEAD
from avow.retrieval.catalogue import open_catalogue, reading, sentences
from avow.retrieval.covered import covered
from avow.retrieval.engines import Searched, open_engine
from avow.retrieval.spaces import Space
from avow.retrieval.where import Where

_AT_ONCE = 500


@dataclass(frozen=True)
class Item:
    """A photograph or a text of an index."""

    id: int
    kind: str
    path: str
    part: str
    text: str | None
    size: int
    width: int | None
    height: int | None
    modified: float
    taken: str | None
    content: str
    tags: tuple[str, ...]
    same_as: int | None


@dataclass(frozen=True)
class Skipped:
    """A file that is not in the index, and why."""

    path: str
    why: str
    when: float


@dataclass(frozen=True)
class Said:
    """What somebody said of an answer."""

    query: dict[str, Any]
    item_id: int
    good: bool
    when: float


@dataclass(frozen=True)
class _State:
    """Rows and ids that belong together."""

    stamp: int
    generation: int
    engine: str
    half: bool
    ids: np.ndarray
    """By row; -1 where the row is dead."""
    kinds: np.ndarray
    """By row."""
    vectors: np.ndarray
    usual: np.ndarray | None
    searched: Searched
    known: np.ndarray
    """Live ids, ascending."""
    rows: np.ndarray
    """The row of each."""


class Library:
    """An index folder opened for one model."""

    def __init__(self, folder: Path, link: sqlite3.Connection, fingerprint: str):
        self.folder = folder
        self._link, self._lock = link, threading.RLock()
        Where.teach(link)
        self._space = Space(folder, fingerprint)
        self._about = self._space.manifest()
        self._state: _State = None  # type: ignore[assignment]  # until it is read
        self._load()

    @classmethod
    def open(cls, folder: Path | None = None, encoder: Encoder | None = None) -> "Library":
        """Open an index for a model; without one, for the model last used to index."""
        folder = folder or avow_home() / "index"
        link = open_catalogue(folder)
        with sentences(folder):
            rows = link.execute("SELECT fingerprint FROM models ORDER BY used DESC").fetchall()
        models = [row[0] for row in rows]
        if not models:
            raise WrongIndex(
                f"The index in {str(folder)!r} is empty. Expected one that `avow index "
                "FOLDER` has filled; run it first."
            )
        if encoder is None:
            return cls(folder, link, models[0])
        if encoder.fingerprint not in models:
            raise other_model(folder, models, encoder.name)
        return cls(folder, link, encoder.fingerprint)

    def close(self) -> None:
        self._state.searched.close()
        self._link.close()

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._state.known)

    @property
    def fingerprint(self) -> str:
        """Of the model and the items: changes with every change of the index."""
        return of_text([self._space.fingerprint, self._about["made"], str(self._state.stamp)])

    @property
    def manifest(self) -> dict[str, Any]:
        """The model, and how its vectors are kept and searched."""
        state = self._state
        kept = {"engine": state.engine, "half": state.half, "exact": state.searched.exact}
        return self._about | kept

    @property
    def dim(self) -> int:
        return self._about["dim"]

    def items(self, ids: Sequence[int] | Int64[np.ndarray, " items"]) -> list[Item]:
        """The items with these numbers, in this order."""
        wanted, found = [int(one) for one in ids], {}
        for start in range(0, len(wanted), _AT_ONCE):
            found |= self._some_items(wanted[start : start + _AT_ONCE])
        try:
            return [found[one] for one in wanted]
        except KeyError as error:
            raise BadQuery(
                f"There is no item {error.args[0]} in the index {str(self.folder)!r}. "
                "Expected a number that a search returned; search again."
            ) from error

    def find(self, where: Where | None = None, kind: str = "image") -> Int64[np.ndarray, " n"]:
        """The numbers of all items of a kind that pass a filter, ascending."""
        state = self._state
        ids = state.known[state.kinds[state.rows] == kind]
        if where is None:
            return ids
        condition, values = where.sql()
        with self._lock, sentences(self.folder):
            rows = self._link.execute(
                "SELECT items.id FROM items JOIN files ON files.id = items.file "
                f"WHERE items.gone = 0 AND items.kind = ? AND ({condition})",
                [kind, *values],
            ).fetchall()
        passing = np.array([row[0] for row in rows], np.int64)
        return ids[np.isin(ids, passing)]

    def vectors(
        self, ids: Sequence[int] | Int64[np.ndarray, " items"]
    ) -> Float32[np.ndarray, "items dim"]:
        """The vectors of items, in this order."""
        state = self._state
        return np.asarray(state.vectors[_rows_of(ids, state, self.folder)], np.float32)

    def usual(self, ids: Sequence[int] | Int64[np.ndarray, " items"]) -> Background | None:
        """What is usual for these items, where the model has a bank of queries for them."""
        state = self._state
        rows = _rows_of(ids, state, self.folder)
        if state.usual is None:
            return None
        kept = np.asarray(state.usual[rows])
        if np.isnan(kept).any():  # texts: the bank asks for pictures only
            return None
        return self._space.background(kept, self._about)

    def search(
        self,
        queries: Float32[np.ndarray, "queries dim"],
        k: int,
        among: Int64[np.ndarray, " chosen"] | None = None,
    ) -> tuple[Int64[np.ndarray, "queries found"], Float32[np.ndarray, "queries found"]]:
        """The nearest items, best first; among: only these."""
        return self._state.searched.search(queries, k, among)

    def search_and_watch(
        self,
        query: Float32[np.ndarray, " dim"],
        k: int,
        watched: Int64[np.ndarray, " items"],
    ) -> tuple[np.ndarray, np.ndarray, Float32[np.ndarray, " items"] | None]:
        """The nearest of all items to one query, and the scores of some that are watched.

        Comparing every row gives those scores for nothing; None where that is not done.
        """
        state = self._state
        if state.engine != "exact" or state.half:
            found = state.searched.search(query[None], k)
            return found[0][0], found[1][0], None
        every = np.empty(len(state.ids), np.float32)
        found = state.searched.rest.search(query[None], k, every=every)
        return found[0][0], found[1][0], every[_rows_of(watched, state, self.folder)]

    def refresh(self) -> bool:
        """Pick up what was committed since; whether anything was."""
        with self._lock, sentences(self.folder):
            now = self._link.execute(
                "SELECT stamp, generation FROM models WHERE fingerprint = ?",
                [self._space.fingerprint],
            ).fetchone()
        if now is None:
            raise WrongIndex(
                f"The index in {str(self.folder)!r} was made anew with another model while "
                "it was open. Vectors of two models cannot be compared; open it again."
            )
        if now == (self._state.stamp, self._state.generation):
            return False
        self._load()
        return True

    def skipped(self) -> list[Skipped]:
        """Files that could not be indexed, by path."""
        with self._lock, sentences(self.folder):
            rows = self._link.execute(
                "SELECT path, why, happened FROM skipped ORDER BY path"
            ).fetchall()
        return [Skipped(*row) for row in rows]

    def folders(self) -> list[str]:
        """The folders that were indexed."""
        return covered(self.folder)

    def retract(self, query: dict[str, Any], item_id: int) -> None:
        """Take back everything that was said of an answer."""
        with self._lock, sentences(self.folder):
            self._link.execute(
                "DELETE FROM feedback WHERE query = ? AND item = ?",
                [json.dumps(query, sort_keys=True), int(item_id)],
            )

    def record(self, query: dict[str, Any], item_id: int, good: bool) -> None:
        """Keep what somebody said of an answer."""
        with self._lock, sentences(self.folder):
            self._link.execute(
                "INSERT INTO feedback (query, item, good, happened) VALUES (?, ?, ?, ?)",
                [json.dumps(query, sort_keys=True), int(item_id), bool(good), time.time()],
            )

    def feedback(self) -> list[Said]:
        """Everything that was said, oldest first."""
        with self._lock, sentences(self.folder):
            rows = self._link.execute(
                "SELECT query, item, good, happened FROM feedback ORDER BY id"
            ).fetchall()
        return [Said(json.loads(row[0]), row[1], bool(row[2]), row[3]) for row in rows]

    def _load(self) -> None:
        with self._lock, sentences(self.folder):
            state = self._read_state()
        before, self._state = self._state, state
        if before is not None:
            before.searched.close()

    def _read_state(self, tries: int = 5) -> _State:
        """A writer may replace the rows between question and answer: then ask again."""
        try:
            return self._read_once()
        except FileNotFoundError as error:
            if tries:
                return self._read_state(tries - 1)
            raise WrongIndex(
                f"A file of the index {str(self.folder)!r} is missing ({error.filename}). "
                "Make the index anew with `avow index --rebuild`."
            ) from error

    def _read_once(self) -> _State:
        model = self._space.fingerprint
        with reading(self._link):
            stamp, generation = self._link.execute(
                "SELECT stamp, generation FROM models WHERE fingerprint = ?", [model]
            ).fetchone()
            count, half, engine = self._link.execute(
                "SELECT rows, half, engine FROM generations WHERE model = ? AND number = ?",
                [model, generation],
            ).fetchone()
            rows = self._link.execute(
                "SELECT items.id, row, kind FROM stored JOIN items ON "
                "items.id = item WHERE model = ? AND generation = ? AND gone = 0",
                [model, generation],
            ).fetchall()
            usual = self._space.usual(generation, self._about)
            vectors = self._space.vectors(generation, self._about, bool(half)).read(count)
            kept = None if usual is None else usual.read(count)
        ids, kinds = np.full(count, DEAD, np.int64), np.full(count, "", "U8")
        if rows:
            numbers, places, names = zip(*rows, strict=True)
            ids[list(places)], kinds[list(places)] = numbers, names
        rows = np.flatnonzero(ids != DEAD)
        rows = rows[np.argsort(ids[rows], kind="stable")]
        place = self._space.engine(engine)
        searched = Searched(ids, vectors, open_engine(place, engine, self._about["dim"]))
        about = (stamp, generation, engine, bool(half))
        return _State(*about, ids, kinds, vectors, kept, searched, ids[rows], rows)

    def _some_items(self, ids: list[int]) -> dict[int, Item]:
        marks = ",".join("?" * len(ids))
        with self._lock, sentences(self.folder):
            rows = self._link.execute(
                "SELECT items.id, kind, path, part, text, size, width, height, "
                "mtime_ns / 1e9, taken, items.content, same_as FROM items JOIN files ON "
                f"files.id = items.file WHERE items.id IN ({marks})",
                ids,
            ).fetchall()
            tags: dict[int, list[str]] = {}
            for item, tag in self._link.execute(
                f"SELECT item, tag FROM tags WHERE item IN ({marks}) ORDER BY item, tag", ids
            ):
                tags.setdefault(item, []).append(tag)
        return {
            row[0]: Item(*row[:11], tags=tuple(tags.get(row[0], ())), same_as=row[11])
            for row in rows
        }


def _rows_of(
    ids: Sequence[int] | Int64[np.ndarray, " items"], state: _State, folder: Path
) -> Int64[np.ndarray, " items"]:
    wanted = np.asarray(ids, np.int64).reshape(-1)
    known = state.known
    places = np.searchsorted(known, wanted)
    inside = np.minimum(places, len(known) - 1)
    right = known[inside] == wanted if len(known) else np.zeros(len(wanted), bool)
    if not right.all():
        raise BadQuery(
            f"There is no item {wanted[~right][0]} in the index {str(folder)!r}. "
            "Expected a number that a search returned; search again."
        )
    return state.rows[places]


def other_model(folder: Path, models: Sequence[str], name: str) -> WrongIndex:
    """The refusal of an index that another model made."""
    known = []
    for fingerprint in models:
        try:
            known.append(repr(Space(folder, fingerprint).manifest()["model"]))
        except WrongIndex:
            known.append(fingerprint)
    if repr(name) in known:
        known = [f"{name!r} with other weights"]
    return WrongIndex(
        f"The index in {str(folder)!r} was made with the model {', '.join(known)}, not with "
        f"{name!r}. Vectors of two models cannot be compared; use that model, or index "
        "the folders again with `avow index --rebuild`."
    )
