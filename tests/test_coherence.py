"""Probabilities that agree: every hit, one of the first k, and that anything fits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_policy import asking, judged, scored

from avow.core.logistic import expit
from avow.trust.coherence import TEN, agree, log_odds, one_of_first, query_features, query_names
from avow.trust.fitting import fit_search_policy
from avow.trust.policy import Policy

CLOSE = 1e-9
SHARES = st.floats(0, 1, width=32).map(float)


@st.composite
def queries(draw) -> tuple[np.ndarray, np.ndarray]:
    """Hits of some queries, most probable first, and that one of the first ten fits."""
    count, hits = draw(st.integers(1, 5)), draw(st.integers(1, 32))
    stated = draw(arrays(np.float64, (count, hits), elements=SHARES))
    return -np.sort(-stated, axis=1), draw(arrays(np.float64, count, elements=SHARES))


@given(queries())
def test_every_number_agrees_with_the_others(given_):
    stated, anything = given_
    hits, agreed, rho = agree(stated, anything)
    each = one_of_first(hits, rho)
    first = hits[:, :TEN]
    assert each.shape == first.shape and ((rho >= 0) & (rho <= 2)).all()
    np.testing.assert_allclose(each[:, 0], hits[:, 0], atol=CLOSE)
    assert (np.diff(each, axis=1) >= -CLOSE).all()
    assert (np.maximum.accumulate(first, 1) <= each + CLOSE).all()
    assert (each <= np.minimum(1, np.cumsum(first, 1)) + CLOSE).all()
    assert (hits <= agreed[:, None] + CLOSE).all()
    np.testing.assert_allclose(each[:, -1], agreed, atol=2e-6)


@given(queries())
def test_hits_keep_their_order_and_are_only_lowered(given_):
    stated, anything = given_
    hits, _, _ = agree(stated, anything)
    assert (np.diff(hits, axis=1) <= CLOSE).all() and (hits <= stated + 2e-6).all()


@given(queries())
def test_what_agrees_already_is_left_alone(given_):
    hits, anything, rho = agree(*given_)
    again, same, other = agree(hits, anything)
    np.testing.assert_allclose(again, hits, atol=3e-6)
    np.testing.assert_allclose(same, anything, atol=3e-6)
    each, once_more = one_of_first(hits, rho), one_of_first(again, other)
    np.testing.assert_allclose(once_more, each, atol=5e-6)


@given(queries())
@settings(max_examples=50)
def test_all_queries_at_once_are_a_plain_loop(given_):
    stated, anything = given_
    hits, agreed, rho = agree(stated, anything)
    each = one_of_first(hits, rho)
    for row, limit in enumerate(anything):
        plain, one, where = plainly(stated[row], limit)
        np.testing.assert_allclose(hits[row], plain, atol=CLOSE)
        assert agreed[row] == pytest.approx(one, abs=CLOSE)
        for k in range(1, min(TEN, len(plain)) + 1):
            assert each[row, k - 1] == pytest.approx(first_of(plain[:k], where), abs=1e-7)


def plainly(stated: np.ndarray, anything: float) -> tuple[list[float], float, float]:
    """`agree` of one query, as its documentation says it."""
    above = float(log_odds(stated[:1])[0] - log_odds(np.array([anything]))[0])
    hits = [float(p) for p in stated]
    if above > 0:
        hits = [float(expit(log_odds(np.array([p])) - above)[0]) for p in hits]
    first = hits[:TEN]
    anything = min(max(anything, max(first)), min(1.0, sum(first)))
    low, high = 0.0, 2.0
    for _ in range(60):  # P_10 grows with rho
        middle = (low + high) / 2
        low, high = (middle, high) if first_of(first, middle) < anything else (low, middle)
    return hits, anything, low


def first_of(hits: list[float], rho: float) -> float:
    """P_k, as the module's documentation says it."""
    none = math.prod(1 - p for p in hits)
    if rho <= 1:
        return 1 - (1 - max(hits)) ** (1 - rho) * none**rho
    return (2 - rho) * (1 - none) + (rho - 1) * min(1.0, sum(hits))


