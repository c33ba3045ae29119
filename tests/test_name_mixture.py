"""The mixture of the trial on single names: against a plain loop, and on drawn names."""

import itertools

import numpy as np
import pytest

from benchmarks.quality._name_galleries import fixed_galleries, with_share
from benchmarks.quality._name_mixture import SHARES, KnownName, Mixture


def drawn(rng: np.random.Generator, fits: int, others: int, level: float) -> KnownName:
    """About: the level with an error, as reference queries tell it."""
    about = np.array([level + rng.normal(0, 0.5)])
    return KnownName(about, rng.normal(level, 1.8, fits), rng.normal(-2.7, 1.4, others))


@pytest.fixture(scope="module")
def mixture() -> Mixture:
    rng = np.random.default_rng(0)
    counts = rng.integers(5, 60, 80)
    return Mixture.learn([drawn(rng, n, 500, rng.normal(1, 1.5)) for n in counts])


@pytest.mark.parametrize("fits", [5, 38, 320])
def test_38_pictures_of_a_thousand_are_not_called_320(mixture, fits):
    """Within a factor of two for most names, whatever share of the gallery they have."""
    rng = np.random.default_rng(fits)
    stated = []
    for _ in range(20):
        name = drawn(rng, fits, 1000 - fits, rng.normal(2, 1))
        evidence = np.concatenate([name.fits, name.others])
        stated.append(mixture.believe(evidence, name.about, [1.0])[0].median)
    assert fits / 2 < np.median(stated) < fits * 2
    assert np.mean((np.array(stated) > fits / 2) & (np.array(stated) < fits * 2)) >= 0.7


def test_a_belief_is_the_mean_over_the_grid(mixture):
    """Against a plain loop over shares and levels, with a part of the power."""
    rng = np.random.default_rng(1)
    name = drawn(rng, 4, 16, 1.5)
    edges = np.linspace(-9, 12, 169)
    middles = (edges[1:] + edges[:-1]) / 2
    bins = np.digitize(np.concatenate([name.fits, name.others]), edges) - 1
    evidence, about, power = middles[bins], name.about, 0.3
    spread, total, mean, each = float(mixture.spread(about)), 0.0, 0.0, np.zeros(len(bins))
    units = itertools.product(np.linspace(-2.2, 2.2, 11), np.linspace(-2, 2, 5))
    for (unit, other), share in itertools.product(units, SHARES):
        level = float(mixture.fits(about)) + mixture.fits_off * unit
        middle = float(mixture.others(about)) + mixture.others_off * other
        width = float(np.clip(mixture.width(np.array([level])), 1.2, 2.6))
        fits = np.exp(-0.5 * ((evidence - level) / width) ** 2) / width / np.sqrt(2 * np.pi)
        at = (np.linspace(-5, 8, 105)[1:] + np.linspace(-5, 8, 105)[:-1]) / 2
        others = np.exp(np.interp((evidence - middle) / spread, at, mixture.density)) / spread
        both = share * fits + (1 - share) * others
        odds = (np.log(share / (1 - share)) + 3.5) / 1.5
        weight = np.prod(both) ** power * np.exp(-0.5 * (odds**2 + unit**2 + other**2))
        total, mean = total + weight, mean + weight * share
        each += weight * share * fits / both
    found = mixture.believe(evidence, about, [power])[0]
    assert found.mean == pytest.approx(len(evidence) * mean / total, rel=1e-6)
    assert found.probability == pytest.approx(each / total, rel=1e-6)


def test_a_gallery_has_the_share_it_is_made_with():
    rng = np.random.default_rng(0)
    match = np.arange(1000) < 40
    for share in (0.01, 0.04, 0.2, 0.5):
        made = with_share(match, share, 500, rng)
        assert len(made) == min(500, 40 / share) == len(set(made.tolist()))
        assert match[made].mean() == pytest.approx(share)
    assert [kind for kind, _ in fixed_galleries(np.zeros(1000, bool), rng)] == [
        "all",
        "100 drawn",
        "30 drawn",
    ]
