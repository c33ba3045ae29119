"""Shards merge to what one store has: the same best items, the same sample."""

import numpy as np
import pytest

from avow.retrieval.merged_shards import hashed, merge_best, merge_samples, smallest_hashes

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("shards", [1, 7, 1000])
def test_however_items_are_dealt_the_best_and_the_sample_are_the_same(shards):
    ids = RNG.permutation(100_000)[:5000].astype(np.int64)
    scores = RNG.integers(0, 900, 5000).astype(np.float32)  # with ties
    home = RNG.integers(0, shards, 5000)
    parts = [np.flatnonzero(home == shard) for shard in range(shards)]
    order = np.lexsort((ids, -scores))[:32]
    best = []
    for part in parts:
        first = part[np.lexsort((ids[part], -scores[part]))[:32]]
        best.append((ids[first], scores[first]))
    merged = merge_best(best, 32)
    assert (merged[0] == ids[order]).all() and (merged[1] == scores[order]).all()
    sample = merge_samples([smallest_hashes(ids[part], 256) for part in parts], 256)
    assert (sample == smallest_hashes(ids, 256)).all() and len(sample) == 256


def test_the_sample_is_a_uniform_one():
    """Numbers in order, as a catalogue gives them, are drawn as often early as late."""
    assert len(np.unique(hashed(np.arange(100_000)))) == 100_000
    step = np.array([0x9E3779B97F4A7C15], np.uint64).astype(np.int64)[0]
    first, second = 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4  # of splitmix64 with the seed 0
    assert hashed(np.array([0, step])).tolist() == [first, second]
    counts = np.zeros(20)
    for start in range(0, 400_000, 2000):
        sample = smallest_hashes(np.arange(start, start + 2000), 100)
        counts += np.bincount((sample - start) // 100, minlength=20)
    expected = counts.sum() / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8  # chi squared of 19, p = .001
    assert smallest_hashes(np.array([5, 2, 9]), 10).tolist() == [2, 5, 9]


def test_hashes_of_what_items_are_draw_the_sample_whatever_their_numbers():
    hashes = np.random.default_rng(5).permutation(5000).astype(np.int64)
    first = smallest_hashes(np.arange(5000), 300, hashes)
    other = np.random.default_rng(6).permutation(5000).astype(np.int64)
    second = smallest_hashes(other, 300, hashes)
    assert sorted(hashes[first]) == list(range(300))
    assert sorted(other[first]) == second.tolist()
