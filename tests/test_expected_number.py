"""How many items fit: unbiased from a sample, and in its interval as often as stated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avow.core.logistic import expit
from avow.trust.coherence import (
    ABOVE,
    BEHIND,
    INTERVAL,
    Behind,
    behind_features,
    fit_tail,
    measured_spread,
    number,
)
from avow.trust.probability import Probability

HITS, GALLERY = 32, 2000
OFFSET, SLOPE = 0.3, 1.1


def world(queries: int, seed: int) -> tuple[np.ndarray, Behind, np.ndarray, np.ndarray]:
    """Probabilities of hits, gaps of all others, their true probabilities, words.

    A candidate behind the hits fits with the odds of the last hit, less so the larger its gap.
    """
    rng = np.random.default_rng(seed)
    last = rng.uniform(0.02, 0.6, queries)
    hits = -np.sort(-rng.uniform(last[:, None], 0.98, (queries, HITS)), axis=1)
    hits[:, -1] = last
    gap = rng.exponential(2.5, (queries, GALLERY - HITS))
    true = expit(np.log(last / (1 - last))[:, None] - OFFSET - SLOPE * gap)
    behind = Behind(gap, np.ones_like(gap, bool), np.full(queries, GALLERY - HITS))
    return hits, behind, true, np.full(queries, 3)


@pytest.fixture(scope="module")
def tail() -> Probability:
    hits, behind, true, words = world(300, seed=1)
    rng = np.random.default_rng(2)
    query, column = np.nonzero(rng.random(true.shape) < 0.1)
    rows = behind_features(hits[:, -1], behind.gap, words)[query, column]
    fits = rng.random(len(query)) < true[query, column]
    return fit_tail("relevant", rows, fits, np.full(len(query), GALLERY), query)


def test_the_number_is_the_sum_of_all_probabilities(tail):
    hits, behind, true, words = world(200, seed=3)
    found = number(hits, behind, tail, 1.0, words)
    exact = hits.sum(1) + true.sum(1)
    assert exact.min() > 10 and exact.max() > 60
    assert found.expected.mean() == pytest.approx(exact.mean(), rel=0.03)
    assert np.corrcoef(found.expected, exact)[0, 1] > 0.98
    np.testing.assert_allclose(found.low, found.expected)
    np.testing.assert_allclose(found.high, found.expected)


def test_a_level_tells_what_gaps_do_not():
    """Of two names with equal hits and gaps, that of the higher level has fewer behind them."""

    def leveled(queries: int, seed: int) -> tuple[np.ndarray, Behind, np.ndarray, np.ndarray]:
        hits, behind, true, _ = world(queries, seed)
        above = np.random.default_rng(seed).normal(0, 1.5, queries)
        return hits, behind, expit(np.log(true / (1 - true)) + above[:, None]), above

    hits, behind, true, above = leveled(300, seed=1)
    words = np.ones(len(above), int)
    rng = np.random.default_rng(2)
    query, column = np.nonzero(rng.random(true.shape) < 0.1)
    fits, sizes = rng.random(len(query)) < true[query, column], np.full(len(query), GALLERY)
    tails = [
        fit_tail(
            "relevant",
            behind_features(hits[:, -1], behind.gap, words, *given)[query, column],
            fits,
            sizes,
            query,
        )
        for given in ((), (above,))
    ]
    assert [one.names for one in tails] == [BEHIND, (*BEHIND, ABOVE)]
    hits, behind, true, above = leveled(200, seed=3)
    true = np.minimum(true, hits[:, -1:])
    exact = hits.sum(1) + true.sum(1)
    plain, told = (
        number(hits, behind, one, 1.0, words[:200], above=above).expected for one in tails
    )
    off, off_plain = (abs(np.log(one / exact)).mean() for one in (told, plain))
    assert off < 0.1 < 0.3 < off_plain


def test_a_sample_is_unbiased(tail):
    """Many samples of one query's gallery: their mean is what the whole gallery gives."""
    hits, behind, _, words = world(1, seed=4)
    whole = number(hits, behind, tail, 1.0, words).expected[0]
    rng = np.random.default_rng(5)
    draws, size = 400, 200
    chosen = np.stack([rng.permutation(GALLERY - HITS)[:size] for _ in range(draws)])
    some = Behind(
        behind.gap[0][chosen], np.ones((draws, size), bool), np.repeat(behind.count, draws)
    )
    estimates = number(
        np.repeat(hits, draws, 0), some, tail, 1.0, np.repeat(words, draws)
    ).expected
    error = estimates.std() / draws**0.5
    assert abs(estimates.mean() - whole) < 4 * error
    assert error < 0.02 * whole


