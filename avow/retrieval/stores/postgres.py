"""An index in PostgreSQL with pgvector: items, vectors and filter fields in one table.

A batch is one transaction; filters are SQL; several writers and readers work at once. The
server is named by AVOW_PG_DSN. A role that may only read can search.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from avow.core.errors import BadQuery, WrongIndex
from avow.core.searching import Nearest, Queries
from avow.core.shapes import Int64
from avow.indexes.pgvector import nearest_question, set_for_search
from avow.retrieval import store_documents as documents
from avow.retrieval.store_contract import (
    Current,
    Filter,
    Present,
    Row,
    SharedStore,
    Stored,
    Usual,
    Vectors,
)
from avow.retrieval.stores._postgres_filters import condition_of
from avow.retrieval.stores._postgres_pool import Pool
from avow.retrieval.stores._postgres_rows import cells_of, clean, stored
from avow.retrieval.stores._postgres_schema import (
    COLUMNS,
    MIGRATIONS,
    make_rows,
    migrate,
    migrate_if_allowed,
    rows_table,
    too_new,
    version_of,
)
from avow.retrieval.where import Where

_AT_ONCE = 2000
"""Rows of one answer that are read at once."""
_FEW = 20_000
"""Rows behind a filter that are compared one by one, where the store has a graph."""
_SECONDS = 60
"""That one question may take."""
_BEHIND = (
    "pg_is_in_recovery() AND (NOT EXISTS (SELECT FROM pg_stat_wal_receiver) OR "
    "pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn())"
)
"""Of a replica: nobody sends it changes, or it has some that it does not show yet."""


class Postgres(SharedStore):
    """A store in a database."""

    kind = "postgres"

    def __init__(self, name: str, dsn: str = ""):
        super().__init__(name)
        self._pool = Pool(dsn or os.environ.get("AVOW_PG_DSN", ""))
        self._about: dict[str, Any] = {}
        """The manifest of this handle's generation."""

    # --- which rows -------------------------------------------------------------------

    def current(self) -> Current | None:
        def ask(link: Any) -> tuple[Any, ...] | None:
            version = version_of(link) if not self.generation else len(MIGRATIONS)
            if version > len(MIGRATIONS):
                raise too_new(version)
            if not version:
                return None
            if version < len(MIGRATIONS):
                migrate_if_allowed(link)
            return link.execute(
                f"SELECT published, stamp, noted, manifest, images + texts, {_BEHIND} "
                "FROM avow_stores "
                "JOIN avow_generations ON store = name AND number = published "
                "WHERE name = %s",
                [self.name],
            ).fetchone()

        row = self._pool.use(ask)
        if row is None:
            return None
        documents.read(self.address, "the manifest", row[3], documents.MANIFEST)
        return Current(row[0], str(row[1]), str(row[2]), *row[3:])

    def use(self, current: Current) -> None:
        self.generation, self._about = current.generation, current.manifest

    def prepare(self, manifest: Mapping[str, Any], anew: bool) -> None:
        def make(link: Any) -> tuple[int, dict[str, Any]]:
            migrate(link)
            with link.transaction():
                link.execute(
                    "INSERT INTO avow_stores (name) VALUES (%s) ON CONFLICT DO NOTHING",
                    [self.name],
                )
                published, last = link.execute(
                    "SELECT published, last FROM avow_stores WHERE name = %s FOR UPDATE",
                    [self.name],
                ).fetchone()
                rows = link.execute(
                    "SELECT number, manifest FROM avow_generations WHERE store = %s AND "
                    "model = %s AND number >= %s ORDER BY number",
                    [self.name, manifest["fingerprint"], published],
                ).fetchall()
                for row in rows:
                    whole = documents.whole(row[1], documents.MANIFEST)
                    if whole and not (anew and row[0] == published):
                        return row
                number = last + 1
                make_rows(
                    link,
                    self._table(number),
                    manifest["dim"],
                    manifest["half"],
                    manifest["engine"] == "hnsw",
                )
                link.execute(
                    "INSERT INTO avow_generations (store, number, model, manifest) "
                    "VALUES (%s, %s, %s, %s)",
                    [self.name, number, manifest["fingerprint"], json.dumps(dict(manifest))],
                )
                link.execute(
                    "UPDATE avow_stores SET last = %s WHERE name = %s", [number, self.name]
                )
                return number, dict(manifest)

        self.generation, self._about = self._pool.use(make)

    def publish(self) -> None:
        def switch(link: Any) -> None:
            with link.transaction():
                link.execute(
                    "UPDATE avow_stores SET published = %s, stamp = stamp + 1 WHERE name = %s",
                    [self.generation, self.name],
                )
                self._remove_generations(link, keep=self.generation)

        self._pool.use(switch)

    def drop(self) -> None:
        def remove(link: Any) -> None:
            if version_of(link):
                with link.transaction():
                    self._remove_generations(link)
                    link.execute("DELETE FROM avow_stores WHERE name = %s", [self.name])

        self._pool.use(remove)
        self.generation = 0

    def _remove_generations(self, link: Any, keep: int = 0) -> None:
        rows = link.execute(
            "DELETE FROM avow_generations WHERE store = %s AND number != %s RETURNING number",
            [self.name, keep],
        ).fetchall()
        for (number,) in rows:
            link.execute(f"DROP TABLE IF EXISTS {self._table(number)}")

    # --- rows -------------------------------------------------------------------------

    def put(
        self, rows: Sequence[Row], vectors: Vectors, usual: Usual, gone: Sequence[int] = ()
    ) -> None:
        half = bool(self._about.get("half"))
        order = sorted(range(len(rows)), key=lambda n: rows[n].id)  # two writers never cross
        values = [
            (*cells_of(rows[n]), self._pool.vector(vectors[n], half), usual[n].tobytes())
            for n in order
        ]

        def write(link: Any) -> None:
            with link.transaction(), link.cursor() as cursor:
                texts = [0, 0]
                if values:
                    cursor.executemany(self._upsert(), values, returning=True)
                    for is_text, fresh in _answers(cursor):
                        texts[is_text] += fresh
                if len(gone):
                    cursor.execute(
                        f"DELETE FROM {self._table()} WHERE id = ANY(%s) RETURNING is_text",
                        [sorted(int(number) for number in gone)],
                    )
                    for (is_text,) in cursor.fetchall():
                        texts[is_text] -= 1
                cursor.execute(
                    "UPDATE avow_generations SET images = images + %s, texts = texts + %s "
                    "WHERE store = %s AND number = %s",
                    [*texts, self.name, self.generation],
                )
                self._stamp(cursor)

        self._pool.use(write)

    def _upsert(self) -> str:
        listed, marks = ", ".join(COLUMNS), ", ".join(["%s"] * len(COLUMNS))
        fresh = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
        return (
            f"INSERT INTO {self._table()} ({listed}) VALUES ({marks}) "
            f"ON CONFLICT (id) DO UPDATE SET {fresh} RETURNING is_text, (xmax = 0)::int"
        )

    def files(self, below: Sequence[str]) -> Iterator[Present]:
        inside = [os.path.join(folder, "") for folder in below]
        question = (
            "SELECT path, min(size), min(mtime_ns), min(file_content), "
            "min(size) = max(size) AND min(mtime_ns) = max(mtime_ns) AND "
            "min(file_content) = max(file_content) AND count(*) = max(file_items), "
            f"array_agg(id ORDER BY id) FROM {self._table()} WHERE path > %s AND "
            "(path = ANY(%s) OR EXISTS (SELECT FROM unnest(%s::text[]) f WHERE path ^@ f)) "
            "GROUP BY path ORDER BY path LIMIT %s"
        )
        last = ""
        while True:
            found = self._ask(question, [last, list(below), inside, _AT_ONCE])
            for path, size, mtime_ns, content, whole, ids in found:
                yield Present(path, size, mtime_ns, content, whole, tuple(ids))
            if len(found) < _AT_ONCE:
                return
            last = found[-1][0]

    def read(self, ids: Sequence[int]) -> Stored:
        wanted = [int(number) for number in ids]
        by_id: dict[int, tuple[Any, ...]] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            question = f"SELECT {', '.join(COLUMNS)} FROM {self._table()} WHERE id = ANY(%s)"
            part = self._ask(question, [wanted[start : start + _AT_ONCE]])
            by_id |= {row[0]: row for row in part}
        rows = [by_id[number] for number in wanted if number in by_id]
        with documents.rows_of(self.address):
            return stored(rows, self._about["dim"], self._pool.numbers)

    def find(self, where: Where | None, kind: str) -> Int64[np.ndarray, " items"]:
        condition, values = condition_of(where, kind)
        question = f"SELECT id FROM {self._table()} WHERE {condition} ORDER BY id"
        return _ids(self._filtered(where, question, values))

    def count(self, where: Where | None, kind: str, *, files: bool = False) -> int:
        if where is None and not files:
            column = "texts" if kind == "text" else "images"
            question = f"SELECT {column} FROM avow_generations WHERE store = %s AND number = %s"
            rows = self._ask(question, [self.name, self.generation])
            return rows[0][0] if rows else 0
        condition, values = condition_of(where, kind)
        what = "DISTINCT path" if files else "*"
        question = f"SELECT count({what}) FROM {self._table()} WHERE {condition}"
        return self._filtered(where, question, values)[0][0]

    def sample(self, where: Where | None, kind: str, size: int) -> Int64[np.ndarray, " sample"]:
        condition, values = condition_of(where, kind)
        question = f"SELECT id FROM {self._table()} WHERE {condition} ORDER BY id LIMIT %s"
        return _ids(self._filtered(where, question, [*values, size]))

    def search(
        self, queries: Queries, k: int, where: Filter, kind: str, passing: int | None = None
    ) -> Nearest:
        graph = self._about["engine"] == "hnsw" and (passing is None or passing > _FEW)
        found = self._nearest(queries, k, where, kind, graph)
        if graph and len(found) < len(queries) * min(k, passing or 0):
            found = self._nearest(queries, k, where, kind, False)  # it may not reach all
        places = np.array([row[0] for row in found], np.int64)
        width = int(np.bincount(places, minlength=len(queries)).min()) if len(queries) else 0
        ids = np.empty((len(queries), width), np.int64)
        scores = np.empty((len(queries), width), np.float32)
        numbers, values = _ids([row[1:] for row in found]), [row[2] for row in found]
        starts = np.searchsorted(places, np.arange(len(queries)))
        for place, start in enumerate(starts):  # over queries, few of them
            ids[place] = numbers[start : start + width]
            scores[place] = values[start : start + width]
        return ids, scores

    def _nearest(
        self, queries: Queries, k: int, where: Where | None, kind: str, graph: bool
    ) -> list[tuple[Any, ...]]:
        """Number of the query, id and score, for each query the best first."""
        condition, values = condition_of(where, kind)
        half = bool(self._about.get("half"))
        asked = [self._pool.vector(query, half) for query in queries]
        kind_of = "halfvec" if half else "vector"
        question = nearest_question(self._table(), kind_of, condition, graph)

        def prepare(link: Any) -> None:
            set_for_search(link, k, graph, self._pool.version)

        return self._filtered(where, question, [asked, *values, k], prepare)

    # --- notes ------------------------------------------------------------------------

    def notes(self, subject: str, starting: str = "") -> dict[str, str]:
        question = (
            "SELECT key, content FROM avow_notes WHERE store = %s AND subject = %s "
            "AND key ^@ %s ORDER BY key"
        )
        return dict(self._ask(question, [self.name, subject, starting]))

    def note(self, subject: str, notes: Mapping[str, str]) -> None:
        rows = [(self.name, subject, key, clean(notes[key])) for key in sorted(notes)]

        def write(link: Any) -> None:
            with link.transaction(), link.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO avow_notes VALUES (%s, %s, %s, %s) ON CONFLICT "
                    "(store, subject, key) DO UPDATE SET content = excluded.content",
                    rows,
                )
                self._stamp(cursor, "noted")

        if rows:
            self._pool.use(write)

    def erase(self, subject: str, keys: Iterable[str]) -> None:
        listed = sorted(keys)

        def write(link: Any) -> None:
            with link.transaction(), link.cursor() as cursor:
                cursor.execute(
                    "DELETE FROM avow_notes WHERE store = %s AND subject = %s "
                    "AND key = ANY(%s)",
                    [self.name, subject, listed],
                )
                self._stamp(cursor, "noted")

        if listed:
            self._pool.use(write)

    def close(self) -> None:
        self._pool.close()

    # --- how --------------------------------------------------------------------------

    def _table(self, generation: int = 0) -> str:
        return rows_table(self.name, generation or self.generation)

    def _stamp(self, cursor: Any, what: str = "stamp") -> None:
        """Last in a transaction: other writers wait for it from here to the commit."""
        shown = "" if what == "noted" else f" AND published = {self.generation}"
        cursor.execute(
            f"UPDATE avow_stores SET {what} = {what} + 1 WHERE name = %s{shown}", [self.name]
        )

    def _ask(self, question: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._pool.use(lambda link: link.execute(question, values).fetchall())

    def _filtered(
        self,
        where: Where | None,
        question: str,
        values: Sequence[Any],
        prepare: Callable[[Any], None] = lambda link: None,
    ) -> list[tuple[Any, ...]]:
        """As `_ask`, with an end to the work of a filter."""
        import psycopg

        def ask(link: Any) -> list[tuple[Any, ...]]:
            with link.transaction():
                prepare(link)
                link.execute(f"SET LOCAL statement_timeout = '{_SECONDS}s'")
                return link.execute(question, values).fetchall()

        try:
            return self._pool.use(ask)
        except WrongIndex as error:
            cause = error.__cause__
            if where is None or not isinstance(
                cause, psycopg.errors.QueryCanceled | psycopg.DataError
            ):
                raise
            raise BadQuery(
                f"The filter {where.text[:200]!r} cannot be compared by PostgreSQL "
                f"({' '.join(str(cause).split())[:200]}). Expected one that takes less than "
                f"{_SECONDS} seconds; use '=' in place of '~', and ordinary letters."
            ) from error


def _ids(rows: Sequence[tuple[Any, ...]]) -> Int64[np.ndarray, " items"]:
    return np.fromiter((row[0] for row in rows), np.int64, len(rows))


def _answers(cursor: Any) -> Iterator[tuple[Any, ...]]:
    """The rows that each statement of `executemany` returned."""
    while True:
        yield from cursor.fetchall()
        if not cursor.nextset():
            return


def build(*, name: str, dsn: str = "") -> Postgres:
    """name: of the store. dsn: the server; default: AVOW_PG_DSN."""
    return Postgres(name, dsn)
