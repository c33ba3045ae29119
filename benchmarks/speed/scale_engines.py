"""The engines that `benchmarks.speed.scale` holds beside each other: built, asked, weighed."""

import os
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from avow.core.searching import Index
from avow.core.vector_forms import TurnedBytes
from avow.indexes.exact import Exact
from avow.indexes.faiss import Faiss
from avow.indexes.pgvector import PgVector
from avow.retrieval.store.int8_rows import Int8Rows

AT_ONCE = 10_000
GRAPH_MEMORY = "6GB"
"""Of the server, while it makes a graph. One that does not fit takes three times as long."""


class Engine(Protocol):
    """One query at a time, as clients ask."""

    def search(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        """Ids of the best k; among: only these count."""
        ...

    def bytes(self) -> int: ...

    def close(self) -> None: ...


class Ours:
    """An engine of `avow.indexes`, or the rows of an index themselves."""

    def __init__(self, index: Index, size: Callable[[], int]):
        self.index, self._size = index, size

    def search(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        return self.index.search(query[None], k, among)[0][0]

    def bytes(self) -> int:
        return self._size()

    def close(self) -> None:
        self.index.close()


def exact(vectors: np.ndarray, home: Path) -> Engine:
    return Ours(Exact.over(np.arange(len(vectors)), vectors), lambda: vectors.nbytes)


def int8(vectors: np.ndarray, home: Path) -> Engine:
    form = TurnedBytes(vectors.shape[1])
    rows = np.empty(vectors.shape, np.int8)
    for start in range(0, len(vectors), AT_ONCE):
        rows[start : start + AT_ONCE] = form.encode(vectors[start : start + AT_ONCE])
    ids = np.arange(len(vectors))
    index = Int8Rows.over_bytes(ids, rows, vectors.shape[1], form)
    return Ours(index, lambda: rows.nbytes)


def faiss(vectors: np.ndarray, home: Path) -> Engine:
    index = Faiss(vectors.shape[1])
    index.add(np.arange(len(vectors)), np.asarray(vectors))
    return Ours(index, lambda: vectors.nbytes + 8 * len(vectors))


class Postgres(Ours):
    """A table of a server; its graph is made when all rows are there, which is quicker."""

    def __init__(self, vectors: np.ndarray, home: Path):
        os.environ["PGOPTIONS"] = f"-c maintenance_work_mem={GRAPH_MEMORY}"
        with closing(PgVector(vectors.shape[1])) as plain:
            for start in range(0, len(vectors), AT_ONCE):
                part = vectors[start : start + AT_ONCE]
                plain.add(np.arange(start, start + len(part)), np.asarray(part))
        self.table = PgVector(vectors.shape[1], table=plain.table, kind="hnsw")
        super().__init__(self.table, self.size)

    def size(self) -> int:
        question = f"SELECT pg_total_relation_size('{self.table.table}')"
        return int(self.table._ask(question)[0][0])

    def close(self) -> None:
        self.table._ask(f"DROP TABLE {self.table.table}")
        super().close()


class Milvus:
    """Milvus Lite in a file, or a server."""

    def __init__(self, vectors: np.ndarray, home: Path):
        from pymilvus import DataType, MilvusClient

        self.place = home / "milvus.db"
        self.client: Any = MilvusClient(os.environ.get("AVOW_MILVUS_URI", str(self.place)))
        schema = self.client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("place", DataType.INT64)  # in its ten; Milvus Lite does not divide
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
        index = self.client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="IP")
        self.client.create_collection("scale", schema=schema, index_params=index)
        for start in range(0, len(vectors), 2000):
            part = np.asarray(vectors[start : start + 2000])
            rows = [
                {"id": start + n, "place": (start + n) % 10, "vector": row}
                for n, row in enumerate(part)
            ]
            self.client.insert("scale", rows)
            if not (start + len(part)) % AT_ONCE:  # else rows wait in memory, slow to search
                self.client.flush("scale")
        self.client.flush("scale")
        self.client.load_collection("scale")

    def search(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        found = self.client.search(
            "scale", [query], limit=k, filter="" if among is None else "place == 0"
        )
        return np.array([hit["id"] for hit in found[0]])

    def bytes(self) -> int:
        if self.place.is_file():
            return self.place.stat().st_size
        return sum(path.stat().st_size for path in self.place.rglob("*") if path.is_file())

    def close(self) -> None:
        self.client.drop_collection("scale")
        self.client.close()


ENGINES: dict[str, Callable[[np.ndarray, Path], Engine]] = {
    "exact": exact,
    "int8": int8,
    "faiss": faiss,
    "postgres": Postgres,
    "milvus": Milvus,
}


ALL_IN_MEMORY = {"exact": 1.0, "faiss": 2.0, "milvus": 5.0}
"""Engines that need every vector in memory, and how often: what they read is held, too."""


def lacking(name: str, size: int, width: int) -> str | None:
    """What an engine needs and does not find here; None where all is there."""
    if name == "postgres" and not os.environ.get("AVOW_PG_DSN"):
        return "no server: AVOW_PG_DSN is not set"
    package = {"faiss": "faiss", "milvus": "pymilvus", "postgres": "psycopg"}.get(name)
    if package is not None and find_spec(package) is None:
        return f"the package {package} is not installed"
    needed, free = 4 * size * width * ALL_IN_MEMORY.get(name, 0), free_memory()
    if needed > free:
        return f"it needs {needed / 1e9:.0f} GB of memory, and {free / 1e9:.0f} GB are free"
    return None


def free_memory() -> float:
    """Bytes that a program may take; no limit where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next(
        (1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")),
        float("inf"),
    )
