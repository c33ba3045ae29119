"""Promises of risk against exact binomials, against MAPIE, and kept in simulation."""

import math
import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.risk_control import BinaryClassificationController
from mapie.risk_control.methods import get_r_hat_plus
from scipy.integrate import trapezoid
from scipy.stats import binom, norm
from tiers import long

from avow.core.errors import BadRecipe
from avow.core.groups import halves, numbered, one_of_each, running_sums
from avow.trust.risk_control import (
    effective_size,
    fewest_answers,
    promise,
    promise_on_average,
    tail_probability,
)

seeds = st.integers(0, 10_000)
DELTA = 0.1
SETS = 600 if os.environ.get("AVOW_LONG_TESTS") else 150
"""Simulated calibration sets of every case."""


def answers(
    seed: int, groups: int, members: int = 1, alike: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences, errors and groups; `alike` is the correlation inside a group."""
    rng = np.random.default_rng(seed)

    def correlated() -> np.ndarray:
        own = rng.standard_normal((groups, members))
        shared = rng.standard_normal((groups, 1))
        return (math.sqrt(alike) * shared + math.sqrt(1 - alike) * own).ravel()

    confidence, noise = correlated(), correlated()
    return confidence, noise > 0.5 + 0.8 * confidence, np.repeat(np.arange(groups), members)


def true_risk(threshold: float) -> float:
    """P(wrong | answered) of `answers`, from its density."""
    grid = np.linspace(threshold, max(threshold, 0) + 8, 4001)
    density = norm.pdf(grid)
    wrong = norm.sf(0.5 + 0.8 * grid)
    return float(trapezoid(density * wrong, grid) / trapezoid(density, grid))


def exceedance(
    make: Callable[[int], tuple[np.ndarray, ...]], alpha: float, sets: int, **chosen: object
) -> tuple[float, float]:
    """Share of simulated calibration sets whose promise is broken; mean coverage."""
    broken, coverage = 0, 0.0
    for seed in range(sets):
        confidence, wrong, *group = make(seed)
        made = promise(
            confidence, wrong, alpha, DELTA, groups=group[0] if group else None, **chosen
        )
        coverage += made.coverage / sets
        if made.threshold is not None:
            broken += true_risk(made.threshold) > alpha
    return broken / sets, coverage


def tolerated(sets: int) -> float:
    """What the share of broken promises may be by chance, when delta are broken."""
    return binom.ppf(0.999, sets, DELTA) / sets


# --- the test ---------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(1, 300), st.data(), st.floats(0.01, 0.5))
def test_tail_probability_is_the_binomial_one(answered, data, alpha):
    wrong = data.draw(st.integers(0, answered))
    found = tail_probability(np.array([float(wrong)]), np.array([float(answered)]), alpha)
    assert found[0] == pytest.approx(binom.cdf(wrong, answered, alpha), rel=1e-9, abs=1e-300)


@settings(deadline=None)
@given(st.floats(0.01, 0.5), st.floats(0.001, 0.5))
def test_fewest_answers_is_where_a_faultless_record_passes(alpha, delta):
    fewest = fewest_answers(alpha, delta)
    assert binom.cdf(0, fewest, alpha) <= delta * (1 + 1e-9)
    assert fewest == 1 or binom.cdf(0, fewest - 1, alpha) > delta * (1 - 1e-9)


@settings(deadline=None)
@given(st.floats(0.02, 0.4), st.floats(0.01, 0.4))
def test_a_faultless_record_is_enough_from_there_on(alpha, delta):
    fewest = fewest_answers(alpha, delta)
    confidence = np.linspace(1, 0, fewest)
    right = np.zeros(fewest, bool)
    assert promise(confidence, right, alpha, delta).answered == fewest
    assert promise(confidence[1:], right[1:], alpha, delta).threshold is None


@settings(deadline=None)
@given(
    seeds, st.sampled_from([0.05, 0.1, 0.3]), st.booleans(), st.sampled_from([-9.0, 0.5, 9.0])
)
def test_one_start_is_a_plain_loop_over_thresholds(seed, alpha, tied, least):
    confidence, wrong, _ = answers(seed, 150)
    confidence = np.round(confidence, 1) if tied else confidence
    expected = None
    for threshold in sorted(set(confidence), reverse=True):
        answered = confidence >= threshold
        if answered.sum() < fewest_answers(alpha, DELTA):
            continue
        if binom.cdf(wrong[answered].sum(), answered.sum(), alpha) > DELTA:
            break
        expected = threshold
    made = promise(confidence, wrong, alpha, DELTA, starts=1)
    assert made.threshold == expected
    if expected is not None:
        assert made.answered == (confidence >= expected).sum()
        assert made.wrong == wrong[confidence >= expected].sum()
        assert (made.answers(confidence) == (confidence >= expected)).all()


def test_a_test_that_fails_loses_its_share_and_the_next_start_has_its_own():
    """One early mistake ends a single sequence; a second start gets over it."""
    wrong = np.zeros(2000, bool)
    wrong[3] = True
    confidence = np.linspace(1, 0, 2000)
    assert promise(confidence, wrong, 0.05, DELTA, starts=1).threshold is None
    assert promise(confidence, wrong, 0.05, DELTA, starts=2).answered == 2000
    assert promise(confidence, wrong, 0.05, DELTA).answered == 2000
    # alone, the second start has half of delta and no more: this set passes delta only
    count = 900
    wrong = np.zeros(count, bool)
    wrong[3] = True
    most = int(binom.ppf(DELTA, count, 0.05)) - 1
    assert DELTA / 2 < binom.cdf(most, count, 0.05) <= DELTA
    wrong[-most + 1 :] = True
    answered = promise(np.linspace(1, 0, count), wrong, 0.05, DELTA, starts=2).answered
    assert 0 < answered < count


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_mapie_on_precision(seed):
    """MAPIE controls the precision of a binary classifier: an answer is a positive."""
    confidence, wrong, _ = answers(seed, 2000)
    stated = np.round(norm.cdf(confidence), 2)
    enough = [s for s in set(stated) if (stated >= s).sum() >= fewest_answers(0.15, DELTA)]
    controller = BinaryClassificationController(
        lambda given: np.stack([1 - given[:, 0], given[:, 0]], 1),
        "precision",
        target_level=0.85,
        confidence_level=1 - DELTA,
        list_predict_params=np.array(sorted(enough, reverse=True)),
        fwer_method="fixed_sequence",
    )
    with pytest.warns(UserWarning, match="requires a monotonic risk"):
        controller.calibrate(stated[:, None], (~wrong).astype(int))
    made = promise(stated, wrong, 0.15, DELTA, starts=1)
    assert made.threshold == min(np.ravel(controller.valid_predict_params))


# --- kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("starts", [1, long(2), 4])
def test_promises_are_kept(starts):
    broken, coverage = exceedance(lambda s: answers(s, 800)[:2], 0.2, SETS, starts=starts)
    assert broken <= tolerated(SETS)
    assert coverage > (0.4 if starts == 1 else 0.5)  # at best 0.66


@pytest.mark.parametrize("alike", [long(0.5), 0.95])
@pytest.mark.parametrize("grouping", ["effective", "one"])
def test_promises_about_groups_are_kept(alike, grouping):
    """Five captions of one image are no five queries."""
    broken, coverage = exceedance(
        lambda s: answers(s, 400, 5, alike), 0.2, SETS, grouping=grouping
    )
    assert broken <= tolerated(SETS)
    assert coverage > (0.44 if grouping == "effective" else 0.3)  # at best 0.66


def hopeless(seed: int, alpha: float, alike: bool) -> tuple[np.ndarray, ...]:
    """Every threshold is just too risky, and whole groups are right or wrong at once."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(300), 5)
    shared = rng.standard_normal(300)[group]
    confidence = shared + (1e-6 if alike else 1.0) * rng.standard_normal(1500)
    return confidence, (rng.random(300) < alpha)[group], group


# members that differ in confidence are an easier case: it takes more sets to see it is one
@pytest.mark.parametrize("alike", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("alpha", [long(0.05), 0.2])
def test_nothing_is_promised_where_nothing_can_be(alike, alpha):
    """The hardest case for groups: all members alike, at the very rate tested."""
    made, naive = 0, 0
    for seed in range(SETS):
        confidence, wrong, group = hopeless(seed, alpha, alike)
        made += promise(confidence, wrong, alpha, DELTA, groups=group).threshold is not None
        naive += promise(confidence, wrong, alpha, DELTA).threshold is not None
    assert made / SETS <= tolerated(SETS)
    assert naive / SETS > tolerated(SETS)  # so the case is hard indeed


def test_kept_although_the_most_confident_are_often_wrong():
    """Risk that falls and rises again breaks the assumption; the excess stays small."""
    broken = 0
    grid = np.linspace(0, 1, 2001)[:-1]
    chance = np.where(grid > 0.97, 0.5, np.where(grid > 0.6, 0.02, 0.6))
    risk = np.cumsum(chance[::-1])[::-1] / np.arange(len(grid), 0, -1)
    for seed in range(SETS):
        rng = np.random.default_rng(seed)
        place = rng.integers(0, len(grid), 600)
        made = promise(grid[place], rng.random(600) < chance[place], 0.1, DELTA)
        if made.threshold is not None:
            broken += risk[np.searchsorted(grid, made.threshold)] > 0.1
    assert broken / SETS <= tolerated(SETS)


# --- groups -----------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), seeds)
def test_effective_size_equals_a_plain_loop(labels, seed):
    group = np.array(labels)
    wrong = np.random.default_rng(seed).random(len(group)) < 0.4
    errors, sizes = effective_size(wrong, group, 0.2)
    for count in range(1, len(group) + 1):
        members: dict[int, list[float]] = {}
        for label, failed in zip(group[:count], wrong[:count], strict=True):
            members.setdefault(int(label), []).append(float(failed) - 0.2)
        largest = sum(len(own) ** 2 for own in members.values()) / count
        joint = sum(sum(own) ** 2 for own in members.values()) + (largest * 0.8) ** 2
        single = sum(x * x for own in members.values() for x in own) + largest * 0.64
        effect = min(max(joint / single, 1), largest)
        assert sizes[count - 1] == pytest.approx(count / effect)
        assert errors[count - 1] == pytest.approx(wrong[:count].sum() / effect)


@settings(deadline=None)
@given(seeds, st.integers(1, 6))
def test_copies_add_nothing(seed, copies):
    """Queries repeated word for word promise what one of each promises."""
    confidence, wrong, _ = answers(seed, 120)
    group = np.repeat(np.arange(120), copies)
    alone = promise(confidence, wrong, 0.3, DELTA)
    copied = promise(np.repeat(confidence, copies), np.repeat(wrong, copies), 0.3, groups=group)
    assert copied.threshold == alone.threshold
    assert copied.answered == copies * alone.answered


@settings(deadline=None)
@given(st.lists(st.integers(-3, 9), min_size=1, max_size=30), seeds)
def test_one_of_each_group(labels, seed):
    group = numbered(np.array(labels), len(labels))
    kept = one_of_each(group, seed)
    assert sorted(group[kept]) == sorted(set(group))
    assert (np.diff(kept) > 0).all()


def test_every_member_is_as_likely_to_be_kept():
    group = np.array([0, 1, 0, 0])
    drawn = np.bincount([one_of_each(group, seed)[0] for seed in range(900)], minlength=4)
    kept = drawn + np.bincount([one_of_each(group, s)[1] for s in range(900)], minlength=4)
    assert kept[1] == 900
    assert (np.abs(kept[[0, 2, 3]] - 300) < 60).all()


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), seeds)
def test_running_sums_equal_a_plain_loop(labels, seed):
    values = np.random.default_rng(seed).standard_normal(len(labels))
    found = running_sums(values, np.array(labels))
    for place, label in enumerate(labels):
        own = [v for v, g in zip(values[: place + 1], labels, strict=False) if g == label]
        assert found[place] == pytest.approx(sum(own))


