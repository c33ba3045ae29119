"""Answer only when at most a share alpha of the answers is wrong, and promise it.

    confidence, wrong --thresholds, strictest first--> exact tests --> Promise

`promise` holds with confidence 1 - delta: of many calibration sets, at most delta lead to a
threshold whose answers are wrong too often. `promise_on_average` is another, weaker kind:
it bounds the share of *all* queries that get a wrong answer, on average over calibration
sets. What counts as wrong is the caller's: the first answer is not right, say, or none of
those shown is.

The thresholds are the confidences themselves, and the test begins where enough queries are
answered to pass at all. It is exact when a laxer threshold never becomes safe again once
one is too risky, and when queries (or groups) are independent of each other. A promise
belongs to the model, the gallery and the kind of queries it was calibrated with.

Papers: Angelopoulos et al., "Learn then Test: Calibrating Predictive Algorithms to Achieve
Risk Control", arXiv 2021; Bates et al., "Distribution-Free, Risk-Controlling Prediction
Sets", JACM 2021; Angelopoulos et al., "Conformal Risk Control", ICLR 2024; Wiens, "A Fixed
Sequence Bonferroni Procedure for Testing Multiple Endpoints", Pharmaceutical Statistics
2003 (more than one start).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from avow.core.beta import betainc
from avow.core.groups import numbered, one_of_each, running_sums
from avow.core.inputs import check_shares
from avow.core.shapes import Bool, Float, Int

Grouping = Literal["effective", "one"]
"""How members of a group count: for as much as they say, or one drawn for all."""

ROOM_FOR_TWO_STARTS = 20
"""Calibration sets this many times the smallest useful one can afford a second start."""

UNREACHABLE = 2**53
"""More answers than any calibration has; a float still counts them one by one."""


@dataclass(frozen=True)
class Promise:
    """At most `alpha` of the answers are wrong, with confidence 1 - `delta`."""

    threshold: float | None
    """Answer from this confidence up; never, where nothing can be promised."""
    alpha: float
    delta: float
    event: str
    """What counts as wrong, in words."""
    queries: int
    """How many queries the promise rests on."""
    groups: int
    answered: int
    """How many of them reach the threshold."""
    wrong: int
    reason: str = ""
    """Why nothing can be promised; empty otherwise."""

    @property
    def coverage(self) -> float:
        """Share of the calibration queries that are answered."""
        return self.answered / max(self.queries, 1)

    def answers(self, confidence: Float[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
        """Which queries may be answered."""
        return confidence >= (math.inf if self.threshold is None else self.threshold)

    def __str__(self) -> str:
        if self.threshold is None:
            return f"Nothing can be promised: {self.reason}."
        return (
            f"Answering from confidence {self.threshold:.4g} up, at most {self.alpha:.1%} of "
            f"the answers are wrong ({self.event}), with confidence {1 - self.delta:.1%}. "
            f"Calibration: {self.answered} of {self.queries} queries answered, "
            f"{self.wrong} wrong."
        )


@dataclass(frozen=True)
class AveragePromise:
    """At most `alpha` of all queries get a wrong answer, on average."""

    threshold: float | None
    alpha: float
    event: str
    queries: int
    groups: int
    answered: int
    wrong: int

    def answers(self, confidence: Float[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
        """Which queries may be answered."""
        return confidence >= (math.inf if self.threshold is None else self.threshold)


def promise(
    confidence: Float[np.ndarray, " queries"],
    wrong: Bool[np.ndarray, " queries"],
    alpha: float,
    delta: float = 0.1,
    *,
    event: str = "the first answer is not right",
    groups: Int[np.ndarray, " queries"] | None = None,
    grouping: Grouping = "effective",
    starts: int | None = None,
) -> Promise:
    """The laxest threshold whose answers are wrong at most `alpha` of the time.

    groups: which queries succeed and fail together. grouping: "effective" counts them for
    as many independent queries as they are worth, estimated and rounded towards caution
    (`effective_size`); "one" keeps a random query of each, which is exact and wasteful.
    starts: at how many thresholds the sequence of tests may begin, each with its share of
    delta; by default two where there are queries enough. One early mistake ends a sequence,
    and a second start gets over it.
    """
    check_shares(alpha=alpha, delta=delta)
    group = numbered(groups, len(confidence))
    if grouping == "one":
        chosen = one_of_each(group, seed=0)
        confidence, wrong, group = confidence[chosen], wrong[chosen], np.arange(len(chosen))
    order = np.argsort(-confidence, kind="stable")
    errors, size = effective_size(wrong[order], group[order], alpha)
    last = _last_of_equals(confidence[order])
    count = int(group.max(initial=-1)) + 1
    levels = _levels(size[last], alpha, delta, starts or _starts(count, alpha, delta))
    furthest = _furthest(_p_values(errors[last], size[last], alpha, delta), levels)
    place = -1 if furthest is None else int(last[furthest])
    return Promise(
        threshold=None if furthest is None else float(confidence[order[place]]),
        alpha=alpha,
        delta=delta,
        event=event,
        queries=len(order),
        groups=count,
        answered=place + 1,
        wrong=int(wrong[order[: place + 1]].sum()),
        reason="" if furthest is not None else _reason(size[-1:], levels, alpha, delta),
    )


def promise_on_average(
    confidence: Float[np.ndarray, " queries"],
    wrong: Bool[np.ndarray, " queries"],
    alpha: float,
    *,
    event: str = "the first answer is not right",
    groups: Int[np.ndarray, " queries"] | None = None,
) -> AveragePromise:
    """Conformal risk control: P(a query is answered, and wrongly) is at most `alpha`.

    The probability is over the calibration set too, and refers to all queries, not to those
    answered: a share of answers that are wrong is no monotone loss, which the method needs.
    The loss of a group is the mean over its members; a new query belongs to a new group.
    """
    check_shares(alpha=alpha)
    group = numbered(groups, len(confidence))
    members = np.bincount(group)
    order = np.argsort(-confidence, kind="stable")
    losses = np.cumsum((wrong / members[group])[order])
    last = _last_of_equals(confidence[order])
    allowed = last[losses[last] + 1 <= alpha * (len(members) + 1) + 1e-12]
    place = int(allowed.max(initial=-1))
    return AveragePromise(
        threshold=None if place < 0 else float(confidence[order[place]]),
        alpha=alpha,
        event=event,
        queries=len(order),
        groups=len(members),
        answered=place + 1,
        wrong=int(wrong[order[: place + 1]].sum()),
    )


def tail_probability(
    wrong: Float[np.ndarray, " n"], answered: Float[np.ndarray, " n"], alpha: float
) -> Float[np.ndarray, " n"]:
    """P(Binomial(answered, alpha) <= wrong), continued to sizes that are not whole.

    The p-value of "more than alpha of the answers are wrong".
    """
    right = answered - wrong
    some = right > 0
    return np.where(some, betainc(np.where(some, right, 1), wrong + 1, 1 - alpha), 1.0)


def _p_values(
    wrong: Float[np.ndarray, " n"],
    answered: Float[np.ndarray, " n"],
    alpha: float,
    delta: float,
) -> Float[np.ndarray, " n"]:
    """`tail_probability` where it may be as small as delta, and 1 elsewhere.

    With more errors than expected it is at least 1/e: that of a log-concave distribution (the
    beta, with parameters of 1 and more) below its mean. Those p-values need not be computed.
    """
    some = wrong <= alpha * answered
    if delta >= 1 / math.e:
        some[:] = True
    values = np.ones(len(wrong))
    values[some] = tail_probability(wrong[some], answered[some], alpha)
    return values


def fewest_answers(alpha: float, delta: float) -> int:
    """With fewer answers than this, all of them right, the test cannot pass.

    For the smallest alphas of floating point that is infinitely many: at most `UNREACHABLE`.
    """
    return math.ceil(min(math.log(delta) / math.log1p(-alpha), UNREACHABLE))


def effective_size(
    wrong: Bool[np.ndarray, " queries"], groups: Int[np.ndarray, " queries"], alpha: float
) -> tuple[Float[np.ndarray, " queries"], Float[np.ndarray, " queries"]]:
    r"""For the first 1, 2, … queries: errors and size, as if queries were independent.

    Both are divided by the design effect: how much larger the variance of group sums is
    than that of as many independent queries, about the rate alpha that is tested,

    $$ D = \frac{\sum_g X_g^2 + (m v)^2}{\sum_i x_i^2 + m v^2}, \quad X_g = \sum_{i \in g}
       x_i, \quad x_i = w_i - \alpha, \quad v = 1 - \alpha . $$

    | symbol | here                                                                    |
    |--------|-------------------------------------------------------------------------|
    | $w_i$  | `wrong`                                                                 |
    | $m$    | `largest`, the effect when all members are alike; D lies in [1, m]      |

    The second terms are one group more, of the usual size and all wrong. It keeps D near m
    until errors have been seen in several groups: few errors show little correlation.
    """
    deviation = wrong - alpha
    sums = running_sums(deviation, groups)
    members = running_sums(np.ones(len(groups)), groups)
    count = np.arange(1, len(groups) + 1)
    largest = np.cumsum(2 * members - 1) / count
    joint = np.cumsum(sums**2 - (sums - deviation) ** 2)
    one_more = (1 - alpha) ** 2 * largest
    effect = (joint + largest * one_more) / (np.cumsum(deviation**2) + one_more)
    effect = np.clip(effect, 1, largest)
    return np.cumsum(wrong) / effect, count / effect


def _last_of_equals(ordered: Float[np.ndarray, " queries"]) -> Int[np.ndarray, " thresholds"]:
    """A threshold answers all queries of equal confidence or none: where each run ends."""
    if np.isnan(ordered).any():
        raise ValueError("a confidence is not a number; give the least trusted -inf instead")
    changes = ordered[1:] != ordered[:-1]
    return np.flatnonzero(np.append(changes, [True] * (len(ordered) > 0)))


def _starts(groups: int, alpha: float, delta: float) -> int:
    return 2 if groups >= ROOM_FOR_TWO_STARTS * fewest_answers(alpha, delta) else 1


def _levels(
    size: Float[np.ndarray, " thresholds"], alpha: float, delta: float, starts: int
) -> Float[np.ndarray, " thresholds"]:
    """What each threshold is given of delta: equal parts at the starts, 0 elsewhere."""
    levels = np.zeros(len(size))
    first = fewest_answers(alpha, delta / starts)
    if size.max(initial=0) < first:
        return levels
    begin = first * (size.max() / first) ** (np.arange(starts) / starts)
    places = [int(np.argmax(size >= at)) for at in np.minimum(begin, size.max())]
    np.add.at(levels, places, delta / starts)
    return levels


def _furthest(
    chances: Float[np.ndarray, " thresholds"], levels: Float[np.ndarray, " thresholds"]
) -> int | None:
    """The last threshold that passes its test, strictest first.

    A test that passes hands what it was given of delta to the next; one that fails loses it.
    """
    level, furthest = 0.0, None
    tests = zip(chances.tolist(), levels.tolist(), strict=True)
    for place, (chance, given) in enumerate(tests):
        level += given
        if level > 0 and chance <= level:
            furthest = place
        else:
            level = 0.0
    return furthest


def _reason(
    size: Float[np.ndarray, " one"],
    levels: Float[np.ndarray, " thresholds"],
    alpha: float,
    delta: float,
) -> str:
    if levels.any():
        return (
            f"already of the most confident answers, too many are wrong to rule out more "
            f"than {alpha:.1%}"
        )
    return (
        f"{fewest_answers(alpha, delta)} independent queries are the fewest that can show "
        f"at most {alpha:.1%} wrong with confidence {1 - delta:.1%}, and there are "
        f"{math.floor(size.sum())}"
    )