def test_hits_that_fit_together_are_independent_or_exclude_each_other():
    """All drawn: nested events, events side by side, and events of numbers of their own."""
    hits = np.array([[0.3, 0.25, 0.2, 0.1]])
    drawn = np.random.default_rng(0).random(200_000)
    ends = np.cumsum(hits[0])
    nested = np.stack([drawn < p for p in hits[0]])
    apart = np.stack(
        [(drawn >= end - p) & (drawn < end) for p, end in zip(hits[0], ends, strict=True)]
    )
    own = np.random.default_rng(1).random((4, 200_000)) < hits.T
    for events, rho in ((nested, 0.0), (own, 1.0), (apart, 2.0)):
        happened = np.logical_or.accumulate(events).mean(1)
        np.testing.assert_allclose(one_of_first(hits, np.array([rho]))[0], happened, atol=0.004)


@pytest.mark.parametrize("rho", [0.35, 1.35])
def test_between_the_cases_hits_fit_as_often_as_drawn(rho):
    """Below 1 by a shared cause or one of their own, above 1 apart in that share of cases."""
    hits = np.array([[0.4, 0.3, 0.2]])
    rng = np.random.default_rng(1)
    shared, own, mixed = rng.random(300_000), rng.random((3, 300_000)), rng.random(300_000)
    if rho < 1:
        by_all = [shared < 1 - (1 - p) ** (1 - rho) for p in hits[0]]
        by_one = [u < 1 - (1 - p) ** rho for p, u in zip(hits[0], own, strict=True)]
        events = np.stack(by_all) | np.stack(by_one)
    else:
        ends = np.cumsum(hits[0])
        apart = [
            (shared >= end - p) & (shared < end) for p, end in zip(hits[0], ends, strict=True)
        ]
        events = np.where(mixed < rho - 1, np.stack(apart), own < hits.T)
    np.testing.assert_allclose(events.mean(1), hits[0], atol=0.004)
    happened = np.logical_or.accumulate(events).mean(1)
    np.testing.assert_allclose(one_of_first(hits, np.array([rho]))[0], happened, atol=0.004)
    assert agree(hits, happened[-1:])[2][0] == pytest.approx(rho, abs=0.02)


def test_few_doubtful_hits_are_less_sure_than_ten():
    """Three hits of .43 among ten: not yet what is true of all ten."""
    hits, anything, rho = agree(np.full((1, 10), 0.43), np.array([0.97]))
    each = one_of_first(hits, rho)[0]
    assert each[2] < 1 - (1 - 0.43) ** 3 < each[-1] == pytest.approx(anything[0], abs=1e-6)


def test_features_of_a_query_do_not_depend_on_hits_behind_the_tenth():
    rng = np.random.default_rng(2)
    names = ("score", "other", "relative")
    features = rng.random((3, 32, 3), np.float32)
    stated = -np.sort(-rng.random((3, 32)), axis=1)
    found = query_features(features, stated, names)
    assert found.shape == (3, len(query_names(names)))
    np.testing.assert_array_equal(query_features(features, stated[:, :TEN], names), found)
    np.testing.assert_allclose(found[:, 5], features[:, :TEN, 0].mean(1), rtol=1e-6)
    np.testing.assert_allclose(expit(found[:, 4]), stated[:, :TEN].mean(1))


@pytest.fixture(scope="module")
def policy() -> Policy:
    askings = [asking(1), asking(3, matched=False)]
    return fit_search_policy(askings, model="one", style="text", sizes=(50,))


def test_what_is_shown_changes_no_verdict(policy):
    one = scored(11)
    ten, _ = judged(policy, one, shown=10, risk=0.1)
    assert len(set(ten.verdicts)) > 1 and ten.one_of_first is not None
    for shown in (1, 3, 32):
        other, _ = judged(policy, one, shown=shown, risk=0.1)
        assert other.verdicts == ten.verdicts
        np.testing.assert_array_equal(other.present, ten.present)
        few = min(shown, TEN)
        np.testing.assert_array_equal(other.probability[:, :few], ten.probability[:, :few])
        np.testing.assert_allclose(other.confidence, ten.one_of_first[:, few - 1])


def test_judgements_agree(policy):
    found, _ = judged(policy, scored(12), shown=32)
    assert found.one_of_first is not None
    np.testing.assert_allclose(found.one_of_first[:, 0], found.probability[:, 0])
    np.testing.assert_allclose(found.one_of_first[:, -1], found.present, atol=2e-6)
    assert (found.probability <= found.present[:, None] + CLOSE).all()