def test_group_labels_must_fit():
    with pytest.raises(ValueError) as caught:
        numbered(np.zeros(3, int), 4)
    assert str(caught.value) == "There are 3 group labels for 4 queries. Expected one each."


# --- on average -------------------------------------------------------------------------


@settings(deadline=None)
@given(seeds, st.sampled_from([0.02, 0.1, 0.3]))
def test_average_promise_equals_mapies_bound(seed, alpha):
    confidence, wrong, _ = answers(seed, 80)
    thresholds = np.sort(confidence)
    losses = (confidence[:, None] >= thresholds) & wrong[:, None]
    _, bound = get_r_hat_plus(losses.astype(float), thresholds, "crc", None, None, None)
    allowed = thresholds[bound <= alpha]
    found = promise_on_average(confidence, wrong, alpha).threshold
    assert found == (allowed.min() if len(allowed) else None)


def test_an_average_promise_answers_from_its_threshold_on_or_never():
    confidence = np.array([0.1, 0.5, 0.9, 1e9])
    made = promise_on_average(*answers(0, 80)[:2], 0.3)
    assert made.threshold is not None
    for threshold, wanted in ((0.5, [False, True, True, True]), (None, [False] * 4)):
        told = replace(made, threshold=threshold).answers(confidence)
        assert told.tolist() == wanted


