"""The arithmetic of the benchmarks of trust, against plain loops and scipy."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

from avow.core.background import Background
from avow.core.logistic import expit, logit
from benchmarks.pages.people import expert_bin as told
from benchmarks.pages.tcl_figures import is_only_kl
from benchmarks.quality._large_galleries import Photographs
from benchmarks.quality.first_answers import Found, fit
from benchmarks.quality.label_curves import CURVES, measured
from benchmarks.quality.negation import fitted, trial
from benchmarks.quality.people import expert_bin
from benchmarks.quality.picture_queries import Asking
from benchmarks.quality.small_galleries import at_shares


@pytest.mark.parametrize("yes", [0, 3, 20])
def test_a_bin_has_wilsons_interval(yes):
    fits = np.arange(20) < yes
    hits, stated, share, low, high = expert_bin(np.full(20, 0.3), fits, np.full(20, 2.5))
    interval = binomtest(yes, 20).proportion_ci(method="wilson")
    assert (hits, stated, share) == (20, pytest.approx(0.3), pytest.approx(yes / 20))
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-4)


def test_a_hit_that_stands_for_all_widens_the_interval():
    fits = np.arange(20) < 10
    alike, uneven = np.ones(20), np.r_[100.0, np.ones(19)]
    ends = [expert_bin(fits * 1.0, fits, some)[3:] for some in (uneven, alike)]
    wide, narrow = (high - low for low, high in ends)
    assert wide > narrow > 0


def test_bins_are_shown_with_and_without_intervals():
    assert told(3, 0.344, 0.433) == ".34/.43"
    assert told(3, 0.344, 0.433, 0.36, 0.51) == ".34/.43 [.36, .51]"


def test_absent_names_below_the_cut_are_counted():
    score = np.tile([0.1, 0.2, 0.3, 0.4, 0.5, 0.05, 0.15, 0.25, 0.6], 10)
    present = np.arange(90) % 9 < 5
    rows = at_shares(score, np.arange(90), present, ~present)
    # the least present name is the cut: 0.05 alone is below it
    assert [value for value, _ in rows.values()] == [0.25, 0.25, 0.25]
    assert all(error > 0 for _, error in rows.values())


def test_names_are_redrawn_and_not_their_answers():
    """The same answers a hundred times over are no more certain."""
    rng = np.random.default_rng(0)
    score, name = rng.random(60), np.arange(60)
    present = name < 30
    once = at_shares(score, name, present, ~present)
    often = at_shares(*(np.tile(some, 100) for some in (score, name, present, ~present)))
    assert once["0.1"][1] > 0.05
    for share in once:
        assert often[share][1] == pytest.approx(once[share][1])


def hits(rng: np.random.Generator, queries: int):
    made = []
    for _ in range(queries):
        wanted, unwanted = rng.random(200), rng.random(200)
        odds = 0.6 * logit(wanted) - 0.2 * logit(unwanted) - 1.3
        made.append((wanted, unwanted, rng.random(200) < expit(odds)))
    return made


def test_weights_of_both_log_odds_are_found_again():
    assert fitted(hits(np.random.default_rng(0), 100)) == pytest.approx(
        [0.6, -0.2, -1.3], abs=0.1
    )


def test_a_trial_is_measured_on_objects_that_it_was_not_fitted_on():
    some = hits(np.random.default_rng(0), 40)
    names = [f"object {place // 4}" for place in range(40)]
    tried = trial(some, names)
    assert (tried["queries"], tried["fitted_on"]) == (20, 20)
    moved = [(one, other, ~right) if place // 4 % 2 else (one, other, right)
             for place, (one, other, right) in enumerate(some)]  # fmt: skip
    again = trial(moved, names)
    assert again["line"] == tried["line"]  # the fitted ones stayed as they were
    assert again["weights"]["stated"] == tried["weights"]["stated"]
    total = again["weights"]["precision"] + tried["weights"]["precision"]
    assert total == pytest.approx(1)


def test_a_logistic_truth_is_told_best_by_a_logistic_curve():
    rng = np.random.default_rng(0)
    agreed, image = rng.random(600), np.arange(600) // 5
    fits = rng.random(600) < expit(12 * agreed - 9)
    loss = {name: measured(CURVES[name], agreed, fits, image)["loss"] for name in
            ("logistic", "isotonic")}  # fmt: skip
    assert loss["logistic"] < loss["isotonic"]


# --- searches by picture, first answers -----------------------------------------------


def test_a_smaller_gallery_keeps_what_is_known_of_each_photograph():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 3)).astype(np.float32)
    usual = Background.from_scores([vectors[None, :5] @ vectors.T], 0.05)
    fits = rng.random((6, 40))
    whole = Asking(vectors[:6], Photographs(vectors, usual), fits, fits > 0.5)
    some = whole.of(15, rng)
    rows = [int(np.flatnonzero((vectors == one).all(1))[0]) for one in some.gallery.vectors]
    assert len(rows) == 15 == len(set(rows))
    np.testing.assert_array_equal(some.fits, fits[:, rows])
    np.testing.assert_array_equal(some.match, fits[:, rows] > 0.5)
    np.testing.assert_array_equal(some.gallery.usual.mean, usual.mean[:, rows])


def test_what_is_fitted_for_first_answers_tells_good_ones_from_bad():
    rng = np.random.default_rng(1)
    parts = [found(rng, photographs) for photographs in (60, 50)]
    probability = fit("right", parts)
    test = found(rng, 80)
    stated, good = probability(test.seen, test.photographs), test.good["right"]
    assert stated[good].mean() > stated[~good].mean() + 0.3
    assert probability.names == parts[0].named and test.seen.shape[1] == len(probability.names)


def found(rng: np.random.Generator, photographs: int) -> Found:
    """Five captions of each photograph; the second of three numbers says what is good."""
    features = rng.normal(size=(5 * photographs, 3)).astype(np.float32)
    good = rng.random(len(features)) < 1 / (1 + np.exp(-4 * features[:, 1]))
    asked = SimpleNamespace(
        words=rng.integers(4, 15, len(features)), summary=SimpleNamespace(names=tuple("abc"))
    )
    image_of = np.repeat(np.arange(photographs), 5)
    own: dict[str, np.ndarray] = {"right": good}
    return Found(asked, photographs, good.astype(float), features, own, image_of)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed, only",
    [
        ("a/b+loss.kl_rate=0.1", True),
        ("a/b", False),
        ("a/b+loss.kl_rate=0.1+train.epochs=3", False),
        ("a/c+loss.kl_rate=0.1", False),
    ],
)
def test_only_the_weight_of_the_divergence_may_differ(changed, only):
    assert is_only_kl(changed, "a/b") == only