def test_hits_in_the_sample_do_not_count_twice(tail):
    """Columns that are no candidates behind the hits of a query are left out."""
    hits, behind, _, words = world(2, seed=6)
    plain = number(hits, behind, tail, 1.0, words)
    padded = Behind(
        np.concatenate([behind.gap, np.full((2, 50), -9.0)], 1),
        np.concatenate([behind.seen, np.zeros((2, 50), bool)], 1),
        behind.count,
    )
    np.testing.assert_allclose(number(hits, padded, tail, 1.0, words).expected, plain.expected)


def test_the_interval_holds_its_share_of_new_queries(tail):
    def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Behind]:
        hits, behind, true, words = world(400, seed)
        # people disagree about whole queries, not only about single pictures
        rng = np.random.default_rng(seed)
        lenient = rng.normal(0, 0.8, (400, 1))
        odds = np.concatenate([hits, true], 1)
        odds = np.log(odds / (1 - odds)) + lenient
        return hits, words, (rng.random(odds.shape) < expit(odds)).sum(1), lenient, behind

    hits, words, true, _, behind = drawn(7)
    spread = measured_spread(number(hits, behind, tail, 1.0, words).expected, true)
    assert 1.1 < spread < 4
    hits, words, true, _, behind = drawn(8)
    found = number(hits, behind, tail, spread, words)
    held = ((found.low <= true) & (true <= found.high)).mean()
    assert held == pytest.approx(INTERVAL, abs=0.07)


def test_the_spread_is_a_quantile():
    expected, true = np.full(10, 9.0), np.array([9] * 8 + [39, 39])
    assert measured_spread(expected, true) == pytest.approx(4**0.2)  # a fifth of the way
    assert measured_spread(expected, np.full(10, 39)) == pytest.approx(4.0)
    assert measured_spread(expected, np.full(10, 9)) == pytest.approx(1.0)


@given(st.floats(0.01, 0.9), st.floats(0, 8), st.floats(0.01, 4), st.integers(1, 20))
@settings(max_examples=60)
def test_it_falls_with_the_gap(tail, last, gap, more, words):
    """And is never more than the last hit's probability for every candidate."""
    gaps = np.array([[gap], [gap + more]])
    behind = Behind(gaps, np.ones((2, 1), bool), np.array([100, 100]))
    hits = np.full((2, 3), last)
    near, far = number(hits, behind, tail, 1.5, np.full(2, words)).expected
    assert near >= far - 1e-9
    assert 3 * last - 1e-9 <= far and near <= 103 * last + 1e-9


def test_the_interval_stays_inside_the_gallery(tail):
    behind = Behind(np.zeros((1, 4)), np.ones((1, 4), bool), np.array([4]))
    found = number(np.full((1, 3), 0.9), behind, tail, 10.0, np.array([2]))
    assert found.low[0] == 0 and found.high[0] == 7


def test_nothing_behind_leaves_the_hits(tail):
    behind = Behind(np.zeros((1, 0)), np.ones((1, 0), bool), np.array([0]))
    found = number(np.array([[0.5, 0.25]]), behind, tail, 2.0, np.array([2]))
    assert found.expected[0] == pytest.approx(0.75)


def test_columns_have_their_names():
    found = behind_features(np.array([0.5]), np.array([[2.0, 3.0]]), np.array([1]))
    assert found.shape == (1, 2, len(BEHIND))
    np.testing.assert_allclose(found[0, 1], [0, 3, np.log(2), 3 * np.log(2)], atol=1e-12)
