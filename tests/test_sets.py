"""Result sets against MAPIE and plain loops; coverage by simulation."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin

from avow.core.errors import BadRecipe
from avow.trust.conformal_sets import candidate_scores, conformal_limit, conformal_sets

seeds = st.integers(0, 10_000)
kinds = st.sampled_from(["rank", "cumulative", "probability"])
ALPHA = 0.2


def queries(seed: int, count: int, candidates: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that mean something, and which one candidate is right."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((count, candidates))
    stated = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    hot = 1.7 * logits  # the truth is sharper than what is stated
    truth = np.exp(hot) / np.exp(hot).sum(1, keepdims=True)
    place = (np.cumsum(truth, 1) < rng.random((count, 1))).sum(1).clip(max=candidates - 1)
    return stated, np.arange(candidates) == place[:, None]


class Known(ClassifierMixin, BaseEstimator):
    """A classifier whose input is its output."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> "Known":
        self.classes_ = np.arange(x.shape[1])
        self.n_features_in_ = x.shape[1]
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return x

    def predict(self, x: np.ndarray) -> np.ndarray:
        return x.argmax(1)


def mapie_sets(
    name: str, calibration: np.ndarray, right: np.ndarray, new: np.ndarray, last: object
) -> np.ndarray:
    known = Known().fit(calibration, right.argmax(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge = SplitConformalClassifier(
            known, confidence_level=1 - ALPHA, conformity_score=name, random_state=5
        ).conformalize(calibration, right.argmax(1))
        chosen = {"include_last_label": last} if name == "aps" else {}
        _, found = judge.predict_set(new, conformity_score_params=chosen)
    return found[:, :, 0]


def mapie_luck(count: int) -> np.ndarray:
    return np.random.RandomState(5).uniform(size=count)


# --- against others ---------------------------------------------------------------------


@pytest.mark.parametrize("kind, name", [("rank", "top_k"), ("probability", "lac")])
def test_equals_mapie(kind, name):
    calibration, right = queries(1, 300)
    new, _ = queries(2, 100)
    sets = conformal_sets(calibration, right, ALPHA, kind)
    expected = mapie_sets(name, calibration, right, new, None)
    np.testing.assert_array_equal(sets.members(new), expected)
    assert (sets.sizes(new) == expected.sum(1)).all()


def test_random_cumulative_sets_equal_mapies():
    """MAPIE takes the same mass off; it never leaves a list empty, which we may."""
    calibration, right = queries(1, 300)
    new, _ = queries(2, 100)
    sets = conformal_sets(calibration, right, ALPHA, "cumulative", luck=1 - mapie_luck(300))
    members = sets.members(new, luck=1 - mapie_luck(100))
    expected = mapie_sets("aps", calibration, right, new, "randomized")
    some = members.any(1)
    assert some.mean() > 0.8
    np.testing.assert_array_equal(members[some], expected[some])


@settings(deadline=None)
@given(seeds, kinds, st.booleans())
def test_scores_equal_a_plain_loop(seed, kind, lucky):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, (3, 6)) / 10
    luck = rng.random(3) if lucky and kind == "cumulative" else None
    found = candidate_scores(values, kind, luck)
    for query, row in enumerate(values):
        for candidate, value in enumerate(row):
            above, equal = row[row > value], row[row == value]
            if kind == "rank":
                expected = len(above) + len(equal)
            elif kind == "probability":
                expected = 1 - value
            else:
                share = 1.0 if luck is None else luck[query]
                expected = above.sum() + share * equal.sum()
            assert found[query, candidate] == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.floats(0.01, 0.9))
def test_the_limit_is_an_order_statistic(values, alpha):
    place = math.ceil((len(values) + 1) * (1 - alpha) - 1e-9)
    expected = sorted(values)[place - 1] if place <= len(values) else math.inf
    assert conformal_limit(np.array(values, float), alpha) == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=30))
def test_the_limit_of_groups_equals_a_plain_loop(pairs):
    scores, groups = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    labels = set(groups.tolist())
    expected = math.inf
    for limit in sorted(scores.tolist()):
        shares = [np.mean(scores[groups == label] <= limit) for label in labels]
        if sum(shares) >= (1 - ALPHA) * (len(labels) + 1) - 1e-9:
            expected = limit
            break
    assert conformal_limit(scores, ALPHA, groups) == expected


# --- properties -------------------------------------------------------------------------


@settings(deadline=None)
@given(seeds, kinds)
def test_shuffled_candidates_give_shuffled_sets(seed, kind):
    values, right = queries(seed, 50)
    order = np.random.default_rng(seed).permutation(values.shape[1])
    sets = conformal_sets(values, right, ALPHA, kind)
    shuffled = conformal_sets(values[:, order], right[:, order], ALPHA, kind)
    assert shuffled.limit == pytest.approx(sets.limit)
    np.testing.assert_array_equal(
        sets.members(values[:, order]), sets.members(values)[:, order]
    )


