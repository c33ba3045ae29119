"""The functions that a search has of its own, against scipy's."""

import numpy as np
import pytest
from scipy import special

from avow.core.beta import betainc
from avow.core.logistic import expit, logit


@pytest.mark.parametrize("x", [0.0, 0.05, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("largest", [3, 300, 20_000])
def test_incomplete_beta(x, largest):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.01, largest, (2, 200))
    assert betainc(a, b, x) == pytest.approx(special.betainc(a, b, x), abs=1e-9)


def test_logistic_and_its_inverse():
    values = np.array([-np.inf, -800.0, -1.0, 0.0, 1e-9, 3.0, 800.0, np.inf])
    assert np.allclose(expit(values), special.expit(values), rtol=1e-15, atol=0)
    assert float(expit(0.3)) == pytest.approx(special.expit(0.3), abs=1e-16)
    shares = np.array([0.0, 1e-12, 0.2, 0.5, 1 - 1e-12, 1.0])
    assert np.allclose(logit(shares), special.logit(shares), rtol=1e-12)
