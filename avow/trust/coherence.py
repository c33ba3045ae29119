"""Three numbers that agree: P of every hit, P that one of the first k fits, how many fit.

    P of every hit              p_1 >= p_2 >= …            `Policy.probability`
    one of the first ten fits   A                          `Policy.anything`
    one of the first k fits     P_k, of p_1 … p_k and rho

How hits depend on each other is one number per query, rho between 0 and 2:

    0   they fit together            P_k = max p
    1   they are independent         P_k = 1 - product of (1 - p)
    2   they exclude each other      P_k = min(1, sum of p)

Between 0 and 1 a hit fits by a cause that all hits share or by one of its own:
1 - P_k = (1 - max p)^(1 - rho) * (product of (1 - p))^rho. Between 1 and 2, hits exclude each
other with probability rho - 1 and are independent otherwise. rho follows from A, which is
fitted on queries and not on hits, by P_10 = A. So P_1 is the probability of the first hit, P_k
never falls with k, and no hit is more probable than that anything fits.

How many items fit is the sum of the probabilities of the whole gallery: the hits with their
own, all others by a sample, each with a probability that falls with the gap between its
evidence and that of the last hit, and for names also with how far that hit is below their
level (`trust.level`). The sample stands for the rest, so the cost does not grow with the
gallery. `spread`, measured on held-out queries, is the factor (of one more than the number)
that holds four out of five of them.
"""

from dataclasses import dataclass

import numpy as np

from avow.core.logistic import expit, logit
from avow.core.shapes import Bool, Float, Int
from avow.trust.gallery_sampling import Hits, most_probable
from avow.trust.level import LEVEL
from avow.trust.probability import Line, Probability, fit_probability

TEN = 10
"""The first hits that a verdict is about, however many are shown."""
BEHIND = ("last hit", "gap", "log words", "gap x log words")
ABOVE = "last hit above level"
"""One column more, where the levels of names are known."""
INTERVAL, _WITHIN = 0.8, 1.2816
"""Of held-out queries, how many the interval holds; and the standard deviations of a normal
distribution that hold as much."""
_MEANS = ("score", "relative", "unusual", "above bank")
_LEAST = 1e-6

Stated = Float[np.ndarray, "queries stated"]
"""Probabilities of the most probable hits: the first ten, or all that were looked at."""
FirstTen = Float[np.ndarray, "queries ten"]


