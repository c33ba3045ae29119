"""What is usual for a candidate, summed up block by block, against the whole matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avow.core.background import Background
from avow.trust.top_k import hub_statistics


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 1000))
def test_blocks_equal_the_whole(sizes, seed):
    rng = np.random.default_rng(seed)
    blocks = [rng.random((2, size, 3), np.float32) for size in sizes]
    found = Background.from_scores(blocks, tau=0.1, kept=4)
    whole = np.concatenate(blocks, 1)
    assert found.queries == sum(sizes)
    np.testing.assert_allclose(
        found.log_mean, np.log(np.exp(whole / 0.1).mean(1)), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(found.mean, whole.mean(1), rtol=1e-5)
    np.testing.assert_allclose(found.spread, whole.std(1), atol=1e-3, rtol=1e-3)
    ordered = np.sort(whole, 1)[:, ::-1].swapaxes(1, 2)
    np.testing.assert_array_equal(found.top, ordered[..., :4])


def test_a_choice_of_candidates():
    found = Background.from_scores([np.random.default_rng(0).random((1, 6, 5))], tau=0.05)
    part = found.of(np.array([4, 0]))
    np.testing.assert_array_equal(part.top, found.top[:, [4, 0]])
    assert part.queries == 6


@pytest.mark.parametrize(("kept", "place"), [(3, 2), (8, 7), (12, 7)])
def test_a_hub_is_told_by_its_eighth_best_score_or_the_last_that_is_kept(kept, place):
    scores = np.random.default_rng(0).random((2, 20, 5))
    usual = Background.from_scores([scores], tau=0.1, kept=kept)
    order = np.array([[4, 0], [1, 2]])
    ranked = -np.sort(-scores, 1)
    found = hub_statistics(usual, order)
    np.testing.assert_allclose(found.eighth, ranked[:, place][:, order], rtol=1e-6)
    np.testing.assert_allclose(found.mean, scores.mean(1)[:, order], rtol=1e-6)
    np.testing.assert_allclose(found.spread, scores.std(1)[:, order], rtol=1e-5)
