"""The functions that a search has of its own, against scipy's."""

import math

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from avow.core.beta import betainc
from avow.core.false_discovery import chance_of_right
from avow.core.groups import folds
from avow.core.logistic import expit, fit_logistic, logit


@pytest.mark.parametrize("x", [0.0, 0.05, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("largest", [3, 300, 20_000])
def test_incomplete_beta(x, largest):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.01, largest, (2, 200))
    assert betainc(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-12)


def test_logistic_and_its_inverse():
    values = np.array([-np.inf, -800.0, -1.0, 0.0, 1e-9, 3.0, 800.0, np.inf])
    assert np.allclose(expit(values), special.expit(values), rtol=1e-15, atol=0)
    assert float(expit(0.3)) == pytest.approx(special.expit(0.3), abs=1e-16)
    shares = np.array([0.0, 1e-12, 0.2, 0.5, 1 - 1e-12, 1.0])
    assert np.allclose(logit(shares), special.logit(shares), rtol=1e-12)


@pytest.mark.parametrize("strength", [1e-3, 0.3, 1e4])
@pytest.mark.parametrize("slope", [0.3, 3.0, 50.0])
def test_logistic_regression(strength, slope):
    """The last slope takes steps that must be shortened."""
    rng = np.random.default_rng(0)
    features, weight = rng.standard_normal((400, 7)), rng.uniform(0.1, 2, 400)
    happened = rng.random(400) < expit(slope * features[:, 0] - 1)
    model = LogisticRegression(C=strength, solver="newton-cholesky")
    model.fit(features, happened, weight)
    wanted = np.append(model.coef_[0], model.intercept_)
    assert fit_logistic(features, happened, weight, strength) == pytest.approx(wanted, rel=1e-9)
    for start in (wanted, fit_logistic(features, happened, weight, 3.0), rng.random(8)):
        found = fit_logistic(features, happened, weight, strength, start)
        assert found == pytest.approx(wanted, rel=0.05, abs=0.05)  # as far as it iterates


def test_folds_of_groups():
    groups = np.random.default_rng(0).integers(40, size=300) ** 2
    wanted = GroupKFold(5).split(groups, groups=groups)
    for (fitted, held), (outside, inside) in zip(folds(groups, 5), wanted, strict=True):
        assert np.array_equal(fitted, outside) and np.array_equal(held, inside)


def test_false_discovery_rates_equal_a_plain_loop():
    rng = np.random.default_rng(3)
    scores = np.concatenate([rng.normal(size=400), rng.normal(4, 1, 300)])
    below = [score for score in scores if score < 0]
    width = math.sqrt(sum(score**2 for score in below) / len(below))
    low, step = scores.min(), (scores.max() - scores.min()) / 60
    places = [min(int((score - low) / step), 59) for score in scores]
    counts = [places.count(place) / (len(scores) * step) for place in range(60)]
    wrong, least = [], 1.0
    for place in range(60):
        near = counts[max(place - 1, 0)] + counts[min(place + 1, 59)]
        middle = low + step * (place + 0.5)
        null = math.exp(-((middle / width) ** 2) / 2) / (width * math.sqrt(2 * math.pi))
        density = max(counts[place] / 2 + near / 4, 1e-12)
        rate = min(2 * len(below) / len(scores) * null / density, 1) if middle >= 0 else 1.0
        least = min(least, rate)
        wrong.append(least)
    wanted = [1 - wrong[place] for place in places]
    assert chance_of_right(scores) == pytest.approx(np.array(wanted), abs=1e-9)
    assert chance_of_right(np.abs(scores)).tolist() == [1.0] * len(scores)
