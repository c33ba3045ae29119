"""Names in galleries of their own: policies learn that shares differ between galleries."""

import numpy as np
import pytest

from avow.trust.calibration_queries import (
    FEWEST,
    LARGEST_SHARE,
    SMALLEST,
    CalibrationQueries,
    in_other_shares,
    see_hits,
)
from avow.trust.counting import behind
from avow.trust.fitting import fit_search_policy
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import summarise

TAU, ITEMS, NAMES = 0.05, 500, 120


def names(seed: int, share: float | None = None, items: int = ITEMS) -> CalibrationQueries:
    """Names that stand out by a level each, and fit as many items as their words are common."""
    rng = np.random.default_rng(seed)
    usual = np.exp(rng.uniform(np.log(0.01), np.log(0.2), NAMES))
    match = rng.random((NAMES, ITEMS)) < usual[:, None]
    match[:, 0] |= ~match.any(1)
    level = rng.uniform(1.0, 4.0, (NAMES, 1))
    evidence = rng.normal(0, 1.3, match.shape) + np.where(match, level, 0.0)
    scored = ScoredQueries((TAU * evidence[None]).astype(np.float32), match, 0, TAU)
    return CalibrationQueries("name", scored, np.ones(NAMES, int), np.log(usual))


def absent(seed: int) -> CalibrationQueries:
    rng = np.random.default_rng(seed)
    evidence = TAU * rng.normal(0, 1.3, (1, NAMES, ITEMS)).astype(np.float32)
    scored = ScoredQueries(evidence, np.zeros((NAMES, ITEMS), bool), 0, TAU)
    common = np.log(rng.uniform(0.002, 0.02, NAMES))
    return CalibrationQueries("absent", scored, np.ones(NAMES, int), common)


def test_galleries_have_the_shares_that_were_drawn():
    asking = names(1)
    own = in_other_shares(asking, 5, seed=3)
    inside = np.isfinite(own.scored.similarity[0])
    size, relevant = inside.sum(1), own.scored.match.sum(1)
    assert size.min() >= SMALLEST and relevant.min() >= 1
    share = relevant / size
    assert share.max() <= LARGEST_SHARE + 1 / SMALLEST
    usual = asking.scored.match.mean(1)[own.scored.groups]
    shift = np.log(share / usual)
    assert shift.min() < -1 and shift.max() > 1 and abs(np.median(shift)) < 0.15
    # what is in a gallery is as it was
    origin = own.scored.groups
    before = asking.scored.similarity[0][origin]
    np.testing.assert_array_equal(own.scored.similarity[0][inside], before[inside])
    np.testing.assert_array_equal(own.scored.match, asking.scored.match[origin] & inside)
    assert (asking.scored.match.sum(1)[origin] >= FEWEST).all()


def test_a_gallery_of_its_own_is_asked_as_if_it_were_alone():
    own = in_other_shares(names(2), 1, seed=4)
    hits = see_hits(own, (20, 100), 0, 0, False, 8)
    assert len(hits.gallery) == len(own.words)  # it is not dealt into smaller ones
    _, order = summarise(own.scored.asked())
    others = behind(own.scored, order)
    for row in range(0, len(own.words), 17):
        inside = np.flatnonzero(np.isfinite(own.scored.similarity[0, row]))
        alone = ScoredQueries(
            own.scored.similarity[:, row : row + 1][:, :, inside],
            own.scored.match[row : row + 1, inside],
            0,
            TAU,
        )
        summary, places = summarise(alone.asked())
        rest = behind(alone, places)
        assert hits.gallery[row] == len(inside) == summary.gallery[0]
        assert others.count[row] == rest.count[0] == len(inside) - places.shape[1]
        np.testing.assert_array_equal(
            np.sort(others.gap[row][others.seen[row]]), np.sort(rest.gap[0][rest.seen[0]])
        )


def log_loss(policy: Policy, asked: CalibrationQueries) -> float:
    """Of the ten most probable hits."""
    summary, order = summarise(asked.scored.asked())
    judged = policy.judge(summary, asked.words, common=asked.common)
    shown = np.take_along_axis(order, judged.order, 1)
    fits = np.take_along_axis(asked.scored.match, shown, 1)
    stated = np.clip(judged.probability, 1e-4, 1 - 1e-4)
    return float(-np.log(np.where(fits, stated, 1 - stated)).mean())


def number_is_off(policy: Policy, asked: CalibrationQueries) -> float:
    """The mean of |log(stated / true)|, of one more than each."""
    summary, order = summarise(asked.scored.asked())
    reading = policy.read(summary, asked.words, asked.common)
    number = policy.number(reading, behind(asked.scored, order))
    assert number is not None
    true = asked.scored.match.sum(1)
    return float(abs(np.log1p(number.expected) - np.log1p(true)).mean())


@pytest.fixture(scope="module")
def askings() -> list[CalibrationQueries]:
    return [names(1), names(2), absent(3)]


def test_numbers_hold_where_another_share_fits(askings):
    usual, other = (fit_search_policy(askings, other_shares=times) for times in (0, 6))
    asked = names(9)
    elsewhere = in_other_shares(asked, 2, seed=5)
    assert log_loss(other, elsewhere) < log_loss(usual, elsewhere) - 0.01
    assert number_is_off(other, elsewhere) < 0.9 * number_is_off(usual, elsewhere)
    assert log_loss(other, asked) < log_loss(usual, asked) + 0.01
    assert number_is_off(other, asked) < 1.1 * number_is_off(usual, asked)


def test_what_has_no_names_is_fitted_as_before(askings):
    kinds = [CalibrationQueries("phrase", one.scored, one.words, one.common) for one in askings]
    assert fit_search_policy(kinds, other_shares=6).probability == (
        fit_search_policy(kinds).probability
    )
    few = in_other_shares(kinds[2], 3, seed=0)
    assert len(few.words) == 0
