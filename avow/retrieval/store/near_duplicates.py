"""Near-duplicates: pictures that look the same, by miniature and by vector.

Two pictures are alike when their difference hashes differ in at most five of 64 bits and
their vectors are nearly the same. The first of them is the head of its group.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from jaxtyping import Float32, Int64

from avow.retrieval.store.writer import Writer

FARTHEST = 5
NEAREST = 0.95
_CUTS = (0, 11, 22, 33, 44, 54, 64)
"""Six slices of a hash: with five bits changed, one slice is left as it was."""
_COUNTS = np.array([bin(number).count("1") for number in range(65536)], np.uint8)


def group_alike(writer: Writer) -> None:
    """Find the near-duplicates of an index, and note them in its catalogue."""
    ids, vectors = writer.live(), writer.vectors()
    looks = dict(
        writer.link.execute(
            "SELECT id, look FROM items WHERE gone = 0 AND kind != 'text' AND look NOT NULL"
        )
    )
    rows = np.array([row for row, item in enumerate(ids.tolist()) if item in looks], np.int64)
    chosen = ids[rows]
    head_of = heads(
        chosen,
        np.array([looks[item] for item in chosen.tolist()], np.int64),
        _unit(vectors[rows]),
    )
    writer.group(head_of)


def _unit(vectors: Float32[np.ndarray, "items dim"]) -> Float32[np.ndarray, "items dim"]:
    """Vectors of length 1, also where an index keeps only a part of their numbers."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def heads(
    ids: Int64[np.ndarray, " items"],
    looks: Int64[np.ndarray, " items"],
    vectors: Float32[np.ndarray, "items dim"],
    nearest: float = NEAREST,
) -> dict[int, int]:
    """For each item that is like an earlier one, the id of the head of its group."""
    unique, which = np.unique(looks, return_inverse=True)
    near: dict[int, set[int]] = defaultdict(set)
    for first, second in _near_pairs(unique.view(np.uint64)):
        near[first].add(second)
        near[second].add(first)
    leaders: dict[int, list[int]] = defaultdict(list)
    head_of: dict[int, int] = {}
    for place in np.argsort(ids, kind="stable").tolist():
        look = int(which[place])
        rivals = [head for hashed in (look, *sorted(near[look])) for head in leaders[hashed]]
        if rivals:
            similar = vectors[rivals] @ vectors[place]
            best = int(similar.argmax())
            if similar[best] >= nearest:
                head_of[int(ids[place])] = int(ids[rivals[best]])
                continue
        leaders[look].append(place)
    return head_of


def _near_pairs(looks: np.ndarray) -> Iterator[tuple[int, int]]:
    """Pairs of different hashes that are at most `FARTHEST` bits apart."""
    for start, end in pairwise(_CUTS):
        shift, mask = np.uint64(start), np.uint64((1 << (end - start)) - 1)
        slices = (looks >> shift) & mask
        order = np.argsort(slices, kind="stable")
        edges = np.flatnonzero(np.diff(slices[order])) + 1
        for group in np.split(order, edges):
            for place, first in enumerate(group[:-1].tolist()):
                later = group[place + 1 :]
                for second in later[
                    _apart(looks[first : first + 1], looks[later]) <= FARTHEST
                ].tolist():
                    yield first, second


def _apart(first: np.ndarray, later: np.ndarray) -> np.ndarray:
    """In how many bits hashes differ."""
    parts = (first ^ later).view(np.uint16).reshape(len(later), 4)
    return _COUNTS[parts].sum(1)
