"""An index in a shared store, opened for reading: the same promises as a folder's `Library`.

Rows that were read lately stay in memory until the store changes. Policies lie in the store
too; a copy of each is kept in a folder of this process, where a search looks for them.
"""

import json
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.background import Background
from avow.core.camera import place_of, without_place
from avow.core.errors import Unavailable, WrongIndex
from avow.core.fingerprint import of_text
from avow.core.searching import LONGEST_TEXT, Encoder, Nearest, Queries
from avow.core.shapes import Bool, Float32, Int64
from avow.retrieval import store_documents as documents
from avow.retrieval.named_items import quoted
from avow.retrieval.open_index import Choice, Found, Numbers, OpenIndex, Skipped
from avow.retrieval.store.feedback import Feedback, checked
from avow.retrieval.store.items import TAG_LETTERS, TAGS_SHOWN, Item
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.similarity import checked_scores
from avow.retrieval.store.state import no_item, replaced
from avow.retrieval.store_contract import Current, Row, SharedStore
from avow.retrieval.where import Where

_KEPT = 4096
"""Rows in memory at most, with their vectors."""
_TRIES = 3
_VIDEOS = Where.parse("kind=video")
Kept = tuple[Row, np.ndarray, np.ndarray]


class SharedLibrary(OpenIndex):
    """A store opened for the model that made it."""

    def __init__(self, store: SharedStore, current: Current):
        self._store, self._current, self._lock = store, current, threading.RLock()
        self._place = tempfile.TemporaryDirectory(prefix="avow-", ignore_cleanup_errors=True)
        self.folder = Path(self._place.name)
        self._space = Space(self.folder, current.manifest["fingerprint"])
        self._space.folder.mkdir(parents=True)
        self._rows: dict[int, Kept] = {}
        self._documents: dict[str, str] = {}
        self._size = ("", 0)
        store.use(current)
        self._fetch_documents()

    @classmethod
    def open(cls, store: SharedStore, encoder: Encoder | None = None) -> "SharedLibrary":
        """encoder: refused where another model made the index."""
        current = store.current()
        if current is None:
            raise WrongIndex(
                f"The store {store.address!r} is empty. Expected one that `avow index FOLDER "
                f"--index {store.address}` has filled; run it first."
            )
        if encoder is not None:
            refuse_other_model(store, current, encoder)
        return cls(store, current)

    def close(self) -> None:
        self._store.close()
        self._place.cleanup()

    def __len__(self) -> int:
        """As the store keeps it with its stamp; else counted once for each state."""
        if self._current.size is not None:
            return self._current.size
        if self._size[0] != self.fingerprint:
            size = self.count(None, "image") + self.count(None, "text")
            self._size = self.fingerprint, size
        return self._size[1]

    @property
    def address(self) -> str:
        return self._store.address

    @property
    def manifest(self) -> dict[str, Any]:
        return self._current.manifest

    @property
    def fingerprint(self) -> str:
        now = self._current
        return of_text([now.manifest["fingerprint"], str(now.generation), now.stamp])

    def refresh(self) -> bool:
        before, now = self._current, self._store.current()
        if now is None or now.manifest["fingerprint"] != before.manifest["fingerprint"]:
            raise replaced(Path(self.address))
        if now == before:
            return False
        with self._lock:
            self._current = now
            if (now.generation, now.stamp) != (before.generation, before.stamp):
                self._store.use(now)
                self._rows = {}
            if now.noted != before.noted:
                self._fetch_documents()
        return True

    def check_reachable(self) -> None:
        if self._store.current() is None:
            raise replaced(Path(self.address))

    # --- items ------------------------------------------------------------------------

    def items(self, ids: Numbers) -> list[Item]:
        return [_shown(row) for row, _, _ in self._read(ids)]

    def vectors(self, ids: Numbers) -> Float32[np.ndarray, "items dim"]:
        read = [vector for _, vector, _ in self._read(ids)]
        return np.array(read, np.float32).reshape(len(read), self.dim)

    def usual(self, ids: Numbers) -> Background | None:
        numbers = np.array([usual for _, _, usual in self._read(ids)], np.float32)
        if not self.manifest["bank"] or np.isnan(numbers).any():  # texts have none
            return None
        return self._space.background(numbers, self.manifest)

    def find(self, where: Where | None = None, kind: str = "image") -> Int64[np.ndarray, " n"]:
        return self._store.find(where, kind)

    def count(self, where: Where | None = None, kind: str = "image") -> int:
        return self._store.count(where, kind)

    def filter_apart(self) -> None:
        """Nothing to do: its server filters."""

    def choose(self, where: Where | None, kind: str, most: int) -> Choice:
        sampled = self._store.sample(where, kind, most)
        found = len(sampled)
        with suppress(Unavailable):  # who needs the rows is told
            sampled = sampled[self._present(sampled)]
        # fewer than asked for are all there are
        count = len(sampled) if found < most else self._store.count(where, kind)
        return Choice(max(count, len(sampled)), where is None, sampled, where, kind)

    def nearest(self, queries: Queries, k: int, choice: Choice) -> Found:
        asked = (k, choice.where, choice.kind, choice.count)
        ids, scores = self._searched(queries, *asked)
        got, wanted = ids.shape[1], min(k, choice.count)
        missing: tuple[str, ...] = ()
        if self._current.behind:
            missing = (f"{self.address!r} is read from a replica, which is behind.",)
        elif got < wanted and self._store.current() == self._current:  # else some were deleted
            missing = (f"{self.address!r} gave {got} of {wanted} items.",)
        return Found(ids, checked_scores(scores, Path(self.address)), missing=missing)

    def written(self, text: str) -> list[int]:
        return []  # a shared store keeps no text of pictures

    def segments(self, item_id: int) -> list[int]:
        where = Where.parse(f"kind=video and path={quoted(self.items([item_id])[0].path)}")
        moments = {item.id: item.moment for item in self.items(self.find(where))}
        times = {number: moment.start for number, moment in moments.items() if moment}
        return sorted(times, key=lambda number: (times[number], number))

    def videos(self) -> tuple[int, int]:
        moments = self._store.count(_VIDEOS, "image")
        return (self._store.count(_VIDEOS, "image", files=True) if moments else 0), moments

    # --- notes ------------------------------------------------------------------------

    def skipped(self) -> list[Skipped]:
        noted = {
            path: documents.skip_of(note) for path, note in self._store.notes(SKIPPED).items()
        }
        return [Skipped(path, note["why"], note["when"]) for path, note in noted.items()]

    def folders(self) -> list[str]:
        return list(self._store.notes(FOLDERS))

    def attach(self, path: Path) -> None:
        content = path.read_text("utf-8")
        self._store.note(f"{self._documents_subject} {path.name}", {"content": content})
        self._store.note(self._documents_subject, {path.name: _sum(content)})
        self._documents[path.name] = _sum(content)

    def keep(self, path: Path) -> None:
        self.attach(path)

    def detach(self, name: str) -> bool:
        path = self._space.folder / name
        there = path.is_file()
        self._store.erase(self._documents_subject, [name])
        self._store.erase(f"{self._documents_subject} {name}", ["content"])
        path.unlink(missing_ok=True)
        return there

    def check_attached(self, name: str) -> None:
        pass  # the store has it, or nobody attached it

    def set_feedback(self, query: dict[str, Any], item_id: int, good: bool | None) -> None:
        start = _about(query, item_id)
        earlier = self._store.notes(FEEDBACK, start)
        if good is not None:
            self.record(query, item_id, good)
        self._store.erase(FEEDBACK, earlier)

    def record(self, query: dict[str, Any], item_id: int, good: bool) -> None:
        now = time.time()
        key = f"{_about(query, item_id)}-{uuid.uuid4().hex[:16]}"
        note = {"query": query, "item": int(item_id), "good": bool(good), "when": now}
        self._store.note(FEEDBACK, {key: json.dumps(note)})

    def feedback(self) -> list[Feedback]:
        noted = [
            documents.read(self.address, f"the opinion {key!r}", note, documents.OPINION)
            for key, note in self._store.notes(FEEDBACK).items()
        ]
        opinions = [Feedback(n["query"], n["item"], n["good"], n["when"]) for n in noted]
        return sorted(opinions, key=lambda opinion: opinion.when)

    # --- how --------------------------------------------------------------------------

    def _read(self, ids: Numbers) -> list[Kept]:
        wanted = [int(number) for number in ids]
        found = self._found(wanted)
        for number in wanted:
            if number not in found:
                raise no_item(number, Path(self.address))
        return [found[number] for number in wanted]

    def _found(self, wanted: list[int]) -> dict[int, Kept]:
        """The rows with these numbers, as far as there are any."""
        with self._lock:
            kept = self._rows
            found = {number: kept[number] for number in wanted if number in kept}
        lacking = list(dict.fromkeys(number for number in wanted if number not in found))
        if lacking:
            stored = self._store.read(lacking)
            fresh = zip(stored.rows, stored.vectors, stored.usual, strict=True)
            found |= {row.id: (row, vector, usual) for row, vector, usual in fresh}
            with self._lock:
                if kept is self._rows and len(found) <= _KEPT:
                    full = len(kept) + len(lacking) > _KEPT
                    self._rows = dict(found) if full else kept | found
        return found

    def _searched(self, queries: Queries, *asked: Any) -> Nearest:
        """What the store finds; again where a row was deleted before it could be read."""
        for _ in range(_TRIES):
            ids, scores = self._store.search(queries, *asked)
            if ids.size > _KEPT or self._present(ids.ravel()).all():
                return ids, scores
        raise Unavailable(
            f"The store {self.address!r} changes while it is searched: items that were found "
            "were deleted before they could be read. Ask again in a moment."
        )

    def _present(self, ids: Int64[np.ndarray, " items"]) -> Bool[np.ndarray, " items"]:
        """Which rows are there; they stay in memory to be asked for."""
        found = self._found([int(number) for number in ids])
        return np.array([number in found for number in ids.tolist()], bool)

    @property
    def _documents_subject(self) -> str:
        return f"document {self._space.fingerprint}"

    def _fetch_documents(self) -> None:
        """Bring the copies of the policies up to date."""
        listed = self._store.notes(self._documents_subject)
        for name in self._documents.keys() - listed.keys():
            (self._space.folder / name).unlink(missing_ok=True)
        for name, checksum in listed.items():
            if Path(name).name != name or self._documents.get(name) == checksum:
                continue
            content = self._store.notes(f"{self._documents_subject} {name}").get("content")
            if content is not None:
                (self._space.folder / name).write_text(content, "utf-8")
        self._documents = listed


