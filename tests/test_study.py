"""The study of a direction: its figures against loops, and promises counted on many splits."""

import numpy as np
import pytest
from test_trust import world

from avow.metrics.rejection import auroc
from avow.study.direction import OURS, PRESENT, Direction, doubts_of, ranks_of, study_direction
from avow.study.guarantees import kept_promises, kept_sets, split_halves
from avow.study.measures import (
    calibration,
    curves,
    judge,
    lead_over,
    platt,
    redraw,
    weighted_auroc,
)


@pytest.fixture(scope="module")
def study():
    direction = Direction(world(images=200, seed=1), world(images=200, seed=2))
    found, _ = study_direction(direction, splits=5, draws=20)
    return found


def test_every_part_is_there(study):
    assert {"measures", "calibration", "guarantee", "sets", "absent", "sizes"} <= set(study)
    assert study["queries"] == 400 and study["candidates"] == 200
    assert {"evidential: u", "scores: probability", "two_way: back", OURS} <= set(
        study["measures"]
    )


def test_trust_tells_right_from_wrong_better_than_u(study):
    measures = study["measures"]
    assert measures[OURS]["auroc"] > measures["evidential: u"]["auroc"] + 0.1
    assert study["ahead"]["evidential: u"]["low"] > 0


def test_stated_probabilities_come_true(study):
    assert study["calibration"]["ece"] < study["calibration"]["floor"] + 0.03


def test_queries_without_a_match_are_told_apart(study):
    absent = study["absent"]
    assert absent["auroc"][PRESENT] > 0.6
    assert absent["refused"][PRESENT] > 0.05


def test_sizes_go_up_to_the_whole_gallery(study):
    assert [row["candidates"] for row in study["sizes"]] == [20, 50, 100, 200]
    assert all(0 < row["mean_u"] < 1 for row in study["sizes"])


def test_ranks_equal_a_loop():
    scored = world(images=15, seed=3)
    scores = scored.averaged
    for query, rank in enumerate(ranks_of(scored)):
        best = scores[query][scored.match[query]].max()
        wrong = scores[query][~scored.match[query]]
        assert rank == 1 + (wrong >= best).sum()


def test_u_of_the_sizes_is_that_of_the_opinion():
    from avow.study.direction import _row
    from avow.trust.gallery_sampling import collect_hits

    scored = world(images=40, seed=4)
    hits = collect_hits(scored)
    row = _row(scored, hits, np.linspace(0.01, 0.99, len(hits.gallery)), 5)
    expected = doubts_of(scored.asked(), 0.05)["evidential: u"].mean()
    assert row["mean_u"] == pytest.approx(expected, rel=1e-4)


def test_halves_keep_groups_together():
    groups = np.repeat(np.arange(9), 3)
    for one, other in split_halves(groups, 20, seed=0):
        assert not set(groups[one]) & set(groups[other])
        assert len(one) + len(other) == 27


def test_promises_are_kept_and_a_better_measure_answers_more():
    rng = np.random.default_rng(0)
    truth = rng.beta(2, 2, 1500)
    wrong = rng.random(1500) > truth
    poor = truth + rng.normal(0, 0.5, 1500)
    found = kept_promises(
        {"good": truth, "poor": poor}, wrong, np.arange(1500), alpha=0.3, splits=100
    )
    assert found["good"]["surely"] <= 0.1
    assert found["good"]["coverage"] > found["poor"]["coverage"] + 0.05


def test_sets_hold_what_they_promise():
    rng = np.random.default_rng(1)
    right = np.eye(40, dtype=bool)[rng.integers(0, 40, 800)]
    values = rng.normal(size=(800, 40)) + 2 * right
    found = kept_sets(
        {"rank": ("rank", values), "flat": ("rank", rng.normal(size=(800, 40)))},
        right,
        np.arange(800),
        alpha=0.2,
        splits=100,
    )
    assert found["rank"]["held"] == pytest.approx(0.8, abs=0.03)
    assert found["rank"]["size"] < found["flat"]["size"] / 2


def test_one_row_of_the_table():
    ranks = np.array([1, 1, 3, 12, 1, 7])
    confidence = np.array([0.9, 0.8, 0.3, 0.1, 0.7, 0.2])
    row = judge(confidence, ranks, redraw(np.arange(6), 50))
    assert row["auroc"] == 1.0
    assert row["area"]["r1"] == pytest.approx(100 * np.mean([1, 1, 1, 3 / 4, 3 / 5, 3 / 6]))
    assert row["excess_aurc"] == pytest.approx(0)
    shown = curves(confidence, ranks)
    assert shown["coverage"][-1] == 1.0 and shown["r10"][-1] == pytest.approx(100 * 5 / 6)


def test_a_lead_is_the_difference():
    rng = np.random.default_rng(2)
    right = rng.random(300) < 0.4
    good, poor = right + rng.normal(0, 0.5, 300), right + rng.normal(0, 2, 300)
    found = lead_over(good, poor, right, redraw(np.arange(300), 100))
    expected = auroc(good[right], good[~right]) - auroc(poor[right], poor[~right])
    assert found["by"] == pytest.approx(expected)
    assert found["low"] < found["by"] < found["high"]


def test_weighted_auroc_is_that_of_repeated_queries():
    rng = np.random.default_rng(4)
    confidence = rng.integers(0, 6, 40).astype(float)  # many ties
    right = rng.random(40) < 0.5
    weight = redraw(np.repeat(np.arange(20), 2), 5)
    for drawn, found in zip(weight, weighted_auroc(confidence, right, weight), strict=True):
        taken = np.repeat(np.arange(40), drawn.astype(int))
        assert (weight.reshape(5, 20, 2)[:, :, 0] == weight.reshape(5, 20, 2)[:, :, 1]).all()
        value, hit = confidence[taken], right[taken]
        assert found == pytest.approx(auroc(value[hit], value[~hit]))


def test_platt_makes_a_score_a_probability():
    rng = np.random.default_rng(3)
    score = rng.normal(size=8000)
    right = rng.random(8000) < 1 / (1 + np.exp(-2 * score))
    stated = platt(score[:4000], right[:4000], score[4000:])
    found = calibration(stated, right[4000:], np.arange(4000), draws=50)
    assert found["ece"] < found["floor"] + 0.01


def test_several_views_and_one():
    one = world(images=30, seed=5, views=1)
    assert "evidential: disagreement" not in doubts_of(one.asked(), 0.05)
    assert all(np.isfinite(value).all() for value in doubts_of(one.asked(), 0.05).values())
