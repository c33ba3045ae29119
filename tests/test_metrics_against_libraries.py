"""Our numbers of trust beside those of torchmetrics, MAPIE and scikit-learn, live."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.metrics.calibration import expected_calibration_error as mapies_error
from samples import confidences
from scipy.stats import kendalltau
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, brier_score_loss, roc_auc_score, roc_curve
from torchmetrics.classification import BinaryAUROC, BinaryCalibrationError
from torchmetrics.functional.regression import kendall_rank_corrcoef

from avow.metrics.agreement import kendall_tau_c
from avow.metrics.calibration import brier, expected_calibration_error, reliability
from avow.metrics.rejection import auroc

seeds = st.integers(0, 10_000)


def draw(seed: int, count: int = 200, levels: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Statements and whether each came true, at least one of either."""
    stated, right = confidences(seed, count, levels, power=1.5)
    right[:2] = [True, False]
    return stated, right


def tensors(stated: np.ndarray, right: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(stated), torch.from_numpy(right.astype(int))


@settings(deadline=None)
@given(seeds, st.sampled_from([5, 10, 15]))
def test_ece_equals_torchmetrics(seed, bins):
    stated, right = draw(seed)
    theirs = BinaryCalibrationError(n_bins=bins, norm="l1")(*tensors(stated, right))
    assert expected_calibration_error(stated, right, bins) == pytest.approx(
        float(theirs), abs=1e-6
    )


@settings(deadline=None)
@given(seeds, st.sampled_from([5, 10, 15]))
def test_ece_equals_mapies(seed, bins):
    """MAPIE counts the edges of equal bins, not the bins."""
    stated, right = draw(seed)
    theirs = mapies_error(
        right.astype(int), stated, num_bins=bins + 1, split_strategy="uniform"
    )
    assert expected_calibration_error(stated, right, bins) == pytest.approx(theirs)


@settings(deadline=None)
@given(seeds, st.sampled_from([4, 10]))
def test_equal_mass_ece_equals_mapies_split_in_order(seed, bins):
    """MAPIE's "array split" of sorted statements is bins of equally many."""
    stated, right = draw(seed)
    order = np.argsort(stated)
    theirs = mapies_error(
        right[order].astype(int), stated[order], num_bins=bins, split_strategy="array split"
    )
    ours = expected_calibration_error(stated, right, bins, equal_mass=True)
    assert ours == pytest.approx(theirs)


@settings(deadline=None)
@given(seeds, st.sampled_from([5, 10]))
def test_reliability_equals_scikit_learns_curve(seed, bins):
    stated, right = draw(seed)
    came, said = calibration_curve(right, stated, n_bins=bins)
    ours = reliability(stated, right, bins)
    assert [row[0] for row in ours] == pytest.approx(said.tolist())
    assert [row[1] for row in ours] == pytest.approx(came.tolist())


@settings(deadline=None)
@given(seeds, st.sampled_from([0, 3]))
def test_auroc_equals_torchmetrics_and_scikit_learn(seed, levels):
    stated, right = draw(seed, levels=levels)
    ours = auroc(stated[right], stated[~right])
    fall_out, recall, _ = roc_curve(right, stated)
    assert ours == pytest.approx(roc_auc_score(right, stated))
    assert ours == pytest.approx(auc(fall_out, recall))
    assert ours == pytest.approx(float(BinaryAUROC()(*tensors(stated, right))), abs=1e-6)


@settings(deadline=None)
@given(seeds)
def test_brier_equals_scikit_learn(seed):
    stated, right = draw(seed)
    assert brier(stated, right) == pytest.approx(brier_score_loss(right, stated))


@settings(deadline=None)
@given(seeds)
def test_tau_c_equals_torchmetrics_and_scipy(seed):
    rng = np.random.default_rng(seed)
    judged = rng.integers(1, 5, 40)
    scored = judged + 2 * rng.standard_normal(40)
    ours = kendall_tau_c(scored, judged[:, None])
    theirs = kendall_rank_corrcoef(
        torch.from_numpy(scored), torch.from_numpy(judged).double(), variant="c"
    )
    assert ours == pytest.approx(float(theirs), abs=1e-6)
    assert ours == pytest.approx(kendalltau(scored, judged, variant="c").statistic)
