"""How many pictures of a gallery a name fits: a mixture of two densities of relative evidence.

    evidence of a gallery's pictures = share * N(level, width) + (1 - share) * others

What is not known of a name, its share of the gallery, the level of the pictures that fit and
that of the others, is integrated over a grid. The levels of a name are told beforehand by a
linear model of what is known of it; how far they may be off is learnt with it. `power` below 1
makes the pictures count for less than as many independent ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARES = 1 / (1 + np.exp(-np.linspace(-8, 2.2, 35)))
_USUAL_LOG_ODDS, _LOG_ODDS_SPREAD = -3.5, 1.5
_EDGES = np.linspace(-9, 12, 169)
_OFF_EDGES = np.linspace(-5, 8, 105)
_SMOOTH = (0.05, 0.2, 0.5, 0.2, 0.05)
_RIDGE = 3.0
_UNITS = {"fits": np.linspace(-2.2, 2.2, 11), "others": np.linspace(-2, 2, 5)}


@dataclass(frozen=True)
class KnownName:
    """What one name's evidence over a gallery is known to look like."""

    about: np.ndarray
    """What is known of the name itself."""
    fits: np.ndarray
    """Evidence of pictures that it fits; empty for absent names."""
    others: np.ndarray


@dataclass(frozen=True)
class Line:
    """A linear model over standardised numbers."""

    centre: np.ndarray
    scale: np.ndarray
    weights: np.ndarray

    @classmethod
    def fit(cls, about: np.ndarray, wanted: np.ndarray) -> "Line":
        centre, scale = about.mean(0), about.std(0) + 1e-9
        ready = np.c_[(about - centre) / scale, np.ones(len(about))]
        penalty = np.diag([_RIDGE] * about.shape[1] + [0.0])
        return cls(centre, scale, np.linalg.solve(ready.T @ ready + penalty, ready.T @ wanted))

    def __call__(self, about: np.ndarray) -> np.ndarray:
        ready = (about - self.centre) / self.scale
        return ready @ self.weights[:-1] + self.weights[-1]


@dataclass(frozen=True)
class Belief:
    """What the mixture says of one name in one gallery."""

    probability: np.ndarray
    """Of every picture."""
    median: float
    """Of the number of pictures that fit."""
    mean: float
    low: float
    high: float
    """One in ten lies below `low`, and one above `high`."""


@dataclass(frozen=True)
class Mixture:
    """Densities learnt from names whose pictures are known."""

    fits: Line
    fits_off: float
    """How far the level of a name's pictures may be from what is told beforehand."""
    others: Line
    others_off: float
    spread: Line
    width: Line
    """The spread of the pictures that fit, by their level."""
    density: np.ndarray
    """Of the others' standardised evidence, its logarithm."""

    @classmethod
    def learn(cls, names: Sequence[KnownName]) -> "Mixture":
        there = [name for name in names if len(name.fits)]
        about = np.stack([name.about for name in there])
        level = np.array([name.fits.mean() for name in there])
        fits = Line.fit(about, level)
        width = np.array([name.fits.std() for name in there])
        several = np.array([len(name.fits) > 4 for name in there])
        noise = np.mean([width[several].mean() ** 2 / len(name.fits) for name in there])
        off = np.sqrt(max((level - fits(about)).var() - noise, 0.1))
        everyone = np.stack([name.about for name in names])
        middle = np.array([name.others.mean() for name in names])
        spread = np.array([name.others.std() for name in names])
        others = Line.fit(everyone, middle)
        return cls(
            fits,
            float(off),
            others,
            float((middle - others(everyone)).std()),
            Line.fit(everyone, spread),
            Line.fit(level[several, None], width[several]),
            _log_density(names, middle, spread),
        )

    def believe(
        self, evidence: np.ndarray, about: np.ndarray, powers: Sequence[float]
    ) -> list[Belief]:
        """With every power. evidence: of every picture of the gallery."""
        counts = np.histogram(np.clip(evidence, -8.99, 11.99), _EDGES)[0]
        seen = counts > 0
        at, counts = ((_EDGES[1:] + _EDGES[:-1]) / 2)[seen], counts[seen]
        level = float(self.fits(about)) + self.fits_off * _UNITS["fits"]
        middle = float(self.others(about)) + self.others_off * _UNITS["others"]
        spread = float(self.spread(about))
        of_others = self._others((at - middle[:, None]) / spread) - np.log(spread)
        width = np.clip(self.width(level[:, None]), 1.2, 2.6)[:, None]
        of_fits = -0.5 * ((at - level[:, None]) / width) ** 2
        of_fits = of_fits - np.log(width * np.sqrt(2 * np.pi))
        ratio = np.exp(np.clip(of_fits[None] - of_others[:, None], -30, 30))
        share = SHARES[:, None, None, None]
        mixed = 1 - share + share * ratio  # shares, others, fits, bins
        told = ((np.log(mixed) + of_others[None, :, None]) * counts).sum(-1)
        fits = (share * ratio / mixed).reshape(-1, len(at))
        return [_belief(power * told + _prior(), fits, at, evidence) for power in powers]

    def _others(self, off: np.ndarray) -> np.ndarray:
        return np.interp(off, (_OFF_EDGES[1:] + _OFF_EDGES[:-1]) / 2, self.density)


def _belief(
    log_weight: np.ndarray, fits: np.ndarray, at: np.ndarray, evidence: np.ndarray
) -> Belief:
    """Mean and quantiles over the grid. fits: P of a picture in each bin, at each point."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    of_share = weight.sum((1, 2))
    low, middle, high = np.interp([0.1, 0.5, 0.9], np.cumsum(of_share), SHARES) * len(evidence)
    mean = float(of_share @ SHARES) * len(evidence)
    return Belief(np.interp(evidence, at, weight.ravel() @ fits), middle, mean, low, high)


def _prior() -> np.ndarray:
    log_odds = np.log(SHARES / (1 - SHARES))
    share = ((log_odds - _USUAL_LOG_ODDS) / _LOG_ODDS_SPREAD) ** 2
    fits, others = _UNITS["fits"] ** 2, _UNITS["others"] ** 2
    return -0.5 * (share[:, None, None] + others[:, None] + fits)


def _log_density(
    names: Sequence[KnownName], middle: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    total = np.zeros(len(_OFF_EDGES) - 1)
    for name, centre, scale in zip(names, middle, spread, strict=True):
        off = np.clip((name.others - centre) / scale, -4.99, 7.99)
        total += np.histogram(off, _OFF_EDGES)[0] / len(off)
    smooth = np.convolve(total / total.sum(), _SMOOTH, "same")
    return np.log(smooth / (_OFF_EDGES[1] - _OFF_EDGES[0]) + 1e-5)
