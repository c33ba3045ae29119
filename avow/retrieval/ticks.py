"""What people ticked, good or not good, adjusts the model's policy from the first tick on.

    log-odds of a ticked hit, as the model's policy states them
        --slope * log-odds + offset--> log-odds in this index

Both numbers begin at 1 and 0 and move as far as the ticks carry them: the fewer ticks, the
nearer they stay (a normal prior each). With `calibrate.FEWEST` known queries a policy of the
index's own takes over.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from avow.core.logistic import expit
from avow.retrieval.forms import one_form
from avow.retrieval.labelled_queries import read_ticks, reads_english
from avow.retrieval.question import only_text
from avow.retrieval.request import Request
from avow.retrieval.search import Retriever
from avow.trust.coherence import log_odds
from avow.trust.policy import Policy

SLOPE_SPREAD, OFFSET_SPREAD = 0.3, 1.0
"""Standard deviations of the prior: other pictures and people change the level most."""
_STEPS = 25


@dataclass(frozen=True)
class Adjustment:
    """What the ticks changed, and how much better it fits ticks it has not seen."""

    ticks: int
    agree: int
    """Ticks that say what was more likely than not."""
    slope: float
    offset: float
    before: float
    """Mean squared error of the stated probabilities over the ticks."""
    after: float
    """The same where each query is stated by the ticks of the others."""
    change: float
    """The mean probability of the ticked hits after, over that before."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> str:
        """ "Of your 14 ticks, 11 agree; P is now lower by 25 %." """
        by = f"{abs(100 * (self.change - 1)):.0f} %"
        moved = f"{'lower' if self.change < 1 else 'higher'} by {by}"
        if by == "0 %":
            moved = "as it was"
        better = "better" if self.after < self.before else "no better yet"
        return (
            f"Of your {self.ticks} ticks, {self.agree} agree with what was stated; P is now "
            f"{moved}. On ticks that were kept back it is {better} (mean squared error "
            f"{self.before:.3f} before, {self.after:.3f} after)."
        )


def adjusted(retriever: Retriever, policy: Policy) -> tuple[Policy, Adjustment] | None:
    """The policy as the ticks of this index change it; None where nothing was ticked."""
    ticks = read_ticks(retriever.library)
    if not ticks or policy.tail is None:
        return None
    stated, good, groups = [], [], []
    for number, (text, said) in enumerate(sorted(ticks.items())):
        items = np.array(sorted(said), np.int64)
        question = only_text(text, one_form(text) if reads_english(retriever.encoder) else text)
        vector = question.vector(retriever.encoder)
        request = Request({}, "text", vector, "image", 1, asked=question.asked)
        stated.append(retriever.probability(policy, request, items))
        good += [said[item] for item in items.tolist()]
        groups += [number] * len(items)
    return _adjust(policy, np.concatenate(stated), np.array(good), np.array(groups))


def _adjust(
    policy: Policy,
    stated: Float[np.ndarray, " ticks"],
    good: Bool[np.ndarray, " ticks"],
    groups: np.ndarray,
) -> tuple[Policy, Adjustment]:
    odds = log_odds(stated)
    slope, offset = fit_line(odds, good)
    crossed = np.empty(len(odds))
    for group in np.unique(groups):
        one = groups == group
        line = fit_line(odds[~one], good[~one])
        crossed[one] = expit(line[0] * odds[one] + line[1])
    now = expit(slope * odds + offset)
    found = Adjustment(
        len(good),
        int(((stated > 0.5) == good).sum()),
        slope,
        offset,
        float(np.square(stated - good).mean()),
        float(np.square(crossed - good).mean()),
        float(now.mean() / stated.mean()),
    )
    tail = None if policy.tail is None else policy.tail.adjusted(slope, offset)
    return replace(
        policy, probability=policy.probability.adjusted(slope, offset), tail=tail
    ), found


def fit_line(
    odds: Float[np.ndarray, " ticks"], good: Bool[np.ndarray, " ticks"]
) -> tuple[float, float]:
    """Slope and offset with the largest posterior, by Newton's method."""
    rows = np.stack([odds, np.ones(len(odds))], 1)
    prior = np.array([1.0, 0.0])
    weight = np.array([SLOPE_SPREAD, OFFSET_SPREAD]) ** -2.0
    line = prior.copy()
    for _ in range(_STEPS):
        p = expit(rows @ line)
        slope = rows.T @ (good - p) - weight * (line - prior)
        curve = (rows * (p * (1 - p))[:, None]).T @ rows + np.diag(weight)
        line = line + np.linalg.solve(curve, slope)
    return float(line[0]), float(line[1])