FEEDBACK, FOLDERS, SKIPPED = "feedback", "folder", "skipped"
"""Subjects of notes."""


def refuse_other_model(store: SharedStore, current: Current, encoder: Encoder) -> None:
    """Raise where another model made the index."""
    if current.manifest["fingerprint"] != encoder.fingerprint:
        there = current.manifest["model"]
        weights = " with other weights" if there == encoder.name else ""
        raise WrongIndex(
            f"The index in {store.address!r} was made with the model {there!r}{weights}, not "
            f"with {encoder.name!r}. Vectors of two models cannot be compared; use that model, "
            "or index the folders again with `avow index --rebuild`."
        )


def _shown(row: Row) -> Item:
    """A row within the bounds of what is shown."""
    latitude, longitude = place_of(row.tags) or (None, None)
    tags: Sequence[str] = sorted(without_place(row.tags))
    return Item(
        *(row.id, row.kind, row.path, row.part),
        None if row.text is None else row.text[:LONGEST_TEXT],
        *(row.size, row.width, row.height, row.mtime_ns / 1e9, row.taken, row.content),
        tags=tuple(tag[:TAG_LETTERS] for tag in tags[:TAGS_SHOWN]),
        same_as=None,
        tags_total=len(tags),
        latitude=latitude,
        longitude=longitude,
    )


def _sum(content: str) -> str:
    return sha256(content.encode()).hexdigest()[:32]


def _about(query: dict[str, Any], item_id: int) -> str:
    """The same for the same answer to the same question."""
    return _sum(f"{int(item_id)} {checked(query)}")
