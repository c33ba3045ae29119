"""What people ticked, good or not good, adjusts the model's policy from the first tick on.

    log-odds of a ticked hit, as the model's policy states them
        --slope * log-odds + offset + offset of its kind--> log-odds in this index

The slope begins at 1 and the offsets at 0, and they move as far as the ticks carry them: the
fewer ticks, the nearer they stay (a normal prior each). Names and phrases share an offset, and
each has a small one more, which is nearer to 0 still: where both kinds are ticked they may
differ, and where one is, the other learns from it. With `calibrate.FEWEST` labelled queries a
policy of the index's own takes over. `benchmarks/quality/ticks.py` says how many ticks help.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.logistic import expit
from avow.retrieval.forms import one_form
from avow.retrieval.labelled_queries import read_ticks
from avow.retrieval.question import only_text
from avow.retrieval.request import Page, Request
from avow.retrieval.search import Retriever
from avow.retrieval.understanding import understand
from avow.trust.coherence import log_odds
from avow.trust.policy import Policy
from avow.trust.probability import Line, is_name

PRIOR = np.array([1.0, 0.0, 0.0, 0.0])
SPREAD = np.array([0.3, 1.0, 0.5, 0.5])
"""Means and standard deviations of the prior: slope, offset, and those of names and phrases.
Other pictures and people change the level most."""
ALIKE = 0.3
"""How far ticks of one query say the same: n of them count as n / (1 + ALIKE * (n - 1))."""
LOWEST_SLOPE = 0.1
"""A slope of 0 or below would turn the order of the hits round."""
KNOWN_WELL = 0.05
"""Where P is known up to this, more ticks change little."""
_STEPS, _HALVINGS, _CLOSE = 50, 30, 1e-10
_FOLDS = 20


@dataclass(frozen=True)
class Ticks:
    """Hits that somebody judged, with what the model's policy states of them."""

    stated: Float[np.ndarray, " ticks"]
    good: Bool[np.ndarray, " ticks"]
    query: Int[np.ndarray, " ticks"]
    """A number per query."""
    words: Int[np.ndarray, " ticks"]
    """How many words the query of each has."""

    def __len__(self) -> int:
        return len(self.good)

    def only(self, chosen: Bool[np.ndarray, " ticks"]) -> "Ticks":
        return Ticks(
            self.stated[chosen], self.good[chosen], self.query[chosen], self.words[chosen]
        )

    @property
    def rows(self) -> Float[np.ndarray, "ticks 4"]:
        """What the numbers of a line are multiplied by."""
        name = is_name(self.words)
        columns = [log_odds(self.stated), np.ones(len(self)), name, ~name]
        return np.stack(columns, 1).astype(np.float64)

    @property
    def weight(self) -> Float[np.ndarray, " ticks"]:
        """How much each tick counts; ten hits of one query are less than ten queries."""
        _, which, count = np.unique(self.query, return_inverse=True, return_counts=True)
        return 1 / (1 + ALIKE * (count[which] - 1))


