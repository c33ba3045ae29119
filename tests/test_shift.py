"""Shift checks: how often they cry wolf, how fast they see one; against scipy and MAPIE."""

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.exchangeability_testing import OnlineMartingaleTest
from scipy.stats import binom, kstest, permutation_test

from avow.core.errors import BadRecipe
from avow.trust.drift import Watch, compare

seeds = st.integers(0, 10_000)
TESTS = ["kolmogorov_smirnov", "mann_whitney"]
LEVEL = 0.1
TRIALS = 500 if os.environ.get("AVOW_LONG_TESTS") else 250


def tolerated(trials: int) -> float:
    return binom.ppf(0.999, trials, LEVEL) / trials


# --- batches ----------------------------------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("decimals", [1, 8])
def test_false_alarms_are_as_rare_as_promised(test, decimals):
    alarms = 0
    for seed in range(TRIALS):
        draws = np.random.default_rng(seed).random(130).round(decimals)
        alarms += compare(draws[:90], draws[90:], test=test, level=LEVEL).shifted
    assert alarms / TRIALS <= tolerated(TRIALS)
    assert decimals == 1 or alarms / TRIALS > 0.05


@pytest.mark.parametrize("test", TESTS)
def test_a_shift_is_found(test):
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        before, now = rng.standard_normal(300), rng.standard_normal(100) - 0.6
        found += compare(before, now, test=test).shifted
    assert found >= 90


@pytest.mark.parametrize("test", TESTS)
def test_groups_do_not_raise_false_alarms(test):
    """Captions of one image are alike; counted one by one they cry wolf."""
    alarms, naive = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(60), 5)
        draws = rng.standard_normal(60)[group] + 0.1 * rng.standard_normal(300)
        before, now = draws[group < 40], draws[group >= 40]
        labels = group[group < 40], group[group >= 40]
        naive += compare(before, now, test=test, level=LEVEL).shifted
        alarms += compare(
            before,
            now,
            test=test,
            level=LEVEL,
            reference_groups=labels[0],
            recent_groups=labels[1],
        ).shifted
    assert alarms / 300 <= tolerated(300) < naive / 300


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_kolmogorov_smirnov_is_exact(seed):
    """Its p-value is the share of all splits that are at least as far apart."""
    rng = np.random.default_rng(seed)
    before, now = rng.random(5), rng.random(4)

    def gap(a: np.ndarray, b: np.ndarray) -> float:
        places = np.concatenate([a, b])
        return max(abs(np.mean(a <= x) - np.mean(b <= x)) for x in places)

    every = permutation_test((now, before), gap, n_resamples=np.inf, alternative="greater")
    found = compare(before, now)
    assert found.distance == pytest.approx(gap(now, before))
    assert found.p_value == pytest.approx(every.pvalue, abs=1e-9)


@settings(deadline=None)
@given(seeds)
def test_mann_whitney_counts_pairs(seed):
    rng = np.random.default_rng(seed)
    before, now = rng.integers(0, 9, 20) / 9.0, rng.integers(0, 9, 15) / 9.0
    larger = np.mean((now[:, None] > before) + 0.5 * (now[:, None] == before))
    found = compare(before, now, test="mann_whitney")
    assert found.distance == pytest.approx(abs(larger - 0.5))


# --- streams ----------------------------------------------------------------------------


def test_a_watch_cries_wolf_as_rarely_as_promised():
    """Looked at after every query, over the whole stream (Ville's inequality)."""
    alarms = 0
    for seed in range(300):
        draws = np.random.default_rng(seed).standard_normal(300)
        alarms += Watch(draws[:100], level=LEVEL, seed=seed + 1000).see(draws[100:]).shifted
    assert alarms / 300 <= tolerated(300)


@pytest.mark.parametrize("change", [-1.0, 1.0])
def test_a_watch_sees_a_shift_in_the_stream(change):
    """Nothing for 200 queries, then one standard deviation up or down."""
    early, found = 0, 0
    for seed in range(40):
        draws = np.random.default_rng(seed).standard_normal(700)
        draws[500:] += change
        watch = Watch(draws[:300], seed=seed + 1000)
        early += watch.see(draws[300:500]).shifted
        found += watch.see(draws[500:]).shifted
    assert early <= 2  # a level of 1 %
    assert found >= 38


def test_the_bets_are_a_martingale():
    """Whatever the accounts hold, the expected gain over a uniform p-value is none."""
    watch = Watch(np.random.default_rng(0).random(50))
    watch.see(np.linspace(0, 1, 30))
    before, accounts = watch.log_capital, watch._accounts
    middles = (np.arange(2000) + 0.5) / 2000
    gains = []
    for p_value in middles:
        watch.log_capital, watch._accounts = before, accounts
        watch._bet(float(p_value))
        gains.append(math.exp(watch.log_capital - before))
    assert np.mean(gains) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("kind", ["alike", "rounded"])
def test_p_values_are_uniform_and_independent(kind):
    draws = np.random.default_rng(3).standard_normal(3000)
    draws = draws.round(0) if kind == "rounded" else draws
    watch = Watch(draws[:200])
    p_values = np.array([watch._p_value(value) for value in draws[200:].tolist()])
    assert kstest(p_values, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(p_values[1:], p_values[:-1])[0, 1]) < 0.05


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=60))
def test_the_capital_equals_mapies(p_values):
    watch, other = Watch(np.zeros(1), jump=0.01), OnlineMartingaleTest(jump_size=0.01)
    for p_value in p_values:
        watch._bet(p_value)
        theirs = other.update_simple_jumper_martingale(p_value)
        assert math.exp(watch.log_capital) == pytest.approx(theirs)


@settings(deadline=None)
@given(seeds, st.integers(1, 19))
def test_a_stream_in_parts_is_the_same_stream(seed, cut):
    draws = np.random.default_rng(seed).random(40)
    whole, parts = Watch(draws[:20]), Watch(draws[:20])
    parts.see(draws[20 : 20 + cut])
    assert parts.see(draws[20 + cut :]) == whole.see(draws[20:])


def test_a_capital_beyond_numbers():
    watch = Watch(np.linspace(0, 1, 5000))
    told = watch.see(np.linspace(2, 9, 4000))
    assert math.isfinite(watch.log_capital) and watch.log_capital > 700
    assert told.shifted and told.p_value < 1e-300


# --- in words ---------------------------------------------------------------------------


def test_a_shift_says_what_to_do():
    told = compare(np.linspace(0, 1, 50), np.linspace(2, 3, 40))
    assert str(told) == (
        "The last 40 queries are not like the 50 of calibration (kolmogorov smirnov, "
        f"p = {told.p_value:.2g}). Promises made there no longer apply; calibrate again with "
        "queries and gallery of today."
    )
    same = Watch(np.linspace(0, 1, 50)).see(np.linspace(0, 1, 3))
    assert str(same) == (
        "The last 3 queries may well be like the 50 of calibration (martingale, p = "
        f"{same.p_value:.2g}); a small change can go unseen."
    )


def test_a_level_is_a_share():
    with pytest.raises(BadRecipe) as caught:
        Watch(np.zeros(1), level=1.0)
    assert (
        str(caught.value) == "level is '1.0'. Expected a share between 0 and 1: 0.05 for 5 %."
    )
