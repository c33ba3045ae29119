"""Rejection, detection and calibration numbers against plain loops and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import confidences
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, brier_score_loss, roc_auc_score

from avow.metrics import calibration
from avow.metrics.rejection import (
    aurc,
    auroc,
    coverage_at_risk,
    excess_aurc,
    median_rank_curve,
    normalised_auc,
    rejection_curve,
    risk_at_coverage,
)

seeds = st.integers(0, 10_000)


def draw(seed: int, count: int = 40, levels: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return confidences(seed, count, levels)


@settings(deadline=None)
@given(seeds, st.integers(2, 30))
def test_curve_equals_a_plain_loop_without_ties(seed, count):
    confidence, right = draw(seed, count)
    curve = rejection_curve(confidence, right)
    order = sorted(range(count), key=lambda query: -confidence[query])
    for kept in range(1, count + 1):
        share = sum(bool(right[query]) for query in order[:kept]) / kept
        assert curve.value[kept - 1] == pytest.approx(share)
        assert curve.coverage[kept - 1] == pytest.approx(kept / count)
    risks = [np.mean([not right[q] for q in order[:kept]]) for kept in range(1, count + 1)]
    assert aurc(confidence, right) == pytest.approx(np.mean(risks))


def test_ties_are_the_mean_over_all_orders():
    confidence, right = draw(3, count=60, levels=4)
    rng = np.random.default_rng(0)
    orders = []
    for _ in range(4000):
        jitter = confidence + 1e-6 * rng.random(60)
        orders.append(rejection_curve(jitter, right).value)
    np.testing.assert_allclose(
        rejection_curve(confidence, right).value, np.mean(orders, 0), atol=0.02
    )


def test_a_constant_confidence_is_chance():
    _, right = draw(0, 50)
    curve = rejection_curve(np.full(50, 0.3), right)
    assert curve.area == pytest.approx(curve.chance) == pytest.approx(right.mean())
    assert normalised_auc(np.full(50, 0.3), right) == pytest.approx(0)
    assert coverage_at_risk(np.full(50, 0.3), right, 0.0) == 0


def test_an_oracle_has_no_excess():
    _, right = draw(1, 80)
    assert excess_aurc(right.astype(float), right) == pytest.approx(0)
    assert normalised_auc(right.astype(float), right) == pytest.approx(1)
    assert coverage_at_risk(right.astype(float), right, 0.0) == pytest.approx(right.mean())


@settings(deadline=None)
@given(seeds)
def test_nauc_equals_its_definition(seed):
    """Reject 0, 10 … 90 % by confidence; areas by scikit-learn; flat 0, oracle 1."""
    confidence, _ = draw(seed, 50)
    measure = np.random.default_rng(seed + 1).random(50)
    rates = np.arange(10) / 10

    def area(by: np.ndarray) -> float:
        order = np.argsort(by)
        return auc(rates, [measure[order[int(rate * 50) :]].mean() for rate in rates])

    flat = measure.mean() * 0.9
    expected = (area(confidence) - flat) / (area(measure) - flat)
    assert normalised_auc(confidence, measure) == pytest.approx(expected)


def test_coverage_and_risk_by_hand():
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    right = np.array([True, True, False, True])
    assert coverage_at_risk(confidence, right, 0.0) == 0.5
    assert coverage_at_risk(confidence, right, 0.25) == 1.0
    assert risk_at_coverage(confidence, right, 0.75) == pytest.approx(1 / 3)


def test_median_rank_curve_by_hand():
    curve = median_rank_curve(np.array([0.1, 0.9, 0.5]), np.array([30, 1, 3]), points=3)
    assert curve.value.tolist() == [1.0, 2.0, 3.0]


@settings(deadline=None)
@given(seeds, st.sampled_from([0, 3]))
def test_auroc_equals_scikit_learn(seed, levels):
    confidence, right = draw(seed, 40, levels)
    if right.all() or not right.any():
        return
    found = auroc(confidence[right], confidence[~right])
    assert found == pytest.approx(roc_auc_score(right, confidence))


def test_auroc_without_one_side_has_no_value():
    assert np.isnan(auroc(np.zeros(0), np.ones(3)))
    assert np.isnan(auroc(np.ones(3), np.zeros(0)))


@settings(deadline=None)
@given(seeds)
def test_ece_equals_scikit_learns_curve(seed):
    stated, right = draw(seed, 300)
    came, said = calibration_curve(right, stated, n_bins=10)
    # their bins are open on the other side, which matters only at the edges
    place = np.clip((stated * 10).astype(int), 0, 9)
    weight = np.array([np.mean(place == b) for b in np.unique(place)])
    expected = float((weight * np.abs(came - said)).sum())
    assert calibration.expected_calibration_error(stated, right, 10) == pytest.approx(
        expected, abs=1e-9
    )


@settings(deadline=None)
@given(seeds, st.integers(1, 20))
def test_equal_mass_bins_hold_equally_many(seed, bins):
    stated, right = draw(seed, 20 * bins)
    rows = calibration.reliability(stated, right, bins, equal_mass=True)
    assert [count for *_, count in rows] == [20] * bins
    total = sum(abs(said - came) * count for said, came, count in rows) / (20 * bins)
    assert calibration.expected_calibration_error(stated, right, bins, True) == pytest.approx(
        total
    )


def test_the_floor_is_what_calibrated_predictors_show():
    """Of 300 predictors that speak the truth, about 5 % lie above the 95 % floor."""
    above, below = 0, 0
    stated, _ = draw(0, 400)
    half, most = calibration.calibration_floor(stated, draws=2000)
    for trial in range(300):
        right = np.random.default_rng(trial + 10).random(400) < stated
        error = calibration.expected_calibration_error(stated, right)
        above += error > most
        below += error < half
    assert 0.02 <= above / 300 <= 0.09
    assert 0.42 <= below / 300 <= 0.58


def test_captions_of_one_image_raise_the_floor():
    stated = np.repeat(np.linspace(0.1, 0.9, 80), 5)
    group = np.repeat(np.arange(80), 5)
    alone = calibration.calibration_floor(stated, levels=(0.95,))[0]
    assert calibration.calibration_floor(stated, levels=(0.95,), group=group)[0] > 1.5 * alone


def test_debiased_error_is_small_for_the_truth_and_large_for_a_lie():
    stated, right = draw(5, 2000)
    assert calibration.debiased_calibration_error(stated, right, draws=200) < 0.01
    lying = np.clip(stated + 0.2, 0, 1)
    assert calibration.debiased_calibration_error(lying, right, draws=200) > 0.1


@settings(deadline=None)
@given(seeds, st.booleans())
def test_squared_error_equals_a_loop_over_pairs(seed, grouped):
    stated, right = draw(seed, 30)
    group = np.random.default_rng(seed).integers(0, 12, 30) if grouped else np.arange(30)
    total, weight = 0.0, 0
    for part in range(4):
        inside = [i for i in range(30) if part < max(stated[i] * 4, 1e-9) <= part + 1]
        products = [
            (stated[i] - right[i]) * (stated[j] - right[j])
            for i in inside
            for j in inside
            if group[i] != group[j]
        ]
        if products:
            total += len(inside) * np.mean(products)
            weight += len(inside)
    found = calibration.squared_calibration_error(
        stated, right, 4, group=group if grouped else None
    )
    assert found == pytest.approx(total / weight, abs=1e-12)


@settings(deadline=None)
@given(seeds)
def test_squared_error_is_kumars_where_statements_are_equal(seed):
    """Square of the gap less the estimated variance of the share that came true."""
    stated, right = draw(seed, 200, levels=5)
    expected = 0.0
    for value in np.unique(stated):
        came, count = right[stated == value].mean(), (stated == value).sum()
        expected += count / 200 * ((value - came) ** 2 - came * (1 - came) / (count - 1))
    found = calibration.squared_calibration_error(stated, right, 1000)
    assert found == pytest.approx(expected)


def test_squared_error_of_the_truth_is_zero_on_average_and_of_a_lie_its_square():
    """With few queries the ECE of both is inflated; this is not, captions or none."""
    truths, lies, captions, plain = [], [], [], []
    for seed in range(200):
        stated, right = draw(seed, 100)
        stated = 0.1 + 0.8 * stated
        right = np.random.default_rng(seed + 9999).random(100) < stated
        truths.append(calibration.squared_calibration_error(stated, right))
        lies.append(calibration.squared_calibration_error(stated + 0.1, right))
        plain.append(calibration.expected_calibration_error(stated, right))
        five, same = np.repeat(stated, 5), np.repeat(right, 5)
        captions.append(
            calibration.squared_calibration_error(five, same, group=np.repeat(range(100), 5))
        )
    for found, expected in ((truths, 0), (lies, 0.01), (captions, 0)):
        assert abs(np.mean(found) - expected) < 3 * np.std(found) / 200**0.5
        assert np.std(found) < 0.02
    assert np.mean(plain) > 0.1


def test_debiased_by_pairs_approaches_the_true_gap_and_by_floor_falls_short():
    stated, _ = draw(1, 3000)
    stated = 0.1 + 0.8 * stated
    right = np.random.default_rng(2).random(3000) < stated
    by_pairs = calibration.debiased_calibration_error(stated + 0.05, right, by="pairs")
    by_floor = calibration.debiased_calibration_error(stated + 0.05, right, draws=200)
    assert by_pairs == pytest.approx(0.05, abs=0.012)
    assert by_floor < 0.04
    assert calibration.debiased_calibration_error(stated, right, by="pairs") < 0.015


def test_a_lone_statement_has_no_squared_error():
    alone = calibration.squared_calibration_error(np.array([0.5]), np.array([True]))
    assert np.isnan(alone)


@settings(deadline=None)
@given(seeds)
def test_brier_equals_scikit_learn(seed):
    stated, right = draw(seed, 60)
    assert calibration.brier(stated, right) == pytest.approx(brier_score_loss(right, stated))
    if 0 < right.mean() < 1:
        base = np.full(60, right.mean())
        expected = 1 - brier_score_loss(right, stated) / brier_score_loss(right, base)
        assert calibration.brier_skill(stated, right) == pytest.approx(expected)