@settings(deadline=None)
@given(seeds, kinds, st.integers(1, 11))
def test_the_first_candidates_are_enough(seed, kind, kept):
    """Of a long gallery, the list can be found from its beginning."""
    values, right = queries(seed, 50)
    sets = conformal_sets(values, right, ALPHA, kind)
    ordered = -np.sort(-values, 1)
    np.testing.assert_array_equal(
        sets.members(ordered[:, :kept]), sets.members(ordered)[:, :kept]
    )


@settings(deadline=None)
@given(seeds, kinds)
def test_more_certainty_needs_no_shorter_lists(seed, kind):
    values, right = queries(seed, 80)
    strict, lax = (conformal_sets(values, right, a, kind) for a in (0.05, 0.3))
    assert (strict.members(values) >= lax.members(values)).all()


def test_any_right_candidate_will_do():
    values = np.tile(np.array([0.4, 0.3, 0.2, 0.1]), (9, 1))
    right = np.tile(np.array([False, True, False, True]), (9, 1))
    assert conformal_sets(values, right, ALPHA).limit == 2
    right[:] = False
    assert math.isinf(conformal_sets(values, right, ALPHA).limit)


# --- coverage ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rank", "cumulative", "probability", "lucky"])
def test_a_right_candidate_is_among_them_often_enough(kind):
    """Within its own error, coverage lies in [1 - alpha, 1 - alpha + 1 / (n + 1)]."""
    covered = []
    for seed in range(300):
        values, right = queries(seed, 149)
        rng = np.random.default_rng(seed + 1)
        lucks = rng.random(149) if kind == "lucky" else None
        name = "cumulative" if kind == "lucky" else kind
        start, rest = slice(0, 99), slice(99, None)
        part = [None if lucks is None else lucks[where] for where in (start, rest)]
        sets = conformal_sets(values[start], right[start], ALPHA, name, luck=part[0])
        covered.append((sets.members(values[rest], part[1]) & right[rest]).any(1).mean())
    error = np.std(covered) / math.sqrt(len(covered))
    assert np.mean(covered) > 1 - ALPHA - 3 * error
    if kind != "rank":  # ranks have ties, so their lists may hold more than they must
        assert np.mean(covered) < 1 - ALPHA + 1 / 100 + 3 * error


def test_groups_of_any_size_are_covered():
    """Large groups are easy, small ones hard, members alike: a new group may be either."""
    rng = np.random.default_rng(0)
    covered: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(400):
        size = rng.choice([1, 15], 30)
        group = np.repeat(np.arange(30), size)
        level = rng.random(30) * np.where(size == 1, 2, 1)
        scores = level[group] + 0.01 * rng.random(len(group))
        known, new = group < 29, group == 29
        for grouped in (True, False):
            labels = group[known] if grouped else None
            limit = conformal_limit(scores[known], ALPHA, labels)
            covered[grouped].append(np.mean(scores[new] <= limit))
    error = np.std(covered[True]) / math.sqrt(400)
    assert 1 - ALPHA - 3 * error < np.mean(covered[True]) < 1 - ALPHA + 1 / 30 + 3 * error
    assert np.mean(covered[False]) < 1 - ALPHA - 3 * error  # captions counted one by one


def test_sure_queries_get_shorter_lists():
    values, right = queries(0, 2000)
    sets = conformal_sets(values, right, ALPHA, "cumulative")
    sure = values.max(1) > np.median(values.max(1))
    assert sets.sizes(values)[sure].mean() < 0.8 * sets.sizes(values)[~sure].mean()
    ranked = conformal_sets(values, right, ALPHA, "rank")
    by_itself = conformal_sets(values, right, ALPHA, "probability")
    assert by_itself.sizes(values).mean() <= ranked.sizes(values).mean()


# --- in words ---------------------------------------------------------------------------


def test_sets_say_what_they_are():
    values, right = queries(0, 50)
    sets = conformal_sets(values, right, ALPHA)
    assert str(sets) == (
        f"Lists of candidates up to rank score {sets.limit:.0f} hold a right one for at "
        "least 80.0% of queries (50 calibrated)."
    )
    few = conformal_sets(values[:3], right[:3], ALPHA)
    assert few.sizes(values[:3]).tolist() == [12] * 3
    assert str(few) == (
        "No list but the whole gallery holds a right candidate for 80.0% of queries, as far "
        "as 3 can show."
    )


def test_a_share_is_between_0_and_1():
    with pytest.raises(BadRecipe, match=r"alpha is '0\.0'"):
        conformal_limit(np.ones(3), 0.0)


def test_sets_say_how_many_queries_and_groups_they_rest_on():
    values, right = queries(1, 9)
    alone = conformal_sets(values, right, ALPHA)
    together = conformal_sets(values, right, ALPHA, groups=np.repeat([4, 7, 9], 3))
    assert (alone.queries, alone.groups) == (9, 9)
    assert (together.queries, together.groups) == (9, 3)
