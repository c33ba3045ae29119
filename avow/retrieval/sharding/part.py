"""An encoded unit as bytes: safetensors with the vectors, and JSON about their items.

Vectors stand in the order of the items. What could not be read stands among the files, with
its reason.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32
from safetensors import SafetensorError
from safetensors.numpy import load, save

from avow.retrieval.store.reading import Fresh, Loaded, Unreadable
from avow.retrieval.store.walk import FileStat

_ITEM = ("part", "kind", "content", "text", "width", "height", "taken", "look")


class BrokenPart(Exception):
    """Bytes that are no part; the unit is encoded again."""


@dataclass(frozen=True)
class Outcome:
    """One file: its items with their vectors, or why there are none."""

    stat: FileStat
    loaded: Loaded | None = None
    error: Unreadable | None = None

    @property
    def again(self) -> bool:
        """Whether it could not be read, and trying again may help."""
        return self.error is not None and self.error.again

    def future(self) -> "Future[Loaded]":
        """As a thread that has read the file would give it."""
        future: Future[Loaded] = Future()
        if self.loaded is not None:
            future.set_result(self.loaded)
        else:
            future.set_exception(self.error)
        return future


def packed(
    outcomes: Sequence[Outcome], vectors: Float32[np.ndarray, "items dim"], fingerprint: str
) -> bytes:
    """outcomes: in the order of the unit. vectors: of all their items, in order."""
    files = [_noted(outcome) for outcome in outcomes]
    about = json.dumps({"model": fingerprint, "files": files}).encode()
    return save({"about": np.frombuffer(about, np.uint8), "vectors": vectors})


def packed_refusal(files: Sequence[FileStat], why: str, fingerprint: str) -> bytes:
    """The part of a unit that nobody could encode: all its files with the same reason."""
    outcomes = [Outcome(stat, error=Unreadable(why, again=True)) for stat in files]
    return packed(outcomes, np.empty((0, 1), np.float32), fingerprint)


def unpacked(data: bytes, fingerprint: str) -> Iterator[Outcome]:
    """What `packed` was given; every item has its vector."""
    try:
        arrays = load(data)
        about = json.loads(arrays["about"].tobytes())
        vectors = np.asarray(arrays["vectors"], np.float32)
        items = sum(len(file.get("items", [])) for file in about["files"])
        if about["model"] != fingerprint or vectors.ndim != 2 or len(vectors) != items:
            raise BrokenPart("made by another model, or incomplete")
        return iter(_outcomes(about["files"], vectors))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenPart(str(error)) from error


def _noted(outcome: Outcome) -> dict[str, Any]:
    stat = astuple(outcome.stat)
    if outcome.loaded is None:
        assert outcome.error is not None
        return {"stat": stat, "why": str(outcome.error), "again": outcome.error.again}
    items = [
        {**{name: getattr(item, name) for name in _ITEM}, "tags": item.tags}
        for item in outcome.loaded.items
    ]
    return {"stat": stat, "content": outcome.loaded.content, "items": items}


def _outcomes(files: list[dict[str, Any]], vectors: np.ndarray) -> list[Outcome]:
    outcomes, row = [], 0
    for file in files:
        stat = FileStat(*file["stat"])
        if "why" in file:
            outcomes.append(Outcome(stat, error=Unreadable(file["why"], file["again"])))
            continue
        items = []
        for item in file["items"]:
            about = [item[name] for name in _ITEM]
            items.append(Fresh(*about, tags=tuple(item["tags"]), vector=vectors[row]))
            row += 1
        outcomes.append(Outcome(stat, Loaded(stat, file["content"], items)))
    return outcomes
