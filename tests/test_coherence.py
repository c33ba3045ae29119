"""Probabilities that agree: every hit, one of the first k, and that anything fits."""

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
    assert each.shape == first.shape and ((rho >= 0) & (rho <= 1)).all()
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
            least, most = max(plain[:k]), min(1, sum(plain[:k]))
            assert each[row, k - 1] == pytest.approx(least + where * (most - least), abs=1e-8)


def plainly(stated: np.ndarray, anything: float) -> tuple[list[float], float, float]:
    """`agree` of one query, as its documentation says it."""
    above = float(log_odds(stated[:1])[0] - log_odds(np.array([anything]))[0])
    hits = [float(p) for p in stated]
    if above > 0:
        hits = [float(expit(log_odds(np.array([p])) - above)[0]) for p in hits]
    least, most = max(hits[:TEN]), min(1.0, sum(hits[:TEN]))
    anything = min(max(anything, least), most)
    room = most - least
    return hits, anything, min((anything - least) / max(room, 1e-6), 1.0) if room > 0 else 0.0


def test_the_ends_are_those_of_hits_that_fit_together_or_exclude_each_other():
    """Both drawn: nested events fit together, events side by side exclude each other."""
    hits = np.array([[0.3, 0.25, 0.2, 0.1]])
    drawn = np.random.default_rng(0).random(200_000)
    ends = np.cumsum(hits[0])
    nested = np.stack([drawn < p for p in hits[0]])
    apart = np.stack(
        [(drawn >= end - p) & (drawn < end) for p, end in zip(hits[0], ends, strict=True)]
    )
    for events, rho in ((nested, 0.0), (apart, 1.0)):
        happened = np.logical_or.accumulate(events).mean(1)
        np.testing.assert_allclose(one_of_first(hits, np.array([rho]))[0], happened, atol=0.004)


def test_a_mixture_of_both_lies_between_them_by_its_share():
    """With probability rho the hits exclude each other, else they fit together."""
    hits, rho = np.array([[0.4, 0.3, 0.2]]), 0.35
    rng = np.random.default_rng(1)
    drawn, mixed = rng.random(300_000), rng.random(300_000) < rho
    ends = np.cumsum(hits[0])
    events = np.stack(
        [
            np.where(mixed, (drawn >= end - p) & (drawn < end), drawn < p)
            for p, end in zip(hits[0], ends, strict=True)
        ]
    )
    np.testing.assert_allclose(events.mean(1), hits[0], atol=0.004)
    happened = np.logical_or.accumulate(events).mean(1)
    np.testing.assert_allclose(one_of_first(hits, np.array([rho]))[0], happened, atol=0.004)
    found = agree(hits, happened[-1:])[2]
    assert found[0] == pytest.approx(rho, abs=0.01)


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
