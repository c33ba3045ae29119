"""Evidence of a gallery from a sample: exact where it can be, bounded where it cannot."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from scipy.stats import t as student

from avow.core.evidence_sum import (
    CAUTION,
    EvidenceSum,
    Moments,
    Reference,
    _bernstein,
    _controls,
    _fit,
    _mean_and_bounds,
    _skewed,
    evidence_sum,
)
from avow.core.opinion import Opinion

seeds = st.integers(0, 10_000)
BOUNDS = ["skewed", "normal", "bernstein"]
TAU = 0.05


def gallery(seed: int, queries: int, candidates: int, spread: float = 0.1) -> np.ndarray:
    return spread * np.random.default_rng(seed).standard_normal((queries, candidates))


def estimate(
    scores: np.ndarray, kept: int, reference: Reference, known: bool = True, **chosen: object
) -> EvidenceSum:
    """What a search for the best and a look at the sample give."""
    (found,) = estimates(scores, kept, [reference], known, **chosen)
    return found


def estimates(
    scores: np.ndarray, kept: int, references: list[Reference], known: bool, **chosen: object
) -> list[EvidenceSum]:
    """The same search, looked at through several samples."""
    found = np.argpartition(-scores, kept - 1, 1)[:, :kept]
    top = np.take_along_axis(scores, found, 1)
    moments = (scores.mean(1), (scores**2).mean(1)) if known else None
    return [
        evidence_sum(
            top,
            scores[:, reference.ids],
            reference.without(found),
            scores.shape[1],
            TAU,
            known=moments,
            **chosen,
        )
        for reference in references
    ]


def log_sum(scores: np.ndarray) -> np.ndarray:
    return np.log(np.exp(scores / TAU).sum(1))


def holds(found: EvidenceSum, exact: np.ndarray) -> np.ndarray:
    """exact: the logarithm of the sum of all evidence."""
    return (found.log_low <= exact + 1e-9) & (exact <= found.log_high + 1e-9)


def width(found: EvidenceSum) -> np.ndarray:
    return (found.uncertainty_high - found.uncertainty_low) / found.uncertainty


# --- exact ------------------------------------------------------------------------------


@settings(deadline=None)
@given(seeds, st.integers(1, 40), st.sampled_from(BOUNDS), st.booleans())
def test_a_sample_of_everything_is_exact(seed, kept, bound, known):
    scores = gallery(seed, 3, 40)
    found = estimate(scores, kept, Reference.draw(40, 99), known, bound=bound)
    for value in (found.log_sum, found.log_low, found.log_high):
        np.testing.assert_allclose(value, log_sum(scores), rtol=1e-9)


@settings(deadline=None)
@given(seeds, st.booleans())
def test_finding_everything_is_exact(seed, known):
    scores = gallery(seed, 3, 20)
    found = estimate(scores, 20, Reference.draw(20, 5, seed), known)
    np.testing.assert_allclose(found.log_sum, log_sum(scores))
    np.testing.assert_array_equal(found.log_low, found.log_high)


def test_the_quantities_are_those_of_an_opinion():
    scores = gallery(0, 4, 300)
    found = estimate(scores, 300, Reference.draw(300, 10))
    opinion = Opinion.from_similarity(torch.from_numpy(scores), TAU)
    np.testing.assert_allclose(found.uncertainty, opinion.uncertainty)
    np.testing.assert_allclose(found.log_strength, opinion.log_strength.squeeze(-1))
    np.testing.assert_allclose(np.exp(found.log_mean), np.exp(scores / TAU).mean(1))


def test_the_mean_over_all_samples_is_the_truth():
    """Every one of the 126 samples of 4 among 9: without controls there is no bias."""
    scores = gallery(1, 1, 9)
    sums = [
        np.exp(estimate(scores, 2, Reference(9, np.array(ids)), known=False).log_sum[0])
        for ids in itertools.combinations(range(9), 4)
        if len(set(ids) - set(np.argsort(-scores[0])[:2].tolist())) == 4
    ]
    exact = np.exp(log_sum(scores)[0])
    assert len(sums) == 35
    assert np.mean(sums) == pytest.approx(exact)


def test_no_evidence_is_too_large():
    scores = gallery(0, 2, 500)
    found = np.argsort(-scores, 1)[:, :20]
    reference = Reference.draw(500, 100)
    top = np.take_along_axis(scores, found, 1)
    left = reference.without(found)
    told = evidence_sum(top, scores[:, reference.ids], left, 500, tau=1e-4)
    assert np.isfinite(told.log_sum).all() and (told.log_sum > 1000).all()
    assert (told.uncertainty == 0).all()


# --- parts ------------------------------------------------------------------------------


@settings(deadline=None)
@given(seeds, st.integers(1, 30), st.integers(1, 30))
def test_without_equals_a_plain_loop(seed, size, kept):
    rng = np.random.default_rng(seed)
    reference = Reference.draw(30, size, seed)
    found = np.stack([rng.permutation(30)[:kept] for _ in range(3)])
    left = reference.without(found)
    for query in range(3):
        expected = [item not in found[query] for item in reference.ids]
        assert left[query].tolist() == expected


def test_a_reference_is_a_uniform_sample():
    drawn = np.concatenate([Reference.draw(20, 5, seed).ids for seed in range(2000)])
    counts = np.bincount(drawn, minlength=20)
    assert (np.abs(counts - 500) < 4 * math.sqrt(2000 * 0.25 * 0.75)).all()
    assert all(len(set(Reference.draw(20, 5, seed).ids)) == 5 for seed in range(50))
    np.testing.assert_array_equal(Reference.draw(9, 5, 3).ids, Reference.draw(9, 5, 3).ids)


@settings(deadline=None)
@given(seeds, st.integers(1, 50))
def test_moments_know_all_similarities(seed, block):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((50, 6)).astype(np.float32)
    queries = rng.standard_normal((3, 6)).astype(np.float32)
    mean, square = Moments.of(vectors, block).similarity(queries)
    scores = queries.astype(float) @ vectors.astype(float).T
    np.testing.assert_allclose(mean, scores.mean(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(square, (scores**2).mean(1), rtol=1e-4)


def test_controls_sum_to_nothing_over_what_is_not_on_top():
    scores = -np.sort(-gallery(4, 3, 60), 1)
    moments = scores.mean(1), (scores**2).mean(1)
    found = _controls(scores[:, :8], scores[:, 8:], 60, moments)
    np.testing.assert_allclose(found.sum(-1), 0, atol=1e-9)
    np.testing.assert_allclose(found[:, 0].std(-1), 1)


def test_three_draws_are_enough_for_a_mean_and_two_for_a_spread():
    share = np.array([[0.2, 0.9, 0.4, 0.0], [0.2, 0.9, 0.0, 0.0]])
    left = share > 0
    mean, spread, _ = _fit(share, left, None)
    wanted = [share[0, :3].std(ddof=1), share[1, :2].std(ddof=1)]
    assert mean.tolist() == pytest.approx([0.5, 0.55]) and spread.tolist() == pytest.approx(
        wanted
    )
    told, low, high = _mean_and_bounds(share, left, 40, None, 0.95, "normal")
    least, most = 1.1 / 40, (1.1 + 38) / 40
    assert told.tolist() == pytest.approx([0.5, (least + most) / 2])
    assert (low[1], high[1]) == pytest.approx((least, most))


@pytest.mark.parametrize(("count", "drawn"), [(3, 1 - 2 / 10), (8, (1 - 8 / 10) * (1 + 1 / 8))])
def test_the_bernstein_bound_is_the_printed_one(count, drawn):
    log, constant = math.log(10 / 0.1), (7 / 3 + 3 / math.sqrt(2)) * 1.5
    wanted = 0.4 * math.sqrt(2 * drawn * log / count) + constant * log / count
    found = _bernstein(np.array([0.4]), np.array([1.5]), np.array([count]), 10, 0.9)
    assert found.tolist() == pytest.approx([wanted])


@settings(deadline=None)
@given(seeds)
def test_the_fit_equals_least_squares(seed):
    rng = np.random.default_rng(seed)
    share, controls = rng.random((3, 40)), rng.standard_normal((3, 2, 40))
    left = rng.random((3, 40)) < 0.7
    mean, spread, skew = _fit(share * left, left, controls)
    for query in range(3):
        own = left[query]
        design = np.column_stack([np.ones(own.sum()), *controls[query][:, own]])
        weights, *_ = np.linalg.lstsq(design, share[query, own], rcond=None)
        remains = share[query, own] - design @ weights
        variance = (remains**2).sum() / (own.sum() - 3)
        assert mean[query] == pytest.approx(weights[0], rel=1e-6)
        assert spread[query] == pytest.approx(math.sqrt(variance), rel=1e-6)
        assert skew[query] == pytest.approx((remains**3).mean() / variance**1.5, abs=1e-5)


def test_the_normal_bound_is_students():
    """With the finite population correction, from scipy."""
    scores = gallery(4, 1, 1000)
    reference = Reference.draw(1000, 200)
    found = estimate(scores, 50, reference, known=False, bound="normal")
    best = set(np.argsort(-scores[0])[:50].tolist())
    sample = np.exp([scores[0, i] / TAU for i in reference.ids if i not in best])
    error = sample.std(ddof=1) * math.sqrt((1 - len(sample) / 950) / len(sample))
    low, high = student.interval(0.95, len(sample) - 1, sample.mean(), error)
    exact = sum(math.exp(scores[0, i] / TAU) for i in best)
    assert np.exp(found.log_low[0]) == pytest.approx(exact + 950 * low)
    assert np.exp(found.log_high[0]) == pytest.approx(exact + 950 * high)


@settings(deadline=None)
@given(st.floats(-8, 8), st.integers(4, 5000), st.floats(0.5, 0.999))
def test_the_skewed_bound_undoes_halls_transformation(skew, count, level):
    below, above = _skewed(np.ones(1), np.array([skew]), np.array([count]), level)
    tilt = skew / math.sqrt(count)
    reach = student.ppf((1 + level) / 2, count - 1)
    for value, expected in ((below[0], reach), (-above[0], -reach)):
        bent = value + tilt * value**2 / 3 + tilt**2 * value**3 / 27 + tilt / 6
        assert bent == pytest.approx(expected, rel=1e-4, abs=1e-4)


@settings(deadline=None)
@given(seeds, st.sampled_from(BOUNDS))
def test_queries_do_not_see_each_other(seed, bound):
    scores = gallery(seed, 4, 200)
    reference = Reference.draw(200, 60, seed)
    together = estimate(scores, 10, reference, bound=bound)
    for query in range(4):
        alone = estimate(scores[query : query + 1], 10, reference, bound=bound)
        assert alone.log_low[0] == pytest.approx(together.log_low[query])
        assert alone.log_high[0] == pytest.approx(together.log_high[query])


@settings(deadline=None)
@given(seeds, st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_bounds_are_in_order_whatever_is_left(seed, kept, size, known):
    """Also where the sample is empty without the best, or everything is alike."""
    scores = np.round(gallery(seed, 3, 30), 1)
    found = estimate(scores, kept, Reference.draw(30, size, seed), known)
    assert (found.log_low <= found.log_sum + 1e-12).all()
    assert (found.log_sum <= found.log_high + 1e-12).all()
    if kept < 30 and size < 3:
        assert holds(found, log_sum(scores)).all()


# --- the bound holds --------------------------------------------------------------------


def heavy(seed: int, kind: str, queries: int, candidates: int) -> np.ndarray:
    """Similarities as trained vectors give them, and worse."""
    rng = np.random.default_rng(seed)
    shape = queries, candidates
    if kind == "gamma":
        scores = 0.05 * (rng.standard_gamma(4, shape) - 4)
    elif kind == "related":
        scores = 0.08 * rng.standard_normal(shape) + 0.25 * (rng.random(shape) < 0.02)
    else:
        scores = 0.1 * rng.standard_normal(shape)
    if kind == "duplicates":  # more near copies of the match than are found exactly
        scores[:, : candidates // 190] = 0.45 + 0.01 * rng.standard_normal(candidates // 190)
    return scores.clip(-1, 1)


@cache
def coverage(kind: str, known: bool = True, **chosen: object) -> tuple[float, float, int]:
    """Share of queries whose bound holds, over samples and queries; median width."""
    scores = heavy(3, kind, 40, 40_000)
    samples = [Reference.draw(40_000, 4096, seed) for seed in range(15)]
    found, exact = estimates(scores, 200, samples, known, **chosen), log_sum(scores)
    held = np.concatenate([holds(each, exact) for each in found])
    return float(held.mean()), float(np.median([width(each) for each in found])), len(held)


@pytest.mark.parametrize("kind", ["normal", "gamma", "related", "duplicates"])
def test_the_bound_holds_for_95_percent_of_queries(kind):
    held, wide, count = coverage(kind)
    assert held >= binom.ppf(0.001, count, 0.95) / count
    if kind != "duplicates":
        assert wide <= 0.2  # a sample of 16,384 halves it


def test_why_not_the_normal_bound():
    """Where few candidates hold most of the evidence, it misses far too often."""
    held, *_ = coverage("duplicates", bound="normal")
    assert held < 0.9


def test_the_bernstein_bound_holds_always_and_is_far_wider():
    held, wide, _ = coverage("related", bound="bernstein")
    assert held == 1
    assert wide > 3 * coverage("related")[1]


def test_known_moments_make_it_narrower():
    assert coverage("normal")[1] < 0.75 * coverage("normal", known=False)[1]


def test_other_levels_hold_too():
    held, _, count = coverage("gamma", level=0.8)
    assert binom.ppf(0.001, count, 0.8) / count <= held < 0.9


def test_a_search_that_misses_some_of_the_best_shows_in_the_sample():
    """A tenth of the best is not found; the sample stands in for them."""
    scores = heavy(5, "normal", 30, 20_000)
    held, exact, best = [], log_sum(scores), np.argsort(-scores, 1)[:, :200]
    for seed in range(10):
        found = best[:, np.random.default_rng(seed).random(200) > 0.1]
        reference = Reference.draw(20_000, 4096, seed)
        top = np.take_along_axis(scores, found, 1)
        left = reference.without(found)
        held.append(holds(evidence_sum(top, scores[:, reference.ids], left, 20_000), exact))
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("score", [0.5, 0.3])
def test_a_sample_without_spread_is_bounded_by_what_it_may_have_missed(level, score):
    """All sampled are alike, so only candidates that no sample met can make the sum larger."""
    kth, size, rest = 0.6, 40, 5000
    found = evidence_sum(
        np.full((1, 3), kth),
        np.full((1, size), score),
        np.ones((1, size), bool),
        3 + rest,
        TAU,
        level=level,
    )
    largest, mean = math.exp(kth / TAU), math.exp(score / TAU)
    missed = (math.exp(found.log_high[0]) - 3 * largest - rest * mean) / (
        rest * (largest - mean)
    )
    # a part that large stays out of the sample as often as half of what the level leaves over
    assert math.exp(-missed * size) == pytest.approx(CAUTION * (1 - level) / 2, rel=1e-6)
    assert math.exp(found.log_low[0]) == pytest.approx(3 * largest + rest * mean, rel=1e-6)
