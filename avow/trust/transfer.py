"""A policy for a model without labels: another model's probabilities teach it.

    teacher's policy --whole_probabilities--> P(fits) of every query and item, and rho
    P, rho --drawn_labels--> labels that are yes as often as they are probable
    labels, the stranger's similarities --fit_search_policy--> its policy

The teacher is a model with a calibrated policy (the default model), the stranger any other one
over the same items. Labels are drawn instead of averaged, so the stranger's policy is fitted
and held to its promises as any other; rho keeps the dependence between the hits of a query
that `trust.coherence` speaks of.

The stranger knows things that the teacher does not, so a fit to the teacher alone states too
little where the stranger is the better of the two. Its own scores correct the labels, as in
co-training: if both judged independently of each other, given the truth,

    logit q = logit t + logit g(s) - logit prior

with t the teacher's and g the stranger's probability. Both err together to a degree, so the
last two terms are multiplied by `DAMPING`, which was chosen on dev photographs.

Paper: Blum, Mitchell, "Combining Labeled and Unlabeled Data with Co-Training", COLT 1998.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from avow.core.logistic import expit
from avow.trust.calibration_queries import DRAWS, CalibrationQueries, drawn_labels
from avow.trust.coherence import each_behind, log_odds
from avow.trust.counting import behind
from avow.trust.fitting import fit_search_policy
from avow.trust.policy import Policy
from avow.trust.top_k import summarise

DAMPING = 0.1
"""How much of the stranger's own word counts: 0 is the teacher alone, 1 full independence."""
MAX_FALSE_REFUSALS = 0.05
"""Of queries with a drawn match, how many may be refused: some of these matches are doubts of
the teacher, about things that are not there."""
SHORT = 4
"""Words of a query that still is a name or a phrase; longer ones are captions."""
FEWEST = 20
"""Queries that make a kind of their own."""
_AT_ONCE = 250

Fits = Float[np.ndarray, "queries items"]
Shares = Float[np.ndarray, " queries"]


def whole_probabilities(policy: Policy, asking: CalibrationQueries) -> tuple[Fits, Shares]:
    """P(fits) of every query and item, the hits' and those behind them; rho of each query."""
    parts = []
    for start in range(0, len(asking.words), _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, len(asking.words)))
        parts.append(_whole(policy, asking.only(rows)))
    return np.concatenate([one for one, _ in parts]), np.concatenate([rho for _, rho in parts])


def _whole(policy: Policy, asking: CalibrationQueries) -> tuple[Fits, Shares]:
    summary, order = summarise(asking.scored.asked())
    reading = policy.read(summary, asking.words, asking.common, asking.vectors)
    best_first = np.argsort(-reading.stated, axis=1, kind="stable")
    ranked = np.take_along_axis(order, best_first, axis=1)
    assert reading.agreed is not None
    hits, _, rho = reading.agreed
    queries, items = len(asking.words), asking.scored.match.shape[1]
    fits = np.zeros((queries, items))
    if policy.tail is not None and hits.shape[1] < items:
        others = behind(asking.scored, order)
        fits = each_behind(hits, others, policy.tail, reading.words, reading.above)
    np.put_along_axis(fits, ranked, hits, axis=1)
    return fits, rho


def corrected(teacher: Fits, own: Fits, damping: float = DAMPING) -> Fits:
    """The teacher's probabilities, moved by those of the stranger."""
    prior = log_odds(own.mean(keepdims=True))
    return expit(log_odds(teacher) + damping * (log_odds(own) - prior))


def transferred(
    queries: CalibrationQueries,
    teacher: Fits,
    rho: Shares,
    *,
    source: str = "",
    model: str = "",
    gallery: str = "",
    damping: float = DAMPING,
    seed: int = 0,
) -> Policy:
    """A policy for the stranger's similarities in `queries`; their own labels are not read.

    teacher, rho: what `whole_probabilities` gives for the same queries and items. source: the
    name of the teacher, which `Conditions.transferred` keeps. Raises BadData where hardly
    anything fits any of the queries.
    """
    fits = teacher
    if damping:
        first = fit_search_policy(drawn_kinds(queries, teacher, rho, seed, draws=1), seed=seed)
        own, _ = whole_probabilities(first, queries)
        fits = corrected(teacher, own, damping)
    policy = fit_search_policy(
        drawn_kinds(queries, fits, rho, seed),
        model=model,
        gallery=gallery,
        max_false_refusals=MAX_FALSE_REFUSALS,
        seed=seed,
    )
    return replace(policy, conditions=replace(policy.conditions, transferred=source))


def drawn_kinds(
    queries: CalibrationQueries, fits: Fits, rho: Shares, seed: int, draws: int = DRAWS
) -> list[CalibrationQueries]:
    """Names and captions with drawn labels; those that nothing fits are kinds of their own."""
    match = np.concatenate([drawn_labels(fits, rho, seed + draw) for draw in range(draws)])
    row = np.tile(np.arange(len(fits)), draws)
    short, there = queries.words[row] <= SHORT, np.asarray(match.any(1))
    kinds = []
    for kind in (short & there, ~short & there, short & ~there, ~short & ~there):
        chosen = np.flatnonzero(kind)
        if len(np.unique(row[chosen])) >= FEWEST:
            part = queries.only(row[chosen])
            scored = replace(part.scored, match=match[chosen], same=row[chosen])
            kinds.append(replace(part, scored=scored))
    return kinds
