r"""The evidence of a whole gallery at constant cost: the best matches and a sample.

Uncertainty is u = K/S, and S = K + sum of exp(s/tau) goes over all K candidates. Of a large
gallery a search sees only the best k. The rest is estimated from a uniform sample of the
gallery, drawn once and stored with it:

    best k, exact ------------------------------------.
    sample without them --mean--> times K - k --------+--> sum of evidence, low and high
    first two moments of the gallery --less variance--'

What is left of the sample has no more evidence than the k-th match, so its mean is a
bounded one, sampled without replacement. The mean and the mean square of all similarities
follow exactly from the first two moments of the gallery's vectors; as control variates they
take out the part of the sample's error that they explain. The interval is Student's with a
correction for skewness and one for what the sample may have missed; a sample of everything
gives the exact value. Evidence is exponential throughout.

Papers: Rastogi and Van Durme, "Sublinear Partition Estimation", arXiv 2015 (best matches and
a uniform sample); Hall, "On the Removal of Skewness by Transformation", JRSS B 1992;
Bardenet and Maillard, "Concentration Inequalities for Sampling without Replacement",
Bernoulli 2015.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from avow.core.inputs import check_shares
from avow.core.shapes import Bool, Float, Int

Bound = Literal["skewed", "normal", "bernstein"]
CAUTION = 0.8
"""Of the misses allowed, the share the "skewed" bound is set to; it may miss a few more."""
PerQuery = Float[np.ndarray, " queries"]


@dataclass(frozen=True)
class Reference:
    """A fixed uniform sample of a gallery."""

    gallery: int
    ids: Int[np.ndarray, " sample"]
    """Which items, in ascending order."""

    @classmethod
    def draw(cls, gallery: int, size: int = 16_384, seed: int = 0) -> "Reference":
        """Without replacement; the whole gallery where it is no larger than `size`."""
        rng = np.random.default_rng(seed)
        drawn = rng.choice(gallery, min(size, gallery), replace=False, shuffle=False)
        return cls(gallery, np.sort(drawn))

    def without(self, hits: Int[np.ndarray, "queries k"]) -> Bool[np.ndarray, "queries _"]:
        """Which sampled items are not among the hits of each query."""
        left = np.ones((len(hits), len(self.ids)), bool)
        if not len(self.ids):
            return left
        place = np.searchsorted(self.ids, hits).clip(max=len(self.ids) - 1)
        query, rank = np.nonzero(self.ids[place] == hits)
        left[query, place[query, rank]] = False
        return left


@dataclass(frozen=True)
class Moments:
    """Mean and second moment of the vectors of a gallery: what all similarities sum to."""

    mean: Float[np.ndarray, " dim"]
    second: Float[np.ndarray, "dim dim"]

    @classmethod
    def of(cls, vectors: Float[np.ndarray, "gallery dim"], block: int = 65_536) -> "Moments":
        """Summed block by block, so that vectors may be memory-mapped."""
        count, dim = vectors.shape
        total, squares = np.zeros(dim), np.zeros((dim, dim))
        for start in range(0, count, block):
            part = np.asarray(vectors[start : start + block], np.float32)
            total += part.sum(0, dtype=np.float64)
            squares += part.T @ part
        return cls(total / count, squares / count)

    def similarity(
        self, queries: Float[np.ndarray, "queries dim"]
    ) -> tuple[PerQuery, PerQuery]:
        """Mean and mean square of each query's similarity to the whole gallery."""
        exact = queries.astype(np.float64)
        return exact @ self.mean, np.einsum("qd,qd->q", exact @ self.second, exact)


