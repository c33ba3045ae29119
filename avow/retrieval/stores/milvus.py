"""An index in Milvus: items, vectors and filter fields in one collection.

Filters are expressions; a batch is one request, so that readers see all of it or nothing: rows
that go are replaced by tombstones with it, and removed after. Every read sees all that was
acknowledged. AVOW_MILVUS_URI names a server, or a file of Milvus Lite, which one process opens
(default: in AVOW_HOME).
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.searching import Nearest, Queries
from avow.core.shapes import Int64
from avow.retrieval import store_contract as contract
from avow.retrieval import store_documents as documents
from avow.retrieval.store_contract import FORMAT, Current, Filter, Row, SharedStore, Stored
from avow.retrieval.stores import _milvus_notes as noting
from avow.retrieval.stores._milvus_filters import (
    TOMBSTONE,
    Patterns,
    asks_for_tags,
    beginning,
    expression_of,
    liked,
    literal,
)
from avow.retrieval.stores._milvus_link import PATIENCE, Link
from avow.retrieval.stores._milvus_patterns import matching, named
from avow.retrieval.stores._milvus_reading import MOST, STRONG, by_ids, counted, each, smallest
from avow.retrieval.stores._milvus_rows import (
    READ,
    cells_of,
    check_half,
    make_notes,
    make_rows,
    queries_of,
    stored,
    tombstone,
)
from avow.retrieval.where import Where

_AT_ONCE = 2000
"""Rows of one request that writes; more become visible one such part after the other."""
_SPARE = 16
"""Hits that are asked for beyond k, to put those of equal scores in order."""
_WIDEST = 4096
"""Candidates of a search through a graph at most."""
_GENERATIONS, _TAGS = "generation", "tags"
"""Subjects of notes: manifests by number, and the numbers of tags that an item has."""


class Milvus(SharedStore):
    """A store in a Milvus server, or in a file of Milvus Lite."""

    kind = "milvus"

    def __init__(self, name: str, uri: str = "", token: str = ""):
        super().__init__(name)
        self._link = Link(uri, token)
        self._about: dict[str, Any] = {}
        """The manifest of this handle's generation."""
        self._counts: dict[tuple[str | None, str], int] = {}
        """How many pass a filter, until the rows change."""
        self._matching: dict[tuple[str, str, str], list[int]] = {}
        """Rows of a kind that match a pattern, for a server that cannot tell; as long."""
        self._told_tags: set[str] = set()

    # --- which rows -------------------------------------------------------------------

    def current(self) -> Current | None:
        if not self._link.is_there:
            return None

        def ask(client: Any) -> tuple[dict[str, str], dict[str, Any]]:
            if not self.generation:
                if not client.has_collection(self._notes, **PATIENCE):
                    return {}, {}
                self._link.load(client, self._notes)
            keys = ["published", noting.NOTED, _stamp_of(self.generation)]
            state = noting.read_keys(client, self._notes, noting.STATE, keys)
            shown = self._shown(state)
            if shown and shown["generation"] != self.generation:
                stamp = [_stamp_of(shown["generation"])]
                state |= noting.read_keys(client, self._notes, noting.STATE, stamp)
            return state, shown

        state, shown = self._link.use(ask)
        if not shown:
            return None
        generation = shown["generation"]
        stamp, noted = state.get(_stamp_of(generation), ""), state.get(noting.NOTED, "")
        return Current(generation, stamp, noted, shown["manifest"])

    def _shown(self, state: Mapping[str, str]) -> dict[str, Any]:
        """The note of what is published; nothing where there is none."""
        if "published" not in state:
            return {}
        note = (self.address, "the note 'published'")
        shown = documents.read(*note, state["published"], documents.FORMATTED)
        if shown["format"] > FORMAT:
            raise WrongIndex(
                f"The store {self.address!r} has format {shown['format']}. Expected {FORMAT} "
                "or an older one; use the Avow that wrote it, or a newer one."
            )
        documents.read(*note, shown, documents.PUBLISHED)
        documents.read(*note, shown["manifest"], documents.MANIFEST)
        return shown

    def use(self, current: Current) -> None:
        self.generation, self._about = current.generation, current.manifest
        self._forget()
        self._link.use(lambda client: self._link.load(client, self._rows()))

    def prepare(self, manifest: Mapping[str, Any], anew: bool) -> None:
        model = manifest["fingerprint"]

        def make(client: Any) -> tuple[int, dict[str, Any]]:
            if manifest["half"]:
                check_half(self._link.version, self._link.is_old)
            make_notes(client, self._notes)
            self._link.load(client, self._notes)
            noted = noting.read(client, self._notes, _GENERATIONS)
            made = {int(number): about for number, about in noted.items()}
            try:
                current = self.current()
                published = 0 if current is None else current.generation
            except documents.DamagedStore:
                published = max(made, default=0)  # any of them may be the one that was shown
            for number in sorted(made):
                about = documents.whole(made[number], documents.MANIFEST) or {}
                shown = anew and number == published
                if number >= published and about.get("fingerprint") == model and not shown:
                    return number, about
            number, about = max([published, *made], default=0) + 1, dict(manifest)
            make_rows(client, self._rows(number, model), about)
            noted = {str(number): json.dumps(about)}
            noting.write(client, self._notes, _GENERATIONS, noted, told=False)
            return number, about

        def tidy(client: Any) -> None:
            """What a killed writer left undone: tombstones, and that readers look again."""
            self._link.load(client, self._rows())
            client.delete(self._rows(), filter=f"shown == {TOMBSTONE}", **PATIENCE)
            self._stamp(client)

        self.generation, self._about = self._link.use(make)
        self._forget()
        self._link.use(tidy)

    def publish(self) -> None:
        shown = {"format": FORMAT, "generation": self.generation, "manifest": self._about}

        def switch(client: Any) -> None:
            state = {"published": json.dumps(shown)}
            noting.write(client, self._notes, noting.STATE, state, told=False)
            self._remove_generations(client, keep=self._rows())
            others = set(noting.read(client, self._notes, _GENERATIONS))
            others -= {str(self.generation)}
            noting.erase(client, self._notes, _GENERATIONS, others)
            noting.erase(client, self._notes, noting.STATE, map(_stamp_of, map(int, others)))

        self._link.use(switch)

    def drop(self) -> None:
        def remove(client: Any) -> None:
            self._remove_generations(client)
            if client.has_collection(self._notes, **PATIENCE):
                client.drop_collection(self._notes, **PATIENCE)

        if self._link.is_there:
            self._link.use(remove)
        self.generation = 0

    def _remove_generations(self, client: Any, keep: str = "") -> None:
        ours = re.compile(f"avow_{self.name}_[0-9]+_[0-9a-f]{{8}}")
        for collection in client.list_collections(**PATIENCE):
            if ours.fullmatch(collection) and collection != keep:
                client.drop_collection(collection, **PATIENCE)

    # --- rows -------------------------------------------------------------------------

    def put(
        self,
        rows: Sequence[Row],
        vectors: contract.Vectors,
        usual: contract.Usual,
        gone: Sequence[int] = (),
    ) -> None:
        half, dim = bool(self._about["half"]), self._about["dim"]
        fresh = [cells_of(*cells, half) for cells in zip(rows, vectors, usual, strict=True)]
        kept = {row.id for row in rows}
        left = [int(number) for number in dict.fromkeys(gone) if number not in kept]
        numbers = {str(len(row.tags)): "" for row in rows if row.tags}

        def write(client: Any) -> None:
            if numbers.keys() - self._told_tags:
                noting.write(client, self._notes, _TAGS, numbers, told=False)
                self._told_tags |= numbers.keys()
            there = by_ids(client, self._rows(), left, ["id"]) if left else {}
            all_of_it = [*fresh, *(tombstone(number, dim, half) for number in there)]
            for start in range(0, len(all_of_it), _AT_ONCE):
                part = all_of_it[start : start + _AT_ONCE]
                client.upsert(self._rows(), part, **PATIENCE)
            self._stamp(client)
            for start in range(0, len(left), _AT_ONCE):
                part = ", ".join(map(str, left[start : start + _AT_ONCE]))
                # another writer may have put one of them again
                condition = f"shown == {TOMBSTONE} and id in [{part}]"
                client.delete(self._rows(), filter=condition, **PATIENCE)
            self._link.wrote(client, self._rows(), len(all_of_it))

        self._forget()
        self._link.use(write)

    def files(self, below: Sequence[str]) -> Iterator[contract.Present]:
        places = [beginning(os.path.join(folder, "")) for folder in below]
        places += [f"path == {literal(folder)}" for folder in below]
        condition = f"shown != {TOMBSTONE} and ({' or '.join(places)})"
        found: dict[str, list[dict[str, Any]]] = {}
        if places:
            for row in self._each(condition, ["id", "path", "about"]):
                about = documents.read(self.address, "a row", row["about"], documents.ROW)
                found.setdefault(row["path"], []).append(about)
        for path in sorted(found):
            rows = found[path]
            first, ids = rows[0], tuple(sorted(row["id"] for row in rows))
            versions = {(row["size"], row["mtime_ns"], row["file_content"]) for row in rows}
            whole = len(versions) == 1 and len(rows) == max(row["file_items"] for row in rows)
            about = (first["size"], first["mtime_ns"], first["file_content"])
            yield contract.Present(path, *about, whole, ids)

    def read(self, ids: Sequence[int]) -> Stored:
        wanted = [int(number) for number in ids]
        fields = [*READ, "shown"]
        found = self._link.use(lambda client: by_ids(client, self._rows(), wanted, fields))
        rows = [found[n] for n in wanted if n in found and found[n]["shown"] != TOMBSTONE]
        with documents.rows_of(self.address):
            return stored(rows, self._about)

    def find(self, where: Where | None, kind: str) -> Int64[np.ndarray, " items"]:
        rows = self._each(self._expression(where, kind), ["id"], where)
        return np.sort(np.array([row["id"] for row in rows], np.int64))

    def count(self, where: Where | None, kind: str, *, files: bool = False) -> int:
        condition = self._expression(where, kind)
        if files:
            return len({row["path"] for row in self._each(condition, ["path"], where)})
        asked = (None if where is None else where.text, kind)
        counts = self._counts
        if asked not in counts:
            counts[asked] = self._link.use(
                lambda client: counted(client, self._rows(), condition), where
            )
        return counts[asked]

    def sample(self, where: Where | None, kind: str, size: int) -> Int64[np.ndarray, " sample"]:
        condition, passing = self._expression(where, kind), self.count(where, kind)
        found = self._link.use(
            lambda client: smallest(client, self._rows(), condition, size, passing), where
        )
        return np.array(found, np.int64)

    def search(
        self, queries: Queries, k: int, where: Filter, kind: str, passing: int | None = None
    ) -> Nearest:
        condition = self._expression(where, kind)
        wanted = k if passing is None else min(k, passing)
        limit = min(k + _SPARE, MOST)
        width = max(100, 2 * limit)
        while True:
            found = self._nearest(queries, limit, condition, width, where)
            least = min((len(hits) for hits in found), default=0)
            if least < wanted and self._about["engine"] == "hnsw" and width < _WIDEST:
                width = min(8 * width, _WIDEST)  # a graph may not reach all that pass
            elif limit < MOST and any(_tied(hits, k, limit) for hits in found):
                limit = width = min(4 * limit, MOST)
            else:
                break
        kept = [hits[: min(k, least)] for hits in found]
        ids = [[number for _, number in hits] for hits in kept]
        scores = [[-score for score, _ in hits] for hits in kept]
        shape = (len(queries), min(k, least))
        return np.array(ids, np.int64).reshape(shape), np.array(scores, np.float32).reshape(
            shape
        )

    def _nearest(
        self, queries: Queries, limit: int, condition: str, width: int, where: Where | None
    ) -> list[list[tuple[float, int]]]:
        """Negative score and id of the hits of each query, in that order."""
        graph = self._about["engine"] == "hnsw"
        settings = {"ef": max(width, limit)} if graph else {}

        def ask(client: Any) -> Any:
            return client.search(
                self._rows(),
                data=queries_of(np.asarray(queries), bool(self._about["half"])),
                anns_field="vector",
                filter=condition,
                limit=limit,
                search_params={"metric_type": "IP", "params": settings},
                **STRONG,
            )

        if not len(queries):
            return []
        found = self._link.use(ask, where)
        return [sorted((-hit["distance"], hit["id"]) for hit in hits) for hits in found]

    # --- notes ------------------------------------------------------------------------

    def notes(self, subject: str, starting: str = "") -> dict[str, str]:
        return self._link.use(
            lambda client: noting.read(client, self._notes, subject, starting)
        )

    def note(self, subject: str, notes: Mapping[str, str]) -> None:
        if notes:
            self._link.use(lambda client: noting.write(client, self._notes, subject, notes))

    def erase(self, subject: str, keys: Iterable[str]) -> None:
        if listed := sorted(keys):
            self._link.use(lambda client: noting.erase(client, self._notes, subject, listed))

    def close(self) -> None:
        self._link.close()

    # --- how --------------------------------------------------------------------------

    @property
    def _notes(self) -> str:
        return f"avow_{self.name}_notes"

    def _rows(self, generation: int = 0, model: str = "") -> str:
        model = model or self._about["fingerprint"]
        return f"avow_{self.name}_{generation or self.generation}_{_short(model)}"

    def _stamp(self, client: Any) -> None:
        """Those who read this generation look again."""
        state = noting.changed(_stamp_of(self.generation))
        noting.write(client, self._notes, noting.STATE, state, told=False)

    def _forget(self) -> None:
        self._counts, self._matching = {}, {}

    def _expression(self, where: Where | None, kind: str) -> str:
        patterns: Patterns
        if self._link.is_old:
            patterns = partial(self._matched, kind)
        else:
            most = 0
            if where is not None and asks_for_tags(where.tree):
                most = max(map(int, self.notes(_TAGS)), default=0)
            patterns = partial(liked, most_tags=most)
        return expression_of(where, kind, patterns)

    def _matched(self, kind: str, field: str, pattern: str) -> str:
        """A pattern that is compared here, with what the server has of every row."""
        name = "tags" if field == "tag" else field
        asked = (kind, name, pattern)
        if asked not in self._matching:
            rows = self._each(self._expression(None, kind), ["id", name])
            self._matching[asked] = matching(rows, name, pattern)
        return named(self._matching[asked], pattern)

    def _each(
        self, condition: str, fields: Sequence[str], where: Where | None = None
    ) -> list[dict[str, Any]]:
        return self._link.use(
            lambda client: list(each(client, self._rows(), condition, fields)), where
        )


def _tied(hits: Sequence[tuple[float, int]], k: int, limit: int) -> bool:
    """Whether hits beyond those that came may have the score of the last that counts."""
    return k <= len(hits) == limit and hits[k - 1][0] == hits[-1][0]


def _stamp_of(generation: int) -> str:
    return f"stamp {generation}"


def _short(model: str) -> str:
    from hashlib import sha256

    return sha256(model.encode()).hexdigest()[:8]


def build(*, name: str, uri: str = "", token: str = "") -> Milvus:
    """name: of the store. uri, token: default: AVOW_MILVUS_URI and AVOW_MILVUS_TOKEN."""
    return Milvus(name, uri, token)