@pytest.mark.parametrize(("count", "answered"), [(8, 7), (9, 9), (4, 3), (3, None)])
def test_an_average_promise_counts_the_next_query_as_wrong(count, answered):
    """At 0.2, of 8 queries (0 + 1) / 9 may be wrong and (1 + 1) / 9 not; of 9, (1 + 1) / 10."""
    confidence = np.linspace(1, 0, count)
    made = promise_on_average(confidence, np.arange(count) == count - 1, 0.2)
    assert made.threshold == (None if answered is None else confidence[answered - 1])


@pytest.mark.parametrize("alike", [0.0, 0.95])
def test_average_promises_are_kept_on_average(alike):
    """The mean over calibration sets is at most alpha, and close to it."""
    alpha, risks = 0.1, []
    for seed in range(400):
        confidence, wrong, group = answers(seed, 60, 3, alike)
        threshold = promise_on_average(confidence, wrong, alpha, groups=group).threshold
        if threshold is None:
            risks.append(0.0)
        else:
            risks.append(true_risk(threshold) * norm.sf(threshold))
    error = np.std(risks) / math.sqrt(len(risks))
    assert alpha - 1 / 61 - 3 * error < np.mean(risks) < alpha + 3 * error


# --- in words ---------------------------------------------------------------------------


