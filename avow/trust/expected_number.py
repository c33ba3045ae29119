"""How many items of the gallery fit a query: the sum of the probabilities of all of them.

    hits shown            their own probabilities
    all others            a sample of them, each with a probability that falls with the gap
                          between its evidence and that of the last hit

The sample stands for the rest of the gallery, so the cost does not grow with it. How far the
estimate is off was measured on held-out queries: `spread` is the factor (of one more than the
number) that holds four out of five of them.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.trust.coherence import log_odds
from avow.trust.probability import Probability, fit_probability

NAMES = ("last hit", "gap", "log words", "gap x log words")
SHARE = 0.8
"""Of held-out queries, how many the interval holds."""


@dataclass(frozen=True)
class Behind:
    """Candidates behind the hits of some queries, all or a sample."""

    gap: Float[np.ndarray, "queries behind"]
    """Log-evidence of the last hit less that of the candidate; relative where that is known."""
    seen: Bool[np.ndarray, "queries behind"]
    """Which of the columns are behind the hits of this query."""
    count: Int[np.ndarray, " queries"]
    """How many candidates they stand for."""


@dataclass(frozen=True)
class Number:
    """The expected number of fitting items, and the ends of its interval."""

    expected: Float[np.ndarray, " queries"]
    low: Float[np.ndarray, " queries"]
    high: Float[np.ndarray, " queries"]


def features(
    last: Float[np.ndarray, " queries"],
    gap: Float[np.ndarray, "queries behind"],
    words: Int[np.ndarray, " queries"],
) -> Float[np.ndarray, "queries behind 4"]:
    """The columns `NAMES`. last: the probability of the last hit."""
    length = np.broadcast_to(np.log1p(words)[:, None], gap.shape)
    before = np.broadcast_to(log_odds(last)[:, None], gap.shape)
    return np.stack([before, gap, length, gap * length], -1)


def fit_tail(
    event: str,
    rows: Float[np.ndarray, "items 4"],
    fits: Bool[np.ndarray, " items"],
    gallery: Int[np.ndarray, " items"],
    groups: Int[np.ndarray, " items"],
) -> Probability:
    """The probability of a candidate behind the hits."""
    return fit_probability(f"{event}, behind", NAMES, rows, fits, gallery, groups)


def number(
    stated: Float[np.ndarray, "queries hits"],
    behind: Behind,
    tail: Probability,
    spread: float,
    words: Int[np.ndarray, " queries"],
) -> Number:
    """How many items fit. stated: of all hits, best first."""
    queries, columns = behind.gap.shape
    rows = features(stated[:, -1], behind.gap, words).reshape(queries * columns, len(NAMES))
    sizes = np.repeat(stated.shape[1] + behind.count, columns)
    each = tail(rows, sizes).reshape(queries, columns)
    each = np.minimum(each, stated[:, -1:])  # never more probable than the hits before it
    seen = np.maximum(behind.seen.sum(1), 1)
    total = stated.sum(1) + (each * behind.seen).sum(1) / seen * behind.count
    low, high = (1 + total) / spread - 1, (1 + total) * spread - 1
    most = stated.shape[1] + behind.count
    return Number(total, np.maximum(low, 0), np.minimum(high, most))


def measured_spread(
    expected: Float[np.ndarray, " queries"], true: Int[np.ndarray, " queries"]
) -> float:
    """The factor that holds `SHARE` of the true numbers."""
    off = np.abs(np.log1p(true) - np.log1p(expected))
    return float(np.exp(np.quantile(off, SHARE)))