@dataclass(frozen=True)
class Adjustment:
    """What the ticks changed, and how much better it fits ticks it has not seen."""

    ticks: int
    agree: int
    """Ticks that say what was more likely than not."""
    line: Line
    before: float
    """Mean squared error of the stated probabilities over the ticks."""
    after: float
    """The same where each query is stated by the ticks of the others."""
    change: float
    """The mean probability of the ticked hits after, over that before."""
    known_to: float
    """The standard deviation that is left in their mean probability."""
    more: int
    """Ticks that would bring it down to `KNOWN_WELL`; 0 where it is there."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> str:
        """ "Of your 14 ticks, 11 agree with what was stated; P is now lower by a quarter." """
        return f"{self.changed()} {self.outlook()} {self.tried()}"

    def changed(self) -> str:
        """What was ticked, and what it did."""
        agree = f"Of your {self.ticks} ticks, {self.agree or 'none'} {_verb(self.agree)}"
        if self.ticks == 1:
            agree = "Your tick " + ("agrees" if self.agree else "does not agree")
        return f"{agree} with what was stated; P is now {_moved(self.change)}."

    def outlook(self) -> str:
        """How well P is known now, and how many ticks more would help."""
        points = f"± {100 * self.known_to:.0f} points"
        if not self.more:
            return f"It is known to about {points} here; more ticks would change little."
        return (
            f"It is known to about {points} here; about {_round(self.more)} more ticks would "
            f"make that ± {100 * KNOWN_WELL:.0f}."
        )

    def tried(self) -> str:
        """Whether it is better, on ticks that were kept back."""
        better = "better" if self.after < self.before else "no better yet"
        return (
            f"On ticks that were kept back it is {better} (mean squared error "
            f"{self.before:.3f} before, {self.after:.3f} after)."
        )


def adjusted(retriever: Retriever, policy: Policy) -> tuple[Policy, Adjustment] | None:
    """The policy as the ticks of this index change it; None where nothing was ticked.

    policy: as the model brings it. What ticks changed before is not in it. Ticks of a query
    that was not understood say nothing of the pictures.
    """
    by_query = read_ticks(retriever.library)
    encoder = retriever.encoder
    if by_query and encoder.english:
        by_query = {
            text: hits
            for text, hits in by_query.items()
            if understand(text, encoder.vocabulary).understood
        }
    if not by_query or policy.tail is None:
        return None
    ticks = _stated(retriever, policy, by_query)
    fitted = adjustment(ticks)
    return replace(policy, line=fitted.line), fitted


def _stated(
    retriever: Retriever, policy: Policy, by_query: dict[str, dict[int, bool]]
) -> Ticks:
    stated, good, query, words = [], [], [], []
    for number, (text, hits) in enumerate(sorted(by_query.items())):
        items = np.array(sorted(hits), np.int64)
        question = only_text(text, one_form(text) if retriever.encoder.english else text)
        vector = question.vector(retriever.encoder)
        request = Request({}, "text", vector, "image", Page(1), asked=question.asked)
        stated.append(retriever.probability(policy, request, items))
        good += [hits[item] for item in items.tolist()]
        query += [number] * len(items)
        words += request.words.tolist() * len(items)
    return Ticks(np.concatenate(stated), np.array(good), np.array(query), np.array(words))


def adjustment(ticks: Ticks) -> Adjustment:
    """The line of some ticks, and what it brings."""
    line, covariance = fit_line(ticks)
    now = line(ticks.stated, ticks.words)
    left = known_to(ticks, line, covariance)
    return Adjustment(
        len(ticks),
        int(((ticks.stated > 0.5) == ticks.good).sum()),
        line,
        float(np.square(ticks.stated - ticks.good).mean()),
        float(np.square(crossed(ticks) - ticks.good).mean()),
        float(now.mean() / max(ticks.stated.mean(), 1e-9)),
        left,
        _more(len(ticks), known_to(ticks, line, np.diag(SPREAD**2)), left),
    )


def known_to(ticks: Ticks, line: Line, covariance: Float[np.ndarray, "4 4"]) -> float:
    """The standard deviation of the mean probability of ticked hits."""
    now = line(ticks.stated, ticks.words)
    slopes = ((now * (1 - now))[:, None] * ticks.rows).mean(0)  # by each number of the line
    return float(np.sqrt(slopes @ covariance @ slopes))


def crossed(ticks: Ticks) -> Float[np.ndarray, " ticks"]:
    """Every tick stated by a line that its own query had no part in."""
    stated = np.empty(len(ticks))
    fold = np.unique(ticks.query, return_inverse=True)[1] % _FOLDS
    for number in np.unique(fold):
        own = fold == number
        line, _ = fit_line(ticks.only(~own))
        stated[own] = line(ticks.stated[own], ticks.words[own])
    return stated


def fit_line(ticks: Ticks) -> tuple[Line, Float[np.ndarray, "4 4"]]:
    """The line with the largest posterior, and the covariance of its four numbers."""
    numbers, covariance = _largest_posterior(ticks, PRIOR, SPREAD**-2.0)
    if numbers[0] < LOWEST_SLOPE:  # as good as fixed there
        prior, sure = PRIOR.copy(), SPREAD**-2.0
        prior[0], sure[0] = LOWEST_SLOPE, 1e12
        numbers, covariance = _largest_posterior(ticks, prior, sure)
    return Line(*numbers.tolist()), covariance


def _largest_posterior(
    ticks: Ticks, prior: Float[np.ndarray, " 4"], sure: Float[np.ndarray, " 4"]
) -> tuple[Float[np.ndarray, " 4"], Float[np.ndarray, "4 4"]]:
    """Newton's method. sure: of each number of the prior, one over its variance."""
    rows, weight = ticks.rows, ticks.weight

    def loss(numbers: Float[np.ndarray, " 4"]) -> float:
        odds = rows @ numbers
        wrong = np.logaddexp(0, odds) - ticks.good * odds
        return float(weight @ wrong + sure @ np.square(numbers - prior) / 2)

    def curve(numbers: Float[np.ndarray, " 4"]) -> Float[np.ndarray, "4 4"]:
        p = expit(rows @ numbers)
        return (rows * (weight * p * (1 - p))[:, None]).T @ rows + np.diag(sure)

    numbers = prior.copy()
    for _ in range(_STEPS):
        p = expit(rows @ numbers)
        climb = rows.T @ (weight * (ticks.good - p)) - sure * (numbers - prior)
        step = np.linalg.solve(curve(numbers), climb)
        # far from the optimum the curve is flat and a whole step would leap over it
        for _ in range(_HALVINGS):
            if loss(numbers + step) <= loss(numbers):
                break
            step = step / 2
        numbers = numbers + step
        if np.abs(step).max() < _CLOSE:
            break
    return numbers, np.linalg.inv(curve(numbers))


def _more(ticks: int, before: float, now: float) -> int:
    """Ticks that are missing, if each adds as much precision as those so far did.

    before, now: standard deviations of P without any tick, and with these.
    """
    per_tick = (now**-2 - before**-2) / ticks
    missing = KNOWN_WELL**-2 - now**-2
    if round(now, 2) <= KNOWN_WELL:  # said in whole points, it would be no better
        return 0
    return int(min(np.ceil(missing / max(per_tick, 1e-9)), 1e6))


def _verb(count: int) -> str:
    return "agrees" if count <= 1 else "agree"


_PARTS = {
    0.1: "a tenth", 0.2: "a fifth", 0.25: "a quarter", 1 / 3: "a third", 0.5: "a half",
    2 / 3: "two thirds", 0.75: "three quarters", 0.9: "nine tenths",
}  # fmt: skip


def _moved(change: float) -> str:
    """ "lower by a quarter" for .74."""
    if abs(change - 1) < 0.05:
        return "about as it was"
    if change >= 1.9:
        return f"{change:.0f} times as high"
    part = min(_PARTS, key=lambda part: abs(part - abs(change - 1)))
    return f"{'lower' if change < 1 else 'higher'} by about {_PARTS[part]}"


def _round(count: int) -> str:
    """One significant figure of a count: the estimate is no more precise."""
    digit = 10 ** (len(str(count)) - 1)
    return f"{-(-count // digit) * digit:,}"
