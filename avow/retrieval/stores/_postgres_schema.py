"""The tables of a store in PostgreSQL, and how older ones are brought up to date.

avow_format        how many migrations were made
avow_stores        each store's published generation
avow_generations   the model of each generation, how many rows it has
avow_notes         feedback, policies, folders, skipped files
avow_NAME_1        rows of generation 1 of the store NAME: items and vectors
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from avow.core.errors import WrongIndex

_LOCK = 0x61766F77  # "avow": one process migrates at a time


@dataclass(frozen=True)
class Migration:
    """What leads from one format to the next; a released one never changes."""

    statements: tuple[str, ...]
    of_rows: tuple[str, ...] = ()
    """For the {table} of every generation."""


_VIDEOS = "CREATE INDEX IF NOT EXISTS {table}_videos ON {table} (path) WHERE kind = 'video'"
MIGRATIONS = (
    Migration(
        (
            """
            CREATE TABLE avow_stores (
              name text PRIMARY KEY, published int NOT NULL DEFAULT 0,
              last int NOT NULL DEFAULT 0, stamp bigint NOT NULL DEFAULT 0,
              noted bigint NOT NULL DEFAULT 0)
            """,
            """
            CREATE TABLE avow_generations (
              store text REFERENCES avow_stores ON DELETE CASCADE, number int,
              model text NOT NULL, manifest jsonb NOT NULL,
              images bigint NOT NULL DEFAULT 0, texts bigint NOT NULL DEFAULT 0,
              PRIMARY KEY (store, number))
            """,
            """
            CREATE TABLE avow_notes (
              store text REFERENCES avow_stores ON DELETE CASCADE, subject text,
              key text COLLATE "C", content text NOT NULL, PRIMARY KEY (store, subject, key))
            """,
        )
    ),
    # videos are counted, and found by their files, without a look at every picture
    Migration(("CREATE UNIQUE INDEX avow_format_once ON avow_format ((true))",), (_VIDEOS,)),
)

COLUMNS = (
    *("id", "kind", "is_text", "path", "path_folded", "part", "content", "file_content"),
    *("file_items", "size", "mtime_ns", "text", "width", "height", "taken", "look"),
    *("tags", "tags_folded", "latitude", "longitude", "duration", "vector", "usual"),
)
LARGEST_GRAPH = {"vector": 2000, "halfvec": 4000}
"""Numbers of a vector that pgvector's graph takes."""


def migrate(link: Any) -> None:
    """Bring the tables to the newest format; several processes may try at once."""
    if version_of(link) == len(MIGRATIONS):
        return
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        link.execute("CREATE TABLE IF NOT EXISTS avow_format (version int NOT NULL)")
        version = version_of(link)
        if version > len(MIGRATIONS):
            raise too_new(version)
        for migration in MIGRATIONS[version:]:
            for statement in migration.statements:
                link.execute(statement)
            for store, number in link.execute("SELECT store, number FROM avow_generations"):
                for statement in migration.of_rows:
                    link.execute(statement.format(table=rows_table(store, number)))
        link.execute("DELETE FROM avow_format")
        link.execute("INSERT INTO avow_format VALUES (%s)", [len(MIGRATIONS)])


def migrate_if_allowed(link: Any) -> None:
    """The same for one who opens a store; a role that may only read goes on as it is.

    Every format up to this one can be read: none took anything away.
    """
    import psycopg

    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
    with suppress(*refused):
        migrate(link)


def rows_table(store: str, generation: int) -> str:
    """The table with the rows of a generation."""
    return f"avow_{store}_{generation}"


def version_of(link: Any) -> int:
    """The format of the tables; 0 where there are none."""
    if link.execute("SELECT to_regclass('avow_format')").fetchone()[0] is None:
        return 0
    row = link.execute("SELECT version FROM avow_format").fetchone()
    return 0 if row is None else row[0]


def too_new(version: int) -> WrongIndex:
    return WrongIndex(
        f"The tables in PostgreSQL have format {version}. Expected {len(MIGRATIONS)} or an "
        "older one; use the Avow that wrote them, or a newer one."
    )


def make_rows(link: Any, table: str, dim: int, half: bool, graph: bool) -> None:
    """The table of one generation. graph: with a search graph, else every row is compared."""
    kind = "halfvec" if half else "vector"
    if graph and dim > LARGEST_GRAPH[kind]:
        hint = "index with --half or " if not half else ""
        raise WrongIndex(
            f"The vectors have {dim} numbers. Expected at most {LARGEST_GRAPH[kind]} for a "
            f"graph of PostgreSQL; {hint}leave out '--engine hnsw'."
        )
    link.execute(
        f"""
        CREATE TABLE IF NOT EXISTS {table} (
          id bigint PRIMARY KEY, kind text NOT NULL, is_text boolean NOT NULL,
          path text COLLATE "C" NOT NULL, path_folded text NOT NULL, part text NOT NULL,
          content text NOT NULL, file_content text NOT NULL, file_items int NOT NULL,
          size bigint NOT NULL, mtime_ns bigint NOT NULL, text text, width int, height int,
          taken text, look bigint, tags text[] NOT NULL, tags_folded text[] NOT NULL,
          latitude float8, longitude float8, duration float8,
          vector {kind}({int(dim)}) NOT NULL, usual bytea NOT NULL)
        """
    )
    # long vectors are kept as they are: compressing them costs time and saves nothing
    link.execute(f"ALTER TABLE {table} ALTER COLUMN vector SET STORAGE EXTERNAL")
    link.execute(f"CREATE INDEX IF NOT EXISTS {table}_path ON {table} (path)")
    link.execute(f"CREATE INDEX IF NOT EXISTS {table}_tags ON {table} USING gin (tags)")
    link.execute(f"CREATE INDEX IF NOT EXISTS {table}_taken ON {table} (left(taken, 10))")
    link.execute(_VIDEOS.format(table=table))
    if graph:
        link.execute(
            f"CREATE INDEX IF NOT EXISTS {table}_graph ON {table} "
            f"USING hnsw (vector {kind}_ip_ops)"
        )
