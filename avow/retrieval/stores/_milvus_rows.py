"""Items as rows of a collection in Milvus, and back; and what such a collection is.

avow_NAME_notes       what readers see, feedback, policies, folders, skipped files
avow_NAME_1_0123abcd  rows of generation 1 of the store NAME, for one model

Fields that an item does not have hold values that no item has: older servers know no nulls.
"""

import base64
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from avow.core.errors import WrongIndex
from avow.core.shapes import Float32
from avow.retrieval.patterns import folded
from avow.retrieval.store_contract import Row, Stored
from avow.retrieval.stores._filter_parts import place_and_length
from avow.retrieval.stores._milvus_filters import (
    NOWHERE,
    PICTURE,
    TEXT,
    TOMBSTONE,
    UNKNOWN,
    veiled,
)

VECTOR = "vector"
READ = ["id", "about", "usual", "tags", VECTOR]
"""Fields that make a row again."""
_TEXTS = (
    *("kind", "path", "name", "folder", "path_like", "name_like", "folder_like"),
    *("taken", "about", "usual"),
)
_WHOLE = ("mtime_ns", "size", "width", "height")
_REAL = ("latitude", "longitude", "duration")
_LONGEST = 65_535
"""Bytes of a text."""
_MOST_TAGS, _TAG = 4096, 1000
"""Tags of an item, and letters of one."""


def make_rows(client: Any, collection: str, about: Mapping[str, Any]) -> None:
    """The collection of one generation. about: the manifest of its model."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("shown", DataType.INT8)
    for name in _TEXTS:
        schema.add_field(name, DataType.VARCHAR, max_length=_LONGEST)
    for name in _WHOLE:
        schema.add_field(name, DataType.INT64)
    for name in _REAL:
        schema.add_field(name, DataType.DOUBLE)
    for name in ("tags", "tags_like"):
        many = {"element_type": DataType.VARCHAR, "max_capacity": _MOST_TAGS}
        schema.add_field(name, DataType.ARRAY, **many, max_length=4 * _TAG)
    kind = DataType.FLOAT16_VECTOR if about["half"] else DataType.FLOAT_VECTOR
    schema.add_field(VECTOR, kind, dim=about["dim"])
    graph = {"M": 16, "efConstruction": 200}
    exact = about["engine"] != "hnsw"
    create(client, collection, schema, "FLAT" if exact else "HNSW", {} if exact else graph)


def make_notes(client: Any, collection: str) -> None:
    """The collection of notes. A collection must have a vector: here it says nothing."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    for name in ("part", "parts"):
        schema.add_field(name, DataType.INT64)
    for name in ("subject", "key", "content"):
        schema.add_field(name, DataType.VARCHAR, max_length=_LONGEST)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=2)
    create(client, collection, schema, "FLAT", {})


def create(
    client: Any, collection: str, schema: Any, index: str, settings: dict[str, Any]
) -> None:
    """One shard: the rows of one request become visible together."""
    if client.has_collection(collection):
        return
    indexes = client.prepare_index_params()
    indexes.add_index(VECTOR, index_type=index, metric_type="IP", params=settings)
    try:
        client.create_collection(
            collection,
            schema=schema,
            index_params=indexes,
            num_shards=1,
            consistency_level="Strong",
        )
    except Exception:  # a second writer may have made it meanwhile
        if not client.has_collection(collection):
            raise


def cells_of(row: Row, vector: np.ndarray, usual: np.ndarray, half: bool) -> dict[str, Any]:
    latitude, longitude, duration = place_and_length(row)
    folder, name = posixpath.split(row.path)
    tags = [tag[:_TAG] for tag in row.tags[:_MOST_TAGS]]
    kept = {field: getattr(row, field) for field in Row.__dataclass_fields__ if field != "tags"}
    return {
        "id": row.id,
        "shown": TEXT if row.kind == "text" else PICTURE,
        "kind": row.kind,
        "path": row.path,
        "name": name,
        "folder": folder,
        **{
            f"{field}_like": veiled(folded(text))
            for field, text in (("path", row.path), ("name", name), ("folder", folder))
        },
        "taken": (row.taken or "")[:10],
        "about": json.dumps(kept, ensure_ascii=False, separators=(",", ":")),
        "usual": base64.b64encode(np.ascontiguousarray(usual, "<f4").tobytes()).decode(),
        "mtime_ns": row.mtime_ns,
        "size": row.size,
        "width": UNKNOWN if row.width is None else row.width,
        "height": UNKNOWN if row.height is None else row.height,
        "latitude": NOWHERE if latitude is None else latitude,
        "longitude": NOWHERE if longitude is None else longitude,
        "duration": float(UNKNOWN) if duration is None else duration,
        "tags": tags,
        "tags_like": [veiled(folded(tag))[:_TAG] for tag in tags],
        VECTOR: _sent(vector, half),
    }


def tombstone(number: int, dim: int, half: bool) -> dict[str, Any]:
    """A row in place of one that is gone: no filter lets it pass."""
    return {
        "id": int(number),
        "shown": TOMBSTONE,
        "tags": [],
        "tags_like": [],
        **dict.fromkeys(_TEXTS, ""),
        **dict.fromkeys(_WHOLE, 0),
        **dict.fromkeys(_REAL, 0.0),
        VECTOR: _sent(np.zeros(dim, np.float32), half),
    }


def stored(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> Stored:
    """Rows as they were read. about: the manifest of their model."""
    vectors = [_numbers(row[VECTOR], about["half"]) for row in rows]
    usual = [np.frombuffer(base64.b64decode(row["usual"]), "<f4") for row in rows]
    return Stored(
        tuple(Row(**json.loads(row["about"]), tags=tuple(row["tags"])) for row in rows),
        np.array(vectors, np.float32).reshape(len(rows), about["dim"]),
        np.array(usual, np.float32).reshape(len(rows), -1 if rows else 0),
    )


def queries_of(queries: Float32[np.ndarray, "queries dim"], half: bool) -> list[Any]:
    return [_sent(query, half) for query in queries]


def check_half(version: str, old: bool) -> None:
    """Whether vectors of 16 bits are possible."""
    if old or version.startswith("milvus_lite"):
        what = f"The Milvus server of version {version!r}" if old else "Milvus Lite"
        raise WrongIndex(
            f"{what} keeps vectors as float32. Expected a Milvus server of version 2.4 or "
            "newer for float16; leave out '--vectors float16', or name such a server in "
            "AVOW_MILVUS_URI."
        )


def _sent(vector: np.ndarray, half: bool) -> Any:
    return np.asarray(vector, np.float16 if half else np.float32)


def _numbers(vector: Any, half: bool) -> np.ndarray:
    """A vector of 16 bits comes as its bytes, in a list of one."""
    if half:
        (vector,) = vector if isinstance(vector, list) else [vector]
        vector = np.frombuffer(vector, np.float16) if isinstance(vector, bytes) else vector
    return np.asarray(vector, np.float32)
