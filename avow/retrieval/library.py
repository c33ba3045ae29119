"""An index opened for reading: the items, their vectors, and the search over them.

    library = Library.open(Path("index"), encoder)
    ids, scores = library.search(encoder.encode_texts(["a dog"]), k=10)
    library.items(ids[0])

It shows one state of the index, as it was when it was opened or last refreshed, while
another process may add to it.
"""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.background import Background
from avow.core.errors import WrongIndex, WrongTrust
from avow.core.fingerprint import of_text
from avow.core.folder import AllowCode
from avow.core.places import avow_home
from avow.core.searching import Encoder, Ids, Nearest, Queries
from avow.core.shapes import Float32, Int64
from avow.core.written_text import WrittenTexts
from avow.retrieval.merged_shards import smallest_hashes
from avow.retrieval.open_index import Choice, Found, OpenIndex, Skipped
from avow.retrieval.store.catalogue import (
    changing,
    check_rows,
    current_models,
    damage_told,
    open_catalogue,
    sentences,
)
from avow.retrieval.store.feedback import Feedback, read_feedback, set_feedback
from avow.retrieval.store.filter_process import Filters
from avow.retrieval.store.indexed_folders import covered
from avow.retrieval.store.items import (
    Item,
    count_videos,
    read_items,
    read_segments,
)
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.row_checksums import damaged, is_sealed
from avow.retrieval.store.similarity import checked_scores
from avow.retrieval.store.stable_numbers import StableNumbers
from avow.retrieval.store.state import State, current, no_item, read_state, replaced
from avow.retrieval.where import Where

_AT_ONCE = 500
_WRITTEN = "SELECT id, text FROM items WHERE gone = 0 AND kind = 'image' AND text > ''"


