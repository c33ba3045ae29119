"""Fit a policy on queries with known answers.

    fit_policy(similarity, matches)   "right": one kind of queries, any model's similarities
    fit_search_policy(queries)        "relevant": queries of several kinds, for a search

    queries --galleries of many sizes--> hits --halves--> Policy

One half of the queries fits the probabilities; the other half is held out, and every promise
rests on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.background import Background
from avow.core.errors import BadData
from avow.core.groups import halves
from avow.core.inputs import Scores, background_of, views_of
from avow.trust.calibration_queries import (
    SMALL,
    CalibrationQueries,
    evenly,
    labelled,
    nothing_for_some,
    sampled,
    share_without,
    thinned,
)
from avow.trust.coherence import TEN, fit_anything, log_odds
from avow.trust.counting import counting
from avow.trust.drawn_hits import DrawnHits
from avow.trust.gallery_sampling import (
    SIZES,
    Hits,
    collect_hits,
    draw_sizes,
    fit_hits,
    fit_present,
    most_probable,
    one_of,
    predict,
)
from avow.trust.held_out import HeldOut
from avow.trust.judgements import Conditions
from avow.trust.level import LEVEL
from avow.trust.policy import MAX_FALSE_REFUSALS, SHOWN, Policy
from avow.trust.probability import Probability, named, word_counts
from avow.trust.risk_control import Promise, promise

IN_SMALL = 0.08
"""Share of queries with something relevant that may be refused in small galleries."""
TAKEN = 0.4
"""Share of common things, taken away, in what is absent when names are judged. With .5 fewer
of them are answered, with .3 fewer of the rare names that nothing shows."""
GIVEN = "given probabilities"
"""What `Conditions.transferred` says where a user gave probabilities for matches."""
_FAR = 0.001


class FitOptions(TypedDict, total=False):
    """Options of `fit_policy` that are seldom changed."""

    event: str
    """What a hit is said to be: "right"; "relevant" where probabilities are given."""
    model: str
    """Fingerprint of the model; a policy refuses to judge another one."""
    gallery: str
    """Name of what was searched, for the record."""
    style: str
    """Kind of the queries, for the record: "caption"."""
    tau: float
    """Temperature of the evidence: 0.05."""
    max_false_refusals: float
    """Share of queries with a right answer that may get "nothing found": 0.05."""


@dataclass(frozen=True)
class _Fit:
    """The options with their defaults; a name that is none of them is a TypeError."""

    event: str = "right"
    model: str = ""
    gallery: str = ""
    style: str = "caption"
    tau: float = 0.05
    max_false_refusals: float = 0.05


def fit_policy(
    similarity: Scores,
    matches: Bool[np.ndarray, "queries candidates"]
    | Int[np.ndarray, " queries"]
    | Float[np.ndarray, "queries candidates"],
    *,
    bank: Scores | Background | None = None,
    risk: float = 0.1,
    delta: float = 0.1,
    among: int = 1,
    sizes: Sequence[int] = SIZES,
    seed: int = 0,
    **options: Unpack[FitOptions],
) -> Policy:
    """A policy for the similarities of any model, from queries with known matches.

    matches: a mask, the position of the right candidate of every query, or, where nobody knows
    them, the probabilities of another model that was calibrated: labels are drawn that are yes
    as often as they are probable, and the policy says so (`conditions.transferred`). Its
    promises are then as good as those probabilities. bank: similarities
    of reference queries (training captions, for example) to the same candidates; it improves
    the probabilities much. Half of the queries fits the probabilities, the other half the
    promise that at most `risk` of the answers are wrong, with confidence 1 - `delta`. An
    answer is wrong if none of its first `among` hits is right. Hits keep the order of their
    similarity. The other options are in `FitOptions`.

        >>> policy = avow.fit_policy(similarity, matches, risk=0.3, model="mine")
        >>> policy.judge(similarity[:2], model="mine").trust.shape
        (2,)
        >>> other = 0.9 * torch.eye(120) + 0.001  # probabilities that another model states
        >>> policy = avow.fit_policy(similarity, other.numpy(), risk=0.3)
        >>> policy.event, policy.conditions.transferred
        ('relevant', 'given probabilities')
    """
    soft = np.asarray(matches).dtype.kind == "f"
    chosen: dict[str, Any] = {"event": "relevant" if soft else "right", **options}
    how = _Fit(**chosen)
    event, tau = how.event, how.tau
    scored = labelled(views_of(similarity), matches, tau, background_of(bank, tau), seed)
    first, second = halves(scored.groups, seed, larger_first=True)
    learnt = scored.queries(first)
    fitted = draw_sizes(learnt, sizes, seed=seed)
    probability = fit_hits(event, fitted)
    present = fit_present(fitted, draw_sizes(learnt, sizes, seed=seed, keep=1, absent=True))
    held = collect_hits(scored, second, keep=max(among, SHOWN))
    stated = predict(probability, held.features, held.gallery)
    conditions = _conditions(fitted, how.model, how.gallery, how.style)
    return Policy(
        replace(conditions, transferred=GIVEN if soft else ""),
        probability,
        present,
        _constant_refusal(present, held, among, how.max_false_refusals),
        HeldOut(stated, held.right, held.groups),
        _answers(stated, held.right),
        *_range(fitted),
        _promise(stated, held, among, risk, delta, event),
        among,
        "similarity",
        tau,
    )


def _promise(
    stated: Float[np.ndarray, "queries shown"],
    held: Hits,
    among: int,
    risk: float,
    delta: float,
    event: str,
) -> Promise:
    wrong = f"none of {among} answers is {event}"
    return promise(
        one_of(stated[:, :among]),
        np.asarray(~held.right[:, :among].any(1)),
        risk,
        delta,
        event=f"the first answer is not {event}" if among == 1 else wrong,
        groups=held.groups,
    )


def fit_search_policy(
    askings: Sequence[CalibrationQueries],
    *,
    model: str = "",
    gallery: str = "",
    style: str = "",
    sizes: Sequence[int] = SIZES,
    max_false_refusals: float = MAX_FALSE_REFUSALS,
    other_shares: int = 0,
    seed: int = 0,
) -> Policy:
    """A policy from held-out queries of one or several kinds.

    One half of each kind's queries fits the probabilities; the other half states how far an
    answer holds, and every promise rests on it. Each kind counts the same however many
    queries it has. other_shares: galleries in which each name has another share.
    """
    drawn = DrawnHits.of(askings, sizes, other_shares, seed)
    probability = fit_hits("relevant", thinned(drawn.learnt))
    policy = Policy(
        _conditions(drawn.fitted, model, gallery, style),
        probability,
        fit_present(drawn.fitted, evenly(drawn.without), balanced=True),
        (0.0,) * 4,
        None,
        ((1.0, 0.0),) * SHOWN,
        *_range(drawn.fitted),
        tau=askings[0].scored.tau,
        kind=askings[0].scored.kind,
    )
    return _judging(policy, drawn, max_false_refusals)


def judge_again(
    policy: Policy,
    askings: Sequence[CalibrationQueries],
    *,
    sizes: Sequence[int] = SIZES,
    max_false_refusals: float = MAX_FALSE_REFUSALS,
    other_shares: int = 0,
    seed: int = 0,
) -> Policy:
    """The policy with what judges the first ten, numbers, refusals and promises fitted anew.

    What it states of hits stays. Queries that it was fitted with stand first in `askings`, in
    their order then, so that the same half is held out.
    """
    drawn = DrawnHits.of(askings, sizes, other_shares, seed)
    return _judging(policy, drawn, max_false_refusals)


def _judging(policy: Policy, drawn: DrawnHits, max_false_refusals: float) -> Policy:
    """The policy with what judges the first ten, numbers, refusals and promises."""
    learnt, of_names = drawn.learnt, _fit_named(policy.probability, drawn)
    if of_names is not None:
        learnt = _longer(learnt)
    level = drawn.level if of_names is not None and LEVEL in of_names.names else None
    anything = fit_anything(policy.probability, learnt)
    policy = replace(policy, anything=anything, anything_named=of_names, level=level)
    policy = counting(policy, drawn.halved, drawn.seed)
    nothing = evenly([*drawn.unseen, *drawn.common[1]])
    if of_names is None:
        checked = _joined(drawn.held, nothing, drawn.share)
    else:  # what names lack must not stand for what descriptions lack
        kinds = [(kind(drawn.held), kind(nothing)) for kind in (_named, _longer)]
        checked = Hits.join([nothing_for_some(*kind, drawn.share) for kind in kinds])
    return _checked(policy, checked, max_false_refusals)


def _joined(there: Hits, nothing: Hits, share: float) -> Hits:
    """With so many queries that nothing is relevant to."""
    return Hits.join([there, share_without(nothing, there, share)])


def _fit_named(probability: Probability, drawn: DrawnHits) -> Probability | None:
    """`anything` of names, where there are other queries, too; it is fitted without them then.

    Whether a name's best hits are of what it names shows in other numbers than whether one of
    a caption's is. Where common things were taken away, they are `TAKEN` of what is absent.
    """
    there, without = _named(drawn.fitted), _named(evenly(drawn.without))
    if not 0 < len(there.gallery) < len(drawn.fitted.gallery) or not len(without.gallery):
        return None
    if drawn.common[0]:
        common = _named(Hits.join(drawn.common[0]))
        most = min(len(common.gallery) / TAKEN, len(without.gallery) / (1 - TAKEN))
        parts = ((without, 1 - TAKEN), (common, TAKEN))
        without = Hits.join(
            [
                one.only(sampled(len(one.gallery), drawn.seed, int(share * most)))
                for one, share in parts
            ]
        )
    every = _joined(there, without, drawn.share)
    fits = most_probable(probability, every, TEN)[1].any(1)
    if fits.all() or not fits.any():  # a few names teach nothing of their own
        return None
    return fit_anything(probability, every, with_level=True)


def _named(hits: Hits) -> Hits:
    return hits.only(np.flatnonzero(named(hits.first, hits.names)))


def _longer(hits: Hits) -> Hits:
    return hits.only(np.flatnonzero(~named(hits.first, hits.names)))


def _checked(policy: Policy, everything: Hits, share: float) -> Policy:
    """The policy with its refusal threshold and the held-out answers of its promises."""
    stated, relevant = most_probable(policy.probability, everything, SHOWN)
    hits, anything, _ = policy.anything_of(
        everything.features, stated, everything.gallery, everything.level
    )
    matched = relevant.any(1)
    if not matched.any():
        raise BadData(
            "No held-out query has a relevant answer. Expected some; give more queries."
        )
    return replace(
        policy,
        refuse=_refuse(anything[matched], everything.only(np.flatnonzero(matched)), share),
        held=HeldOut(
            hits,
            relevant,
            everything.groups,
            anything,
            everything.gallery,
            word_counts(everything.first, everything.names),
        ),
        answer=_answers(hits, relevant),
    )


def _conditions(fitted: Hits, model: str, gallery: str, style: str) -> Conditions:
    smallest, largest = int(fitted.gallery.min()), int(fitted.gallery.max())
    return Conditions(model, gallery, style, smallest, largest)


def _range(fitted: Hits) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Lowest and highest value of every feature of a first hit, without extremes."""
    lowest, highest = (np.quantile(fitted.first, q, axis=0) for q in (_FAR, 1 - _FAR))
    return tuple(lowest.tolist()), tuple(highest.tolist())


