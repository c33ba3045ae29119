"""A gallery in many shards, judged as one: similarities merge first, then one judgement.

    shard --best k, smallest hashes--> merged --best k, one sample--> TopKSummary --> Policy

Every shard returns its own best k and, of its items, those with the smallest hashed numbers.
The smallest of all of them are the smallest of the whole gallery: a uniform sample, drawn with
the probability size / K, and the same one however the items are dealt to shards.

Paper: Cohen and Kaplan, "Summarizing Data using Bottom-k Sketches", PODC 2007.
"""

from collections.abc import Sequence

import numpy as np

from avow.core.shapes import Float32, Int64, UInt64

Best = tuple[Int64[np.ndarray, " _"], Float32[np.ndarray, " _"]]
"""Ids and scores of one query, best first."""


def hashed(ids: Int64[np.ndarray, " items"]) -> UInt64[np.ndarray, " items"]:
    """A number for each id that tells nothing of it: the finaliser of splitmix64."""
    mixed = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def smallest_hashes(
    ids: Int64[np.ndarray, " items"],
    size: int,
    hashes: Int64[np.ndarray, " items"] | None = None,
) -> Int64[np.ndarray, " sample"]:
    """The items whose hashes are smallest, ascending; all of them where there are few.

    hashes: those of what the items are, where their numbers are only counted.
    """
    if len(ids) <= size:
        return np.sort(ids)
    drawn_by = hashed(ids) if hashes is None else hashes
    return np.sort(ids[np.argpartition(drawn_by, size)[:size]])


def merge_samples(
    samples: Sequence[Int64[np.ndarray, " _"]], size: int
) -> Int64[np.ndarray, " sample"]:
    """The sample of the whole gallery, from those of its shards."""
    return smallest_hashes(np.concatenate(samples), size)


def merge_best(found: Sequence[Best], k: int) -> Best:
    """The best k of all shards, ties by the smaller id."""
    ids = np.concatenate([ids for ids, _ in found])
    scores = np.concatenate([scores for _, scores in found])
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]