@dataclass(frozen=True)
class EvidenceSum:
    """The total evidence of every query's candidates, as a logarithm, and its bounds."""

    candidates: int
    log_sum: PerQuery
    log_low: PerQuery
    log_high: PerQuery

    @property
    def log_mean(self) -> PerQuery:
        """Logarithm of the mean evidence of a candidate."""
        return self.log_sum - math.log(self.candidates)

    @property
    def log_strength(self) -> PerQuery:
        """Logarithm of S, the sum of evidence + 1."""
        return np.logaddexp(math.log(self.candidates), self.log_sum)

    @property
    def uncertainty(self) -> PerQuery:
        """u = K/S."""
        return self._uncertainty(self.log_sum)

    @property
    def uncertainty_low(self) -> PerQuery:
        return self._uncertainty(self.log_high)

    @property
    def uncertainty_high(self) -> PerQuery:
        return self._uncertainty(self.log_low)

    def _uncertainty(self, log_sum: PerQuery) -> PerQuery:
        # 1 / (1 + mean evidence), and never an overflow
        return np.exp(-np.logaddexp(0, log_sum - math.log(self.candidates)))


def evidence_sum(
    top: Float[np.ndarray, "queries k"],
    sampled: Float[np.ndarray, "queries sample"],
    left: Bool[np.ndarray, "queries sample"],
    candidates: int,
    tau: float = 0.05,
    *,
    known: tuple[PerQuery, PerQuery] | None = None,
    level: float = 0.95,
    bound: Bound = "skewed",
) -> EvidenceSum:
    """Sum exp(s/tau) over all candidates of every query, with bounds at `level`.

    top: the k largest similarities of each query. sampled: those of the reference items.
    left: which of them are not among the k (`Reference.without`). known: mean and mean
    square of all similarities (`Moments.similarity`). bound: "skewed" is the tightest that
    holds in simulation; "bernstein" holds whatever the distribution and is far wider;
    "normal" misses too often where few candidates hold most of the evidence.
    """
    check_shares(level=level)
    rest = candidates - top.shape[1]
    kth = top.min(1).astype(np.float64)
    exact = np.exp((top - top.max(1, keepdims=True)) / tau).sum(1, dtype=np.float64)
    log_exact = top.max(1) / tau + np.log(exact)
    if rest == 0:
        return EvidenceSum(candidates, log_exact, log_exact, log_exact)
    # in units of the k-th evidence, which none of the rest exceeds
    share = np.exp(np.where(left, sampled - kth[:, None], -np.inf) / tau)
    controls = None if known is None else _controls(top, sampled, candidates, known)
    means = _mean_and_bounds(share, left, rest, controls, level, bound)
    with np.errstate(divide="ignore"):
        sums = (np.logaddexp(log_exact, kth / tau + np.log(rest * mean)) for mean in means)
        return EvidenceSum(candidates, *sums)


def _controls(
    top: Float[np.ndarray, "queries k"],
    sampled: Float[np.ndarray, "queries sample"],
    candidates: int,
    moments: tuple[PerQuery, PerQuery],
) -> Float[np.ndarray, "queries 2 sample"]:
    """z and z^2 - 1 of the sample; over all candidates that are not on top, both sum to 0."""
    rest = candidates - top.shape[1]
    best = top.astype(np.float64)
    mean = (candidates * moments[0] - best.sum(1)) / rest
    square = (candidates * moments[1] - (best**2).sum(1)) / rest
    spread = np.sqrt(np.maximum(square - mean**2, 1e-12))
    z = (sampled - mean[:, None]) / spread[:, None]
    return np.stack([z, z * z - 1], 1)


def _mean_and_bounds(
    share: Float[np.ndarray, "queries sample"],
    left: Bool[np.ndarray, "queries sample"],
    rest: int,
    controls: Float[np.ndarray, "queries 2 sample"] | None,
    level: float,
    bound: Bound,
) -> tuple[PerQuery, PerQuery, PerQuery]:
    """Mean of a population in [0, 1], from a sample without replacement; low and high."""
    count = left.sum(1)
    total = share.sum(1)
    # above 1 only when the search was not exact, and then it shows here
    largest = np.maximum(share.max(1, initial=0), 1)
    mean, spread, skew = _fit(share, left, controls)
    fraction = count / rest
    error = spread * np.sqrt((1 - fraction).clip(min=0) / np.maximum(count, 1))
    if bound == "bernstein":
        below = above = _bernstein(spread, largest, count, rest, level)
    elif bound == "normal":
        below = above = _student(count, level) * error
    else:
        careful = 1 - CAUTION * (1 - level)
        below, above = _skewed(error, skew, count, careful)
        above = above + _unseen(share, count, careful)
    # what was sampled is certain, and the others lie between 0 and the largest
    least, most = total / rest, (total + (rest - count) * largest) / rest
    enough = count > 2
    low = np.where(enough, np.clip(mean - below, least, most), least)
    high = np.where(enough, np.clip(mean + above, least, most), most)
    return np.where(enough, np.clip(mean, low, high), (least + most) / 2), low, high


