"""Agreement of orders, and intervals of any number, against loops and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, norm

from avow.metrics.agreement import kendall_tau_c
from avow.metrics.bootstrap import interval, redrawn
from avow.metrics.rejection import auroc

seeds = st.integers(0, 10_000)
levels = st.lists(st.integers(0, 4), min_size=2, max_size=25)


@settings(deadline=None)
@given(levels, seeds)
def test_tau_c_equals_a_loop_over_pairs(values, seed):
    a = np.array(values)
    b = np.random.default_rng(seed).integers(0, 3, len(a))
    fewer = min(len(set(a.tolist())), len(set(b.tolist())))
    found = kendall_tau_c(a, b)
    if fewer == 1:
        assert math.isnan(found)
        return
    signs = [
        np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i in range(len(a)) for j in range(i)
    ]
    expected = 2 * sum(signs) / len(a) ** 2 * fewer / (fewer - 1)
    assert found == pytest.approx(float(expected))


@settings(deadline=None)
@given(levels, seeds)
def test_tau_c_sees_only_the_order(values, seed):
    a = np.array(values, float)
    b = np.random.default_rng(seed).random(len(a))
    found = kendall_tau_c(a, b)
    assert kendall_tau_c(np.exp(a), 3 * b - 1) == pytest.approx(found, nan_ok=True)
    assert kendall_tau_c(-a, b) == pytest.approx(-found, nan_ok=True)
    assert kendall_tau_c(b, a) == pytest.approx(found, nan_ok=True)


# --- intervals --------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(-2, 5), min_size=1, max_size=20), seeds)
def test_groups_come_whole_and_as_many_as_there_are(labels, seed):
    groups = np.array(labels)
    for drawn in redrawn(groups, 3, seed):
        times = {label: np.sum(groups[drawn] == label) for label in set(labels)}
        shares = {label: times[label] / labels.count(label) for label in times}
        assert all(share == int(share) for share in shares.values())
        assert sum(shares.values()) == len(shares)
        for label, share in shares.items():
            members = np.flatnonzero(groups == label)
            assert sorted(drawn[groups[drawn] == label]) == sorted([*members] * int(share))


def test_without_groups_it_is_scipys_percentile_interval():
    values = np.random.default_rng(0).gamma(2, size=80)
    ours = interval(lambda q: float(values[q].mean()), np.arange(80), draws=4000)
    theirs = bootstrap(
        (values,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_intervals_of_grouped_queries_hold_the_truth():
    """About 95 % of them; captions redrawn one by one fall far short."""
    whole, single = 0, 0
    groups = np.repeat(np.arange(80), 5)
    for seed in range(120):
        rng = np.random.default_rng(seed + 1000)
        values = rng.standard_normal(80)[groups] + 0.3 * rng.standard_normal(400)

        def mean(drawn: np.ndarray, values: np.ndarray = values) -> float:
            return float(values[drawn].mean())

        low, high = interval(mean, groups, draws=100, seed=seed)
        whole += low <= 0 <= high
        low, high = interval(mean, np.arange(400), draws=100, seed=seed)
        single += low <= 0 <= high
    assert 0.87 <= whole / 120 <= 0.99
    assert single / 120 < 0.75


def test_the_interval_of_an_auroc_holds_the_truth():
    """Two normal distributions, one standard deviation apart: AUROC is known."""
    truth, held = norm.cdf(1 / math.sqrt(2)), 0
    for seed in range(100):
        rng = np.random.default_rng(seed + 1000)
        right = np.arange(120) % 2 == 0
        sure = rng.standard_normal(120) + right

        def area(q: np.ndarray, sure: np.ndarray = sure, right: np.ndarray = right) -> float:
            return auroc(sure[q][right[q]], sure[q][~right[q]])

        low, high = interval(area, np.arange(120), draws=80, seed=seed)
        held += low <= truth <= high
    assert 0.86 <= held / 100 <= 0.99


@settings(deadline=None)
@given(seeds)
def test_more_certainty_is_wider(seed):
    values = np.random.default_rng(seed).random(20)

    def mean(drawn: np.ndarray) -> float:
        return float(values[drawn].mean())

    groups = np.arange(20)
    narrow, wide = (interval(mean, groups, 50, seed, level) for level in (0.5, 0.95))
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]
    assert interval(mean, groups, 50, seed) == wide


def test_draws_without_a_value_are_left_out():
    right = np.array([True, False, False])

    def area(q: np.ndarray) -> float:
        return auroc(np.ones(3)[q][right[q]], np.zeros(3)[q][~right[q]])

    assert interval(area, np.arange(3)) == (1, 1)
    assert all(math.isnan(value) for value in interval(lambda q: math.nan, np.arange(3)))
