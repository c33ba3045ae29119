"""Search in PostgreSQL with its extension pgvector: one table per index.

The server is named by `dsn` or AVOW_PG_DSN. A saved index is a small file that names the
table and not the server, so that no password is ever written down.
"""

import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from jaxtyping import Float32, Int64

from avow.core.documents import read_file
from avow.core.errors import MissingExtra, Unavailable, WrongIndex
from avow.core.files import new_folder, recover
from avow.core.searching import Ids, Index, Nearest, Queries
from avow.indexes._vectors import best_of, checked, last_of_each

Kind = Literal["exact", "hnsw"]
T = TypeVar("T")
_FETCHED_AT_ONCE = 4096
_PATIENCE = 10  # seconds to wait for a server that does not answer
_OWN = re.compile("avow_[0-9a-f]{32}")
_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"


class PgVector(Index):
    """A table of ids and vectors, compared by the server."""

    def __init__(self, dim: int, dsn: str = "", table: str = "", kind: Kind = "exact"):
        self.dim, self.kind, self.exact = dim, kind, kind == "exact"
        self.table = table or f"avow_{uuid.uuid4().hex}"
        if not self.table.replace("_", "").isalnum() or not self.table.isascii():
            raise WrongIndex(
                f"The table {self.table!r} has no usable name. Expected letters, digits "
                "and underscores."
            )
        self._dsn, self._ended = dsn or os.environ.get("AVOW_PG_DSN", ""), False
        self._link, self._vector = _connect(self._dsn)
        self._ask(
            f"CREATE TABLE IF NOT EXISTS {self.table} "
            f"(id bigint PRIMARY KEY, vector vector({int(dim)}) NOT NULL)"
        )
        if kind == "hnsw":
            self._ask(
                f"CREATE INDEX IF NOT EXISTS {self.table}_graph ON {self.table} "
                "USING hnsw (vector vector_ip_ops)"
            )

    def add(
        self, ids: Int64[np.ndarray, " items"], vectors: Float32[np.ndarray, "items dim"]
    ) -> None:
        vectors = checked(vectors, self.dim)
        rows = [(int(ids[n]), self._vector(vectors[n])) for n in last_of_each(ids)]

        def insert(link: Any) -> None:
            with link.transaction(), link.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO {self.table} VALUES (%s, %s) "
                    "ON CONFLICT (id) DO UPDATE SET vector = excluded.vector",
                    rows,
                )

        self._connected(insert)

    def delete(self, ids: Int64[np.ndarray, " items"]) -> None:
        self._ask(f"DELETE FROM {self.table} WHERE id = ANY(%s)", [ids.tolist()])

    def search(self, queries: Queries, k: int, among: Ids | None = None) -> Nearest:
        queries = checked(queries, self.dim)
        count = max(0, min(k, self._count(among)))
        ids = np.empty((len(queries), count), np.int64)
        scores = np.empty((len(queries), count), np.float32)
        if count:
            for number, query in enumerate(queries):
                ids[number], scores[number] = self._search_one(query, count, among)
        return ids, scores

    def ids(self) -> Int64[np.ndarray, " items"]:
        rows = self._ask(f"SELECT id FROM {self.table} ORDER BY id")
        return np.array([row[0] for row in rows], np.int64)

    def __len__(self) -> int:
        return self._count(None)

    def vectors(self, ids: Int64[np.ndarray, " items"]) -> Float32[np.ndarray, "items dim"]:
        by_id: dict[int, Any] = {}
        for start in range(0, len(ids), _FETCHED_AT_ONCE):
            part = ids[start : start + _FETCHED_AT_ONCE].tolist()
            by_id |= self._ask(
                f"SELECT id, vector FROM {self.table} WHERE id = ANY(%s)", [part]
            )
        rows = [_numbers(by_id[item]) for item in ids.tolist() if item in by_id]
        return np.array(rows, np.float32).reshape(-1, self.dim)

    def save(self, folder: Path) -> None:
        with new_folder(folder) as home:
            about = {"engine": "pgvector", "dim": self.dim, "kind": self.kind}
            (home / "pgvector.json").write_text(json.dumps(about | {"table": self.table}))

    @classmethod
    def open(cls, folder: Path, dim: int) -> "PgVector":
        recover(folder)
        try:
            about = json.loads(read_file(folder / "pgvector.json"))
            there, table, kind = about["dim"], str(about["table"]), about["kind"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongIndex(
                f"There is no pgvector index in {str(folder)!r} ({error}). Expected a "
                "folder that an index was saved to."
            ) from error
        if there != dim:
            raise WrongIndex(
                f"The index in {str(folder)!r} has vectors of {there} numbers. "
                f"Expected {dim}; open it with the model that made it."
            )
        return cls(dim, table=table, kind=kind)

    @classmethod
    def forget(cls, folder: Path) -> None:
        """Drop the table; one that Avow did not name itself is somebody else's to drop."""
        try:
            table = json.loads(read_file(folder / "pgvector.json"))["table"]
        except (OSError, ValueError, KeyError, TypeError):
            return  # never saved, so never filled by a run that ended
        if not isinstance(table, str) or not _OWN.fullmatch(table):
            return
        try:
            link, _ = _connect(os.environ.get("AVOW_PG_DSN", ""))
            with sentences(), link:
                link.execute(f"DROP TABLE IF EXISTS {table}")
        except (MissingExtra, WrongIndex) as error:
            logging.getLogger(__name__).warning(
                "The table %r stays behind in PostgreSQL; drop it there. %s", table, error
            )

    def close(self) -> None:
        self._ended = True
        self._link.close()

    def _search_one(
        self, query: Float32[np.ndarray, " dim"], k: int, among: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        values: dict[str, Any] = {"query": self._vector(query), "k": k}
        choice = ""
        if among is not None:
            choice, values["among"] = "WHERE id = ANY(%(among)s)", among.tolist()
        # a graph serves only an order by distance alone; the exact order breaks ties itself
        ties = "" if self.kind == "hnsw" else ", id"
        rows = self._ask(
            f"SELECT id, -(vector <#> %(query)s) FROM {self.table} {choice} "
            f"ORDER BY vector <#> %(query)s{ties} LIMIT %(k)s",
            values,
        )
        if len(rows) < k:  # a graph may not reach all of them
            left = self.ids() if among is None else np.intersect1d(among, self.ids())
            return best_of(left, (self.vectors(left) @ query).astype(np.float32), k)
        ids = np.array([row[0] for row in rows], np.int64)
        return best_of(ids, np.array([row[1] for row in rows], np.float32), k)

    def _count(self, among: np.ndarray | None) -> int:
        choice, values = "", []
        if among is not None:
            choice, values = " WHERE id = ANY(%s)", [among.tolist()]
        question = f"SELECT count(*) FROM {self.table}{choice}"
        return self._ask(question, values)[0][0]

    def _ask(
        self, statement: str, values: Sequence[Any] | dict[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        """The rows of the answer; none where a statement answers nothing."""

        def fetch(link: Any) -> list[tuple[Any, ...]]:
            done = link.execute(statement, values)
            return done.fetchall() if done.description else []

        return self._connected(fetch)

    def _connected(self, work: Callable[[Any], T]) -> T:
        """Do something with the connection; once more with a new one where it was lost.

        Every statement here may be repeated: it selects, deletes ids, or replaces rows.
        """
        import psycopg

        link = self._link
        with sentences():
            try:
                return work(link)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if self._ended or not (link.closed or link.broken):
                    raise
        self._link, self._vector = _connect(self._dsn)
        with sentences():
            return work(self._link)


def _numbers(vector: Any) -> np.ndarray:
    return vector.to_numpy() if hasattr(vector, "to_numpy") else np.asarray(vector)


@contextmanager
def sentences() -> Iterator[None]:
    """What the server refuses, or that it went away, as a sentence."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        message = " ".join(str(error).split())[:200]
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        raise (Unavailable if lost else WrongIndex)(
            f"PostgreSQL cannot be used ({message}). Expected a running server with the "
            "extension 'vector' for its processor; check AVOW_PG_DSN and the server's log."
        ) from error


def make_ready(dsn: str) -> tuple[int, ...]:
    """Make the extension where it is missing, and try it; which version it is.

    An extension built for another processor ends the server with the first product: better
    before anything is stored than with the first search.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    waits = dsn if "connect_timeout" in dsn else make_conninfo(dsn, connect_timeout=_PATIENCE)
    with sentences(), psycopg.connect(waits, autocommit=True) as link:
        row = link.execute(_VERSION).fetchone()
        if row is None:
            link.execute("CREATE EXTENSION IF NOT EXISTS vector")
            row = link.execute(_VERSION).fetchone()
        link.execute("SELECT '[1]'::vector <#> '[1]'::vector")
    return tuple(int(part) for part in re.findall(r"\d+", row[0] if row else "0"))


def _connect(dsn: str) -> tuple[Any, Any]:
    try:
        import psycopg
        from pgvector import Vector
        from pgvector.psycopg import register_vector
        from psycopg.conninfo import make_conninfo
    except ImportError as error:
        raise MissingExtra("The engine 'pgvector'", "psycopg, pgvector", "pg") from error
    if not dsn:
        raise WrongIndex(
            "The engine 'pgvector' does not know its server. Expected the address of a "
            "PostgreSQL in AVOW_PG_DSN, such as postgresql://user@host/database."
        )
    make_ready(dsn)
    with sentences():
        waits = (
            dsn if "connect_timeout" in dsn else make_conninfo(dsn, connect_timeout=_PATIENCE)
        )
        link = psycopg.connect(waits, autocommit=True)
        register_vector(link)
    return link, Vector


def build(*, dim: int, dsn: str = "", table: str = "", kind: Kind = "exact") -> PgVector:
    """dsn: the server. table: one that is there, or a new one. kind: exact or a graph."""
    return PgVector(dim, dsn, table, kind)