def _fit(
    share: Float[np.ndarray, "queries sample"],
    left: Bool[np.ndarray, "queries sample"],
    controls: Float[np.ndarray, "queries 2 sample"] | None,
) -> tuple[PerQuery, PerQuery, PerQuery]:
    """Value where the controls are 0, and spread and skewness of what they leave over."""
    basis = left[:, None].astype(np.float64)
    if controls is not None:
        basis = np.concatenate([basis, controls * basis], 1)
    gram = basis @ basis.swapaxes(1, 2)
    ridge = 1e-9 * np.maximum(gram[:, :1, :1], 1)  # an empty or constant sample has no slope
    gram = gram + ridge * np.eye(basis.shape[1])
    weights = np.linalg.solve(gram, basis @ share[..., None])[..., 0]
    remains = share - (weights[:, None] @ basis)[:, 0]
    squares = remains * remains
    count = left.sum(1)
    variance = squares.sum(1) / np.maximum(count - basis.shape[1], 1)
    third = (squares * remains).sum(1) / np.maximum(count, 1)
    skew = third / np.maximum(variance, 1e-200) ** 1.5
    return weights[:, 0], np.sqrt(variance), np.where(variance > 0, skew, 0)


def _skewed(
    error: PerQuery, skew: PerQuery, count: Int[np.ndarray, " queries"], level: float
) -> tuple[PerQuery, PerQuery]:
    r"""How far below and above the mean, by Hall's transformation of Student's t.

    $$ g(t) = t + \tfrac{a t^2}{3} + \tfrac{a^2 t^3}{27} + \tfrac a6, \quad
       a = \gamma / \sqrt m $$

    | symbol     | here    |
    |------------|---------|
    | $\gamma$   | `skew`  |
    | $m$        | `count` |
    """
    reach = _student(count, level)
    tilt = skew / np.sqrt(np.maximum(count, 1))
    straight = np.abs(tilt) < 1e-6
    tilt = np.where(straight, 1, tilt)

    def undo(value: PerQuery) -> PerQuery:
        bent = 3 * (np.cbrt(1 + tilt * (value - tilt / 6)) - 1) / tilt
        return np.where(straight, value, bent)

    return error * undo(reach), -error * undo(-reach)


def _unseen(
    share: Float[np.ndarray, "queries sample"],
    count: Int[np.ndarray, " queries"],
    level: float,
) -> PerQuery:
    """What candidates between the largest of the sample and the k-th may add.

    A part p of the rest stays out of a sample of m with chance at most exp(-p m).
    """
    part = -math.log((1 - level) / 2) / np.maximum(count, 1)
    return part * (1 - share.max(1, initial=0)).clip(min=0)


def _bernstein(
    spread: PerQuery,
    largest: PerQuery,
    count: Int[np.ndarray, " queries"],
    rest: int,
    level: float,
) -> PerQuery:
    """Empirical Bernstein-Serfling inequality, both sides (Bardenet and Maillard, Thm 4.3)."""
    size = np.maximum(count, 1)
    drawn = np.where(
        size <= rest / 2, 1 - (size - 1) / rest, (1 - size / rest) * (1 + 1 / size)
    )
    log = math.log(10 / (1 - level))
    constant = (7 / 3 + 3 / math.sqrt(2)) * largest
    return spread * np.sqrt(2 * drawn.clip(min=0) * log / size) + constant * log / size


def _student(count: Int[np.ndarray, " queries"], level: float) -> Float[np.ndarray, " queries"]:
    """How many standard errors hold `level` of Student's distribution, for so many draws."""
    from scipy.special import stdtrit  # slow to import; a search needs none

    return stdtrit(np.maximum(count - 1, 1), (1 + level) / 2)