def test_a_promise_says_what_it_is():
    made = promise(np.linspace(1, 0.5, 100), np.arange(100) == 99, 0.05, DELTA)
    assert str(made) == (
        "Answering from confidence 0.5 up, at most 5.0% of the answers are wrong "
        "(the first answer is not right), with confidence 90.0%. "
        "Calibration: 100 of 100 queries answered, 1 wrong."
    )
    assert made.coverage == 1


def test_too_few_queries_say_how_many_it_takes():
    made = promise(np.linspace(1, 0, 20), np.zeros(20, bool), 0.05, DELTA)
    assert made.threshold is None
    assert str(made) == (
        "Nothing can be promised: 45 independent queries are the fewest that can show at "
        "most 5.0% wrong with confidence 90.0%, and there are 20."
    )
    assert not made.answers(np.array([0.5, 1e9])).any()


def test_too_many_errors_say_so():
    made = promise(np.linspace(1, 0, 200), np.arange(200) % 2 == 0, 0.05, DELTA)
    assert str(made) == (
        "Nothing can be promised: already of the most confident answers, too many are wrong "
        "to rule out more than 5.0%."
    )


def test_no_queries_no_promise():
    made = promise(np.zeros(0), np.zeros(0, bool), 0.05)
    assert made.threshold is None and made.coverage == 0
    assert promise_on_average(np.zeros(0), np.zeros(0, bool), 0.05).threshold is None


def test_a_share_is_between_0_and_1():
    with pytest.raises(BadRecipe) as caught:
        promise(np.ones(3), np.zeros(3, bool), 5.0)
    assert str(caught.value) == (
        "alpha is '5.0'. Expected a share between 0 and 1: 0.05 for 5 %."
    )


def test_a_confidence_is_a_number():
    with pytest.raises(ValueError, match="not a number"):
        promise(np.array([0.5, np.nan]), np.zeros(2, bool), 0.5)


@pytest.mark.parametrize("alpha", [5e-324, 1e-320, 1e-300, 1e-17])
def test_a_risk_next_to_nothing_cannot_be_promised(alpha):
    """log(1 - alpha) is so small there that dividing by it overflows."""
    sure = np.linspace(0, 1, 1000)
    made = promise(sure, np.zeros(1000, bool), alpha, starts=3)
    assert made.threshold is None and made.answered == 0
    assert "independent queries are the fewest" in made.reason


@pytest.mark.parametrize("larger_first", [False, True])
def test_halves_keep_groups_whole_and_lose_nobody(larger_first):
    groups = np.array([7, 3, 3, 9, 7, 1, 1, 5])
    for seed in range(5):
        one, other = halves(groups, seed, larger_first)
        assert sorted([*one, *other]) == list(range(8))
        assert not set(groups[one]) & set(groups[other])
        assert len(set(groups[one])) == (3 if larger_first else 2)