def log_odds(share: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """Logit, finite for 0 and 1."""
    # np.clip itself takes five times as long, and a search asks a dozen times
    return logit(np.minimum(np.maximum(share, _LEAST), 1 - _LEAST))


def query_names(names: tuple[str, ...], with_level: bool = False) -> tuple[str, ...]:
    """Names of `query_features`."""
    means = tuple(f"mean {name}" for name in _MEANS if name in names)
    level = (LEVEL,) if with_level else ()
    return (*names, "one of ten", "expected of ten", *means, *level)


def query_features(
    features: Float[np.ndarray, "queries shown features"],
    stated: Stated,
    names: tuple[str, ...],
    level: Float[np.ndarray, " queries"] | None = None,
) -> Float[np.ndarray, "queries more"]:
    """What is known of a query: its first hit, its first ten together, and its level.

    features: of hits by similarity. stated: the probabilities of at least the ten most
    probable hits, in any order. level: of the query (`trust.level`), where it is read.
    """
    best = -np.sort(-stated, axis=1)[:, :TEN]
    columns = [
        log_odds(1 - np.prod(1 - best, axis=1)),
        log_odds(best.mean(1)),
        *(features[:, :TEN, names.index(name)].mean(1) for name in _MEANS if name in names),
        *(() if level is None else (level,)),
    ]
    return np.concatenate([features[:, 0], np.stack(columns, 1)], 1, dtype=np.float64)


def fit_anything(probability: Probability, hits: Hits, with_level: bool = False) -> Probability:
    """That one of the ten most probable hits is relevant. with_level: by their level, too."""
    stated, relevant = most_probable(probability, hits, TEN)
    level = hits.level if with_level else None
    return fit_probability(
        f"one of {TEN} is {probability.event}",
        query_names(hits.names, level is not None),
        query_features(hits.features, stated, hits.names, level),
        np.asarray(relevant.any(1)),
        hits.gallery,
        hits.groups,
    )


def agree(
    stated: Stated, anything: Float[np.ndarray, " queries"]
) -> tuple[Stated, Float[np.ndarray, " queries"], Float[np.ndarray, " queries"]]:
    """Hits, "one of the first ten" and rho, brought together.

    stated: best first. Where a hit is more probable than `anything`, the log-odds of all hits
    of the query are lowered alike; where `anything` exceeds the sum of the hits, it is the sum.
    """
    above = np.maximum(log_odds(stated[:, 0]) - log_odds(anything), 0)
    lowered = expit(log_odds(stated) - above[:, None])
    hits = np.where(above[:, None] > 0, lowered, stated)
    together, independent, apart = (case[:, -1] for case in _cases(hits))
    anything = np.clip(anything, together, apart)
    within = _share(_survival(anything), _survival(together), _survival(independent))
    return hits, anything, within + _share(anything, independent, apart)


def one_of_first(stated: Stated, rho: Float[np.ndarray, " queries"]) -> FirstTen:
    """P_1, P_2, …, P_10: that one of the first k hits fits, for every k."""
    together, independent, apart = _cases(stated)
    within, beyond = np.minimum(rho, 1)[:, None], np.maximum(rho - 1, 0)[:, None]
    neither = (1 - within) * _survival(together) + within * _survival(independent)
    # of the two terms one is always nothing: the second is for rho above 1
    return -np.expm1(neither) + beyond * (apart - independent)


def one_of_some(stated: Float[np.ndarray, " some"], rho: float, anything: float) -> float:
    """That one of some hits of a query fits: P_k of these hits alone.

    rho, anything: of the query. No hits together are more probable than that anything fits.
    """
    best = -np.sort(-stated)[None]
    return min(float(one_of_first(best, np.array([rho]))[0, -1]), max(anything, best[0, 0]))


def _cases(stated: Stated) -> tuple[FirstTen, FirstTen, FirstTen]:
    """P_k for k = 1 … 10, of hits that fit together, are independent, exclude each other."""
    first = stated[:, :TEN]
    return (
        np.maximum.accumulate(first, axis=1),
        -np.expm1(np.cumsum(_survival(first), axis=1)),
        np.minimum(np.cumsum(first, axis=1), 1),
    )


def _survival(share: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """log(1 - share), finite for 1."""
    return np.log1p(-np.minimum(share, 1 - _LEAST**2))


def _share(
    value: Float[np.ndarray, "*any"],
    low: Float[np.ndarray, "*any"],
    high: Float[np.ndarray, "*any"],
) -> Float[np.ndarray, "*any"]:
    """How far a value is from low to high, within 0 … 1; 0 where both are the same."""
    room = high - low
    return np.clip((value - low) / np.where(np.abs(room) > _LEAST**2, room, np.inf), 0, 1)


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


def behind_features(
    last: Float[np.ndarray, " queries"],
    gap: Float[np.ndarray, "queries behind"],
    words: Int[np.ndarray, " queries"],
    above: Float[np.ndarray, " queries"] | None = None,
) -> Float[np.ndarray, "queries behind columns"]:
    """The columns `BEHIND`, and `ABOVE` where it is given. last: P of the last hit."""
    length = np.broadcast_to(np.log1p(words)[:, None], gap.shape)
    before = np.broadcast_to(log_odds(last)[:, None], gap.shape)
    columns = [before, gap, length, gap * length]
    if above is not None:
        columns.append(np.broadcast_to(above[:, None], gap.shape))
    return np.stack(columns, -1)


def fit_tail(
    event: str,
    rows: Float[np.ndarray, "items columns"],
    fits: Bool[np.ndarray, " items"],
    gallery: Int[np.ndarray, " items"],
    groups: Int[np.ndarray, " items"],
) -> Probability:
    """The probability of a candidate behind the hits, from `behind_features`."""
    names = (*BEHIND, ABOVE)[: rows.shape[1]]
    return fit_probability(f"{event}, behind", names, rows, fits, gallery, groups)


def each_behind(
    stated: Float[np.ndarray, "queries hits"],
    behind: Behind,
    tail: Probability,
    words: Int[np.ndarray, " queries"],
    above: Float[np.ndarray, " queries"] | None = None,
) -> Float[np.ndarray, "queries behind"]:
    """The probability of every candidate; never more than of the hits before it.

    above: what `tail` reads as `ABOVE`, if it does.
    """
    queries, candidates = behind.gap.shape
    above = above if ABOVE in tail.names else None
    rows = behind_features(stated[:, -1], behind.gap, words, above)
    sizes = np.repeat(stated.shape[1] + behind.count, candidates)
    each = tail(rows.reshape(queries * candidates, len(tail.names)), sizes)
    return np.minimum(each.reshape(queries, candidates), stated[:, -1:])


def number(
    stated: Float[np.ndarray, "queries hits"],
    behind: Behind,
    tail: Probability,
    spread: float,
    words: Int[np.ndarray, " queries"],
    line: Line | None = None,
    above: Float[np.ndarray, " queries"] | None = None,
) -> Number:
    """How many items fit. stated: of all hits, best first. line: moves hits and all others."""
    each = each_behind(stated, behind, tail, words, above)
    return counted(stated, each, behind.seen, behind.count, spread, words, line)


def counted(
    stated: Float[np.ndarray, "queries hits"],
    each: Float[np.ndarray, "queries behind"],
    seen: Bool[np.ndarray, "queries behind"],
    count: Int[np.ndarray, " queries"],
    spread: float,
    words: Int[np.ndarray, " queries"],
    line: Line | None = None,
) -> Number:
    """The same from the probabilities of candidates of which `seen` stand for `count`.

    The interval is as wide as `spread` says, and wider where few of many are seen.
    """
    if line is not None:
        stated, each = line(stated, words), line(each, words)
    looked_at = np.maximum(seen.sum(1), 1)
    mean = (each * seen).sum(1) / looked_at
    total = stated.sum(1) + mean * count
    variance = (np.square(each - mean[:, None]) * seen).sum(1) / looked_at**2
    unseen = np.maximum(1 - looked_at / np.maximum(count, 1), 0)
    chance = _WITHIN * count * np.sqrt(variance * unseen) / (1 + total)
    factor = np.exp(np.hypot(np.log(spread), chance))
    low, high = (1 + total) / factor - 1, (1 + total) * factor - 1
    return Number(total, np.maximum(low, 0), np.minimum(high, stated.shape[1] + count))


def measured_spread(
    expected: Float[np.ndarray, " queries"], true: Int[np.ndarray, " queries"]
) -> float:
    """The factor that holds `INTERVAL` of the true numbers."""
    off = np.abs(np.log1p(true) - np.log1p(expected))
    return float(np.exp(np.quantile(off, INTERVAL)))
