"""Say when a guarantee no longer applies: recent queries are not like the calibrated ones.

A promise holds for queries that are exchangeable with those of calibration: same model, same
gallery, same kind of users. Nobody sees the truth of new queries, but everybody sees their
confidences, and those would change too. Two ways to look:

    compare   a batch of recent confidences with those of calibration, once
    Watch     a stream, query by query, as often as one likes

`Watch` bets against exchangeability with every new query and never goes into debt. Its
capital is a martingale as long as the queries are exchangeable, and by Ville's inequality
the chance that it *ever* reaches 1/level is at most level. A gallery that has grown or
changed moves the confidences and is found the same way.

Papers: Vovk et al., "Retrain or Not Retrain: Conformal Test Martingales for Change-Point
Detection", COPA 2021 (the Simple Jumper); Vovk et al., "Algorithmic Learning in a Random
World", Springer 2005 (conformal p-values).
"""

import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import ks_2samp, mannwhitneyu

from avow.core.groups import numbered, one_of_each
from avow.core.inputs import check_shares

Test = Literal["kolmogorov_smirnov", "mann_whitney"]
Confidences = Float[np.ndarray, " queries"]
Labels = Int[np.ndarray, " queries"]


@dataclass(frozen=True)
class Shift:
    """Whether recent queries look like those a promise was calibrated with."""

    shifted: bool
    p_value: float
    level: float
    """The accepted chance of a false alarm."""
    test: str
    distance: float
    """How far apart they are; 0 is the same (see `compare` and `Watch`)."""
    reference: int
    recent: int

    def __str__(self) -> str:
        figures = f"{self.test.replace('_', ' ')}, p = {self.p_value:.2g}"
        if self.shifted:
            return (
                f"The last {self.recent} queries are not like the {self.reference} of "
                f"calibration ({figures}). Promises made there no longer apply; calibrate "
                f"again with queries and gallery of today."
            )
        return (
            f"The last {self.recent} queries may well be like the {self.reference} of "
            f"calibration ({figures}); a small change can go unseen."
        )


def compare(
    reference: Float[np.ndarray, " reference"],
    recent: Float[np.ndarray, " recent"],
    *,
    test: Test = "kolmogorov_smirnov",
    level: float = 0.01,
    reference_groups: Int[np.ndarray, " reference"] | None = None,
    recent_groups: Int[np.ndarray, " recent"] | None = None,
    seed: int = 0,
) -> Shift:
    """Two samples of confidences: could they be one?

    test: "kolmogorov_smirnov" sees any difference and has an exact p-value up to 10,000
    queries; its distance is the largest gap between the two shares below a confidence.
    "mann_whitney" sees better whether one is larger as a whole; its distance is by how much
    the chance that a recent one is larger differs from one half. One query of each group is
    drawn, because a group is one observation.
    """
    check_shares(level=level)
    before = reference[_drawn(reference_groups, len(reference), seed)]
    now = recent[_drawn(recent_groups, len(recent), seed)]
    result: Any = (mannwhitneyu if test == "mann_whitney" else ks_2samp)(now, before)
    distance, chance = float(result.statistic), float(result.pvalue)
    if test == "mann_whitney":
        distance = abs(distance / (len(now) * len(before)) - 0.5)
    return Shift(chance <= level, chance, level, test, distance, len(before), len(now))


class Watch:
    """A stream of confidences, watched from the calibration set on.

    Every new confidence gets a conformal p-value, its place among all before it. Three
    accounts bet on them: that they are large, that they are small, and on nothing; every
    time, a share `jump` of the capital is spread anew.
    """

    BETS = (-1.0, 0.0, 1.0)

    def __init__(
        self,
        reference: Confidences,
        *,
        level: float = 0.01,
        groups: Labels | None = None,
        jump: float = 0.01,
        seed: int = 0,
    ):
        check_shares(level=level, jump=jump)
        drawn = reference[_drawn(groups, len(reference), seed)]
        self.level = level
        self.jump = jump
        self.reference = len(drawn)
        self.recent = 0
        self.log_capital = 0.0
        self.log_largest = 0.0
        self._past = sorted(drawn.tolist())
        self._accounts = [1 / 3, 1 / 3, 1 / 3]
        self._luck = np.random.default_rng(seed)

    def see(self, confidence: Float[np.ndarray, " new"]) -> Shift:
        """Bet on new queries in the order they came; tell how things stand."""
        for value in confidence.tolist():
            self._bet(self._p_value(value))
        chance = math.exp(-self.log_largest)
        return Shift(
            shifted=chance <= self.level,
            p_value=chance,
            level=self.level,
            test="martingale",
            distance=self.log_largest,
            reference=self.reference,
            recent=self.recent,
        )

    def _p_value(self, value: float) -> float:
        """Uniform and independent of all before, while queries are exchangeable."""
        insort(self._past, value)
        above = len(self._past) - bisect_right(self._past, value)
        equal = bisect_right(self._past, value) - bisect_left(self._past, value)
        return (above + self._luck.random() * equal) / len(self._past)

    def _bet(self, p_value: float) -> None:
        """The accounts always sum to one; what they gain is kept as a logarithm."""
        gained = [
            ((1 - self.jump) * held + self.jump / 3) * (1 + bet * (p_value - 0.5))
            for held, bet in zip(self._accounts, self.BETS, strict=True)
        ]
        total = sum(gained)
        self._accounts = [account / total for account in gained]
        self.recent += 1
        self.log_capital += math.log(total)
        self.log_largest = max(self.log_largest, self.log_capital)


def _drawn(groups: Labels | None, queries: int, seed: int) -> Int[np.ndarray, " drawn"]:
    return one_of_each(numbered(groups, queries), seed)