def _constant_refusal(
    present: Probability, held: Hits, among: int, share: float
) -> tuple[float, ...]:
    """Refusal threshold: the `share` quantile over queries whose answer is right."""
    right = held.right[:, :among].any(1)
    there = present(held.first[right], held.gallery[right])
    lowest = np.quantile(there, [share]) if right.any() else np.zeros(1)
    return (float(log_odds(lowest)[0]), 0.0, 0.0, 0.0)


def _refuse(
    anything: Float[np.ndarray, " queries"], right: Hits, share: float
) -> tuple[float, ...]:
    """Refusal threshold on the log-odds: a line over log gallery size.

    In large galleries at most `share` of the names, which have the lowest log-odds, may be
    refused. Among some dozens of pictures most of what is asked for is absent, and everything
    can be looked at, so there `IN_SMALL` of all queries may be.
    """
    there, sizes = log_odds(anything), right.gallery
    words = word_counts(right.first, right.names)
    small, large = sizes <= SMALL, sizes > SMALL
    names = large & (words <= np.median(words[large])) if large.any() else large
    if not small.any() or not names.any():
        return (float(np.quantile(there, share)), 0.0, 0.0, 0.0)
    low = np.quantile(there[small], max(IN_SMALL, share))
    high = np.quantile(there[names], share)
    near, far = (np.log(sizes[some]).mean() - 5 for some in (small, names))
    slope = (high - low) / (far - near)
    return (float(low - slope * near), float(slope), 0.0, 0.0)


def _answers(
    stated: Float[np.ndarray, "queries shown"], relevant: Bool[np.ndarray, "queries shown"]
) -> tuple[tuple[float, float], ...]:
    """From the score of "one of those shown" to its probability, for 1, 2, … shown."""
    from sklearn.linear_model import LogisticRegression

    coefficients = []
    for shown in range(1, stated.shape[1] + 1):
        score = log_odds(one_of(stated[:, :shown]))[:, None]
        happened = relevant[:, :shown].any(1)
        if happened.all() or not happened.any():
            coefficients.append((1.0, 0.0))
            continue
        model = LogisticRegression(C=100.0).fit(score, happened)
        coefficients.append((float(model.coef_[0, 0]), float(model.intercept_[0])))
    return tuple(coefficients)