class Library(OpenIndex):
    """An index folder opened for one model."""

    def __init__(
        self,
        folder: Path,
        link: sqlite3.Connection,
        fingerprint: str,
        allow_code: AllowCode = False,
    ):
        self.folder, self._allow_code = folder, allow_code
        self._link, self._lock = link, threading.RLock()
        self._space = Space(folder, fingerprint)
        with damage_told(folder):
            self._about = self._space.manifest(sealed=self._sealed)
        self._filters, self._numbers = Filters(folder), StableNumbers(folder)
        self._written: tuple[int | None, WrittenTexts] = (None, WrittenTexts())
        """What is written in pictures, as of a state."""
        self._state: State = None  # type: ignore[assignment]  # until it is read
        self._load()

    @classmethod
    def open(
        cls,
        folder: Path | None = None,
        encoder: Encoder | None = None,
        *,
        allow_code: AllowCode = False,
    ) -> "Library":
        """Open an index for a model; without one, for the model last used to index.

        allow_code: whether the index may name an engine outside Avow, whose code is run.
        """
        folder = folder or avow_home() / "index"
        link = open_catalogue(folder)
        try:
            models = current_models(link, folder)
            if not models:
                raise WrongIndex(
                    f"The index in {str(folder)!r} is empty. Expected one that `avow index "
                    "FOLDER` has filled; run it first."
                )
            if encoder is None:
                return cls(folder, link, models[0], allow_code)
            if encoder.fingerprint not in models:
                raise other_model(folder, models, encoder.name)
            return cls(folder, link, encoder.fingerprint, allow_code)
        except BaseException:
            link.close()
            raise

    def close(self) -> None:
        self._filters.close()
        self._state.searched.close()
        self._link.close()

    def __enter__(self) -> "Library":
        return self

    def __len__(self) -> int:
        return len(self._state.live_ids)

    @property
    def address(self) -> str:
        return str(self.folder)

    @property
    def fingerprint(self) -> str:
        """Of the model and the items: changes with every change of the index."""
        return of_text([self._space.fingerprint, self._about["made"], str(self._state.stamp)])

    @property
    def manifest(self) -> dict[str, Any]:
        """The model, and how its vectors are kept and searched."""
        state = self._state
        storage = {"engine": state.engine, "exact": state.searched.exact}
        kept_as = {"vectors": state.form.name, "half": state.form.name == "float16"}
        return self._about | storage | kept_as

    @property
    def _sealed(self) -> bool:
        """Whether the catalogue has checksums; a writer may add them at any time."""
        # SQLite calls Python for checksums: two threads inside one connection would each
        # wait for the other, one for SQLite and one for the interpreter, and all others too
        with self._lock:
            return is_sealed(self._link)

    def items(self, ids: Sequence[int] | Int64[np.ndarray, " items"]) -> list[Item]:
        """The items with these numbers, in this order."""
        wanted, by_number = [int(number) for number in ids], {}
        with self._lock, damage_told(self.folder):
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                by_number |= read_items(self._link, part, self.folder)
        for number in wanted:
            if number not in by_number:
                self._check_lost(number)
                raise no_item(number, self.folder)
        return [by_number[number] for number in wanted]

    def find(self, where: Where | None = None, kind: str = "image") -> Int64[np.ndarray, " n"]:
        """The numbers of all items of a kind that pass a filter, ascending."""
        state = self._state
        ids = state.live_ids[state.texts[state.rows] == (kind == "text")]
        if where is None:
            return ids
        passing = self._filters.choose(where, kind, len(ids))
        return ids[np.isin(ids, passing)]

    def filter_apart(self) -> None:
        self._filters.go_apart()

    def choose(self, where: Where | None, kind: str, most: int) -> Choice:
        ids = np.sort(self.find(where, kind))
        sampled = ids
        if len(ids) > most:
            with self._lock, damage_told(self.folder):
                numbers = self._numbers.of(self._link, self._state.stamp, ids)
            sampled = smallest_hashes(ids, most, numbers)
        return Choice(len(ids), len(ids) == len(self), sampled, where, kind, ids)

    def nearest(self, queries: Queries, k: int, choice: Choice) -> Found:
        if choice.whole and len(queries) == 1:
            ids, scores, watched = self.search_and_watch(queries[0], k, choice.sampled)
            return Found(ids[None], scores[None], None if watched is None else watched[None])
        return Found(*self.search(queries, k, None if choice.whole else choice.ids))

    def written(self, text: str) -> list[int]:
        """Pictures in which the words of a text are written, those as they stand first."""
        state = self._state
        with self._lock, damage_told(self.folder):
            if self._written[0] != state.stamp:
                self._written = state.stamp, WrittenTexts(self._link.execute(_WRITTEN))
        return self._written[1].find(text)

    def segments(self, item_id: int) -> list[int]:
        """The numbers of all segments of the video that an item is of, in order of time."""
        with self._lock, damage_told(self.folder):
            return read_segments(self._link, item_id)

    def videos(self) -> tuple[int, int]:
        """How many videos there are, and how many segments of them."""
        with self._lock, damage_told(self.folder):
            return count_videos(self._link)

    def vectors(
        self, ids: Sequence[int] | Int64[np.ndarray, " items"]
    ) -> Float32[np.ndarray, "items dim"]:
        """The vectors of items, in this order."""
        state = self._state
        rows = state.rows_of(ids, self.folder)
        state.vectors.check(rows)
        return state.form.decode(state.vectors.data[rows])

    def usual(self, ids: Sequence[int] | Int64[np.ndarray, " items"]) -> Background | None:
        """What is usual for these items, where the model has a bank of queries for them."""
        state = self._state
        rows = state.rows_of(ids, self.folder)
        if state.usual is None:
            return None
        state.usual.check(rows)
        numbers = np.asarray(state.usual.data[rows])
        if np.isnan(numbers).any():  # texts: the bank asks for pictures only
            return None
        return self._space.background(numbers, self._about)

    def search(self, queries: Queries, k: int, among: Ids | None = None) -> Nearest:
        """The nearest items, best first; among: only these."""
        state = self._state
        if state.searched.engine is None and not state.vectors.complete:
            present = among if among is None else among[np.isin(among, state.live_ids)]
            state.vectors.check(
                None if present is None else state.rows_of(present, self.folder)
            )
        ids, scores = state.searched.search(queries, k, among)
        return ids, checked_scores(scores, self.folder)

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
        if state.engine != "exact" or state.form.name != "float32":
            nearest = self.search(query[None], k)
            return nearest[0][0], nearest[1][0], None
        state.vectors.check()
        every = np.empty(len(state.ids), np.float32)
        nearest = state.searched.rest.search(query[None], k, every=every)
        watched_scores = checked_scores(every[state.rows_of(watched, self.folder)], self.folder)
        return nearest[0][0], checked_scores(nearest[1][0], self.folder), watched_scores

    def refresh(self) -> bool:
        """Pick up what was committed since; whether anything was."""
        with self._lock, damage_told(self.folder):
            now = current(self._link, self._space, self.folder)
        if now is None:
            raise replaced(self.folder)
        if now == (self._state.stamp, self._state.generation):
            return False
        self._load()
        return True

    def check_reachable(self) -> None:
        """Ask the store one short question, whatever other threads wait for."""
        with damage_told(self.folder), closing(open_catalogue(self.folder)) as link:
            if current(link, self._space, self.folder) is None:
                raise replaced(self.folder)

    def skipped(self) -> list[Skipped]:
        """Files that could not be indexed, by path."""
        with self._lock, damage_told(self.folder):
            self._check_rows("skipped")
            rows = self._link.execute(
                "SELECT path, why, happened FROM skipped ORDER BY path"
            ).fetchall()
        return [Skipped(*row) for row in rows]

    def folders(self) -> list[str]:
        """The folders that were indexed."""
        return covered(self.folder, needed=self._sealed and len(self) > 0)

    def attach(self, path: Path) -> None:
        """Note a file beside the model's manifest, so that its loss is noticed."""
        with self._lock, sentences(self.folder), changing(self._link):
            if self._sealed:
                row = [self._space.fingerprint, path.name]
                self._link.execute("INSERT OR IGNORE INTO attached VALUES (?, ?)", row)

    def detach(self, name: str) -> bool:
        """Remove an attached file on purpose; whether there was one."""
        path = self._space.folder / name
        with self._lock, sentences(self.folder), changing(self._link):
            there = path.is_file()
            path.unlink(missing_ok=True)
            if self._sealed:
                row = [self._space.fingerprint, name]
                self._link.execute("DELETE FROM attached WHERE model = ? AND name = ?", row)
        return there

    def check_attached(self, name: str) -> None:
        """Refuse to go on without a file that was attached and is no longer there."""
        if not self._sealed or (self._space.folder / name).is_file():
            return
        with self._lock, damage_told(self.folder):
            row = [self._space.fingerprint, name]
            query = "SELECT 1 FROM attached WHERE model = ? AND name = ?"
            if self._link.execute(query, row).fetchone():
                raise WrongTrust(
                    f"The file {str(self._space.folder / name)!r} is missing. Expected what "
                    "`avow calibrate` wrote; run it again."
                )

    def set_feedback(self, query: dict[str, Any], item_id: int, good: bool | None) -> None:
        """Keep an opinion on an answer in place of an earlier one; None takes it back."""
        set_feedback(self.folder, query, item_id, good, replace=True)

    def record(self, query: dict[str, Any], item_id: int, good: bool) -> None:
        """Add feedback on an answer, beside earlier feedback on it."""
        set_feedback(self.folder, query, item_id, good, replace=False)

    def feedback(self) -> list[Feedback]:
        """All feedback, oldest first."""
        with self._lock, damage_told(self.folder):
            self._check_rows("feedback")
            return read_feedback(self._link)

    def feedback_count(self) -> int:
        """How many opinions the index holds."""
        with self._lock, damage_told(self.folder):
            return self._link.execute("SELECT count(*) FROM feedback").fetchone()[0]

    def _check_lost(self, number: int) -> None:
        """An item of this very state that the catalogue does not describe is damage."""
        with self._lock, damage_told(self.folder):
            now = current(self._link, self._space, self.folder)
        state = self._state
        if now == (state.stamp, state.generation) and number in state.live_ids:
            raise damaged(self.folder, f"the description of item {number} is missing")

    def _check_rows(self, table: str) -> None:
        if self._sealed:
            check_rows(self._link, self.folder, table)

    def _load(self) -> None:
        with self._lock, damage_told(self.folder):
            state = read_state(
                self._link, self._space, self._about, self._state, self._allow_code
            )
        before, self._state = self._state, state
        if before is not None:
            before.searched.close()


def other_model(folder: Path, models: Sequence[str], name: str) -> WrongIndex:
    """The refusal of an index that another model made."""
    names = []
    for fingerprint in models:
        try:
            names.append(repr(Space(folder, fingerprint).manifest()["model"]))
        except WrongIndex:
            names.append(fingerprint)
    if repr(name) in names:
        names = [f"{name!r} with other weights"]
    return WrongIndex(
        f"The index in {str(folder)!r} was made with the model {', '.join(names)}, not with "
        f"{name!r}. Vectors of two models cannot be compared; use that model, or index "
        "the folders again with `avow index --rebuild`."
    )
