"""Search in PostgreSQL with its extension pgvector: one table per index.

The server is named by `dsn` or AVOW_PG_DSN. A saved index is a small file that names the
table and not the server, so that no password is ever written down.
"""

import json
import logging
import os
import re
import threading
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
from avow.indexes._vectors import checked, last_of_each

Kind = Literal["exact", "hnsw"]
Version = tuple[int, ...]
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
        self._turns = threading.Lock()
        self._link, self._vector, self._version = _connect(self._dsn)
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
        """One question for all queries; nothing is counted, as a limit gives what there is."""
        queries = checked(queries, self.dim)
        if k < 1 or not len(queries):
            nothing = (len(queries), 0)
            return np.empty(nothing, np.int64), np.empty(nothing, np.float32)
        numbers = None if among is None else among.tolist()
        rows = self._nearest(queries, k, numbers, self.kind == "hnsw")
        if self.kind == "hnsw" and len(rows) < k * len(queries):
            rows = self._nearest(queries, k, numbers, False)  # a graph may not reach all
        # every query has as many answers as any other: k, or all there are
        ids = np.array([row[1] for row in rows], np.int64).reshape(len(queries), -1)
        return ids, np.array([row[2] for row in rows], np.float32).reshape(ids.shape)

    def ids(self) -> Int64[np.ndarray, " items"]:
        rows = self._ask(f"SELECT id FROM {self.table} ORDER BY id")
        return np.array([row[0] for row in rows], np.int64)

    def __len__(self) -> int:
        return self._ask(f"SELECT count(*) FROM {self.table}")[0][0]

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
            link, _, _ = _connect(os.environ.get("AVOW_PG_DSN", ""))
            with sentences(), link:
                link.execute(f"DROP TABLE IF EXISTS {table}")
        except (MissingExtra, WrongIndex) as error:
            logging.getLogger(__name__).warning(
                "The table %r stays behind in PostgreSQL; drop it there. %s", table, error
            )

    def close(self) -> None:
        self._ended = True
        self._link.close()

    def _nearest(
        self, queries: Queries, k: int, among: list[int] | None, graph: bool
    ) -> list[tuple[int, int, float]]:
        chosen = ("true", []) if among is None else ("id = ANY(%s)", [among])
        question = nearest_question(self.table, "vector", chosen[0], graph)
        values = [[self._vector(query) for query in queries], *chosen[1], k]

        def fetch(link: Any) -> list[tuple[int, int, float]]:
            with link.transaction():
                set_for_search(link, k, graph, self._version)
                return link.execute(question, values).fetchall()

        return self._connected(fetch)

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

        Every statement here may be repeated: it selects, deletes ids, or replaces rows. Threads
        take turns, as transactions of one connection cannot overlap.
        """
        import psycopg

        with self._turns:
            link = self._link
            with sentences():
                try:
                    return work(link)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    if self._ended or not (link.closed or link.broken):
                        raise
            self._link, self._vector, self._version = _connect(self._dsn)
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
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            raise WrongIndex(
                f"PostgreSQL refuses this ({message}). Expected a role that may write; name it "
                "in AVOW_PG_DSN."
            ) from error
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        raise (Unavailable if lost else WrongIndex)(
            f"PostgreSQL cannot be used ({message}). Expected a running server with the "
            "extension 'vector' for its processor; check AVOW_PG_DSN and the server's log."
        ) from error


def nearest_question(table: str, kind: str, condition: str, graph: bool) -> str:
    """Number of the query, id and score of the best rows of some queries, in one question.

    Its values: the queries, those of the condition, and how many of each. kind: of vector.
    """
    return (
        f"SELECT q.n - 1, h.id, h.score FROM unnest(%s::{kind}[]) WITH ORDINALITY AS q (v, n), "
        f"LATERAL (SELECT id, -(vector <#> q.v) AS score FROM {table} WHERE {condition} "
        # a graph serves only an order by distance alone
        f"ORDER BY vector <#> q.v{'' if graph else ', id'} LIMIT %s) h "
        "ORDER BY q.n, h.score DESC, h.id"
    )


def set_for_search(link: Any, k: int, graph: bool, version: Version) -> None:
    """Until the end of the transaction: through the graph, or past it to every row.

    Filters take more of a graph where too few pass, since pgvector 0.8.
    """
    settings = {"enable_indexscan": "off"}
    if graph:
        settings = {"hnsw.ef_search": str(min(1000, max(100, 2 * k)))}
        if version >= (0, 8):
            settings |= {"hnsw.iterative_scan": "strict_order"}
    for name, value in settings.items():
        link.execute(f"SET LOCAL {name} = {value}")


def make_ready(dsn: str) -> Version:
    """Make the extension where it is missing, and try it; which version it is.

    An extension built for another processor ends the server with the first product: better
    before anything is stored than with the first search.
    """
    import psycopg

    with sentences(), psycopg.connect(_patient(dsn), autocommit=True) as link:
        row = link.execute(_VERSION).fetchone()
        if row is None:
            link.execute("CREATE EXTENSION IF NOT EXISTS vector")
            row = link.execute(_VERSION).fetchone()
        link.execute("SELECT '[1]'::vector <#> '[1]'::vector")
    return tuple(int(part) for part in re.findall(r"\d+", row[0] if row else "0"))


def _patient(dsn: str) -> str:
    """The address of a server, with an end to waiting for it.

    Why one cannot be read is not repeated: it may have a password in it.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    try:
        return make_conninfo(
            dsn, **({} if "connect_timeout" in dsn else {"connect_timeout": _PATIENCE})
        )
    except ProgrammingError:
        raise WrongIndex(
            "The address of PostgreSQL cannot be read. Expected one such as "
            "postgresql://user@host/database, with a % in a password as %25; correct "
            "AVOW_PG_DSN."
        ) from None


def _connect(dsn: str) -> tuple[Any, Any, Version]:
    try:
        import psycopg
        from pgvector import Vector
        from pgvector.psycopg import register_vector
    except ImportError as error:
        raise MissingExtra("The engine 'pgvector'", "psycopg, pgvector", "pg") from error
    if not dsn:
        raise WrongIndex(
            "The engine 'pgvector' does not know its server. Expected the address of a "
            "PostgreSQL in AVOW_PG_DSN, such as postgresql://user@host/database."
        )
    version = make_ready(dsn)
    with sentences():
        link = psycopg.connect(_patient(dsn), autocommit=True)
        register_vector(link)
    return link, Vector, version


def build(*, dim: int, dsn: str = "", table: str = "", kind: Kind = "exact") -> PgVector:
    """dsn: the server. table: one that is there, or a new one. kind: exact or a graph."""
    return PgVector(dim, dsn, table, kind)
