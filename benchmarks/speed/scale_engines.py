"""The engines that `benchmarks.speed.scale` holds beside each other: built, asked, weighed."""

import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
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
GRAPH, REACH = {"M": 16, "efConstruction": 64}, 40
"""What pgvector takes where nobody says, so that Milvus is given the same."""
GRAPH_MEMORY = "6GB"
"""Of the server, while it makes a graph. One that does not fit takes three times as long."""


class Engine(Protocol):
    """One query at a time, as clients ask."""

    def search(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        """Ids of the best k; among: only these count."""
        ...

    def bytes(self) -> int | None:
        """All that it keeps; None where nobody can tell."""
        ...

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
    """A collection of Milvus, compared by a graph or row by row."""

    def __init__(self, vectors: np.ndarray, address: str, files: Path | None, index: str):
        """files: the folder in which all of it lies."""
        from pymilvus import MilvusClient

        self.files = files
        self._before = 0 if files is None else weight(files)
        self.client: Any = MilvusClient(address)
        self._make(vectors.shape[1], index)
        for start in range(0, len(vectors), 2000):
            part = np.asarray(vectors[start : start + 2000])
            rows = [
                {"id": start + n, "place": (start + n) % 10, "vector": row}
                for n, row in enumerate(part)
            ]
            self.client.insert("scale", rows)
            if index == "FLAT" and not (start + len(part)) % AT_ONCE:
                self.client.flush("scale")  # else rows wait in memory, slow to search
        self.client.flush("scale")
        while (about := self.client.describe_index("scale", "vector")) and (
            int(about.get("pending_index_rows", 0))
            or int(about.get("indexed_rows", 0)) < len(vectors)
        ):
            if index == "FLAT":  # nothing to wait for
                break
            time.sleep(0.5)
        self.client.load_collection("scale")

    def _make(self, dim: int, index: str) -> None:
        from pymilvus import DataType

        if self.client.has_collection("scale"):  # of a cell that was stopped
            self.client.drop_collection("scale")
        schema = self.client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("place", DataType.INT64)  # in its ten; Milvus Lite does not divide
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
        graph = GRAPH if index == "HNSW" else {}
        indexes = self.client.prepare_index_params()
        indexes.add_index("vector", index_type=index, metric_type="IP", params=graph)
        # made without its index, it is not loaded while it is filled
        self.client.create_collection("scale", schema=schema)
        self.client.create_index("scale", indexes)

    def search(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        chosen = "" if among is None else "place == 0"
        found = self.client.search(
            "scale", [query], limit=k, filter=chosen, search_params={"params": {"ef": REACH}}
        )
        return np.array([hit["id"] for hit in found[0]])

    def bytes(self) -> int | None:
        return None if self.files is None else weight(self.files) - self._before

    def close(self) -> None:
        self.client.drop_collection("scale")
        self.client.close()


def milvus(vectors: np.ndarray, home: Path) -> Engine:
    """The server of AVOW_MILVUS_URI."""
    files = os.environ.get("AVOW_SCALE_MILVUS")
    place = None if files is None else Path(files)
    return Milvus(vectors, os.environ["AVOW_MILVUS_URI"], place, "HNSW")


def milvus_lite(vectors: np.ndarray, home: Path) -> Engine:
    return Milvus(vectors, str(home / "milvus.db"), home, "FLAT")


def weight(place: Path) -> int:
    """Bytes of all files in a folder; some may go while they are counted."""
    total = 0
    for path in place.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


ENGINES: dict[str, Callable[[np.ndarray, Path], Engine]] = {
    "exact": exact,
    "int8": int8,
    "faiss": faiss,
    "postgres": Postgres,
    "milvus": milvus,
    "milvus-lite": milvus_lite,
}


ALL_IN_MEMORY = {"faiss": 2.0, "milvus": 1.1, "milvus-lite": 2.7}
"""Engines that need every vector in memory, and how often: what they read is held, too."""
ON_DISK = ("postgres", "milvus", "milvus-lite")
DISK_LEFT = 25e9
"""Bytes of the disk that stay free."""


def lacking(name: str, size: int, width: int) -> str | None:
    """What an engine needs and does not find here; None where all is there."""
    if name == "postgres" and not os.environ.get("AVOW_PG_DSN"):
        return "no server: AVOW_PG_DSN is not set"
    if name == "milvus" and "://" not in os.environ.get("AVOW_MILVUS_URI", ""):
        return "no server: AVOW_MILVUS_URI names none"
    package = {"faiss": "faiss", "milvus": "pymilvus", "postgres": "psycopg"}.get(
        name.partition("-")[0]
    )
    if package is not None and find_spec(package) is None:
        return f"the package {package} is not installed"
    often = ALL_IN_MEMORY.get(name, 0)
    needed, free = 4 * size * width * often, free_memory()
    if needed > free:
        return (
            f"{size:,} vectors of {width} float32 numbers are {4 * size * width / 1e9:.1f} GB, "
            f"of which it holds {often} times as much in memory while it is built: "
            f"{needed / 1e9:.0f} GB, where {free / 1e9:.0f} GB are free"
        )
    return None


def too_large(
    name: str, tenth: dict[str, Any], size: int, limit: int, disk: float
) -> str | None:
    """Why ten times of what was measured cannot be done here. disk: bytes that are free."""
    if "build_s" not in tenth:
        return None
    told = []
    bytes_needed = size * (tenth["bytes_a_vector"] or 0)
    seconds = 10 * tenth["build_s"]
    if name in ON_DISK and bytes_needed > disk - DISK_LEFT:
        told.append(
            f"{bytes_needed / 1e9:.0f} GB of disk, where {disk / 1e9:.0f} GB are free and "
            f"{DISK_LEFT / 1e9:.0f} GB stay so"
        )
    if seconds > limit:
        told.append(f"{seconds / 60:.0f} minutes to build, where {limit / 60:.0f} are allowed")
    if not told:
        return None
    return (
        f"a tenth of it took {tenth['build_s']:.0f} s and {tenth['bytes_a_vector'] or 0:,} "
        f"bytes a vector; in proportion it needs {' and '.join(told)}"
    )


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
