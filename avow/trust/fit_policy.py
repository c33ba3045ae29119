"""Fit a policy: from queries with known answers to probabilities, refusals and promises.

    queries of several kinds --galleries of many sizes--> hits --halves--> Policy

One half of each kind's queries is learnt from, the other states how far an answer holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.core.errors import BadData
from avow.trust.galleries import (
    SIZES,
    Hits,
    Scored,
    draw_sizes,
    fit_hits,
    fit_present,
    one_of,
    see,
    state,
)
from avow.trust.judge import Conditions
from avow.trust.policy import SHOWN, Held, Policy, described, kind_of, log_odds
from avow.trust.probability import Probability
from avow.trust.sight import SHOWN as CANDIDATES

REFUSED_IN_VAIN = 0.1
"""Share of right first answers that may be withheld as "nothing found"."""
NOTHING_THERE = 0.25
"""Share of queries with nothing to find that the probability of a hit is fitted for."""
LEARNT, HELD = 2000, 4000
"""Queries of each kind that are learnt from, and of all kinds kept to check with."""
_FAR = 0.001


@dataclass(frozen=True)
class Asking:
    """Queries of one kind over one gallery, with what is known to be relevant.

    Where nothing is relevant to any of them, they teach what to refuse and nothing else.
    """

    style: str
    scored: Scored
    words: Int[np.ndarray, " queries"]
    """How many words each query has; 0 for a photograph."""


def fit_policy(
    askings: Sequence[Asking],
    *,
    model: str = "",
    gallery: str = "",
    style: str = "",
    sizes: Sequence[int] = SIZES,
    refused_in_vain: float = REFUSED_IN_VAIN,
    seed: int = 0,
) -> Policy:
    """A policy from held-out queries of one or several kinds.

    One half of each kind's queries fits the probabilities; the other half states how far an
    answer holds, and every promise rests on it. Each kind counts the same however many
    queries it has.
    """
    first, second, empty = [], [], []
    for number, asking in enumerate(askings):
        one, other = _halves(asking, seed + number)
        if asking.scored.match.any():
            first.append(_see(one, sizes, seed, 2 * number))
            second.append(_see(other, sizes, seed, 2 * number + 1, keep=CANDIDATES))
        empty.append(_see(one, sizes, seed, 2 * number, absent=True))
    if not second:
        raise BadData("No query has a relevant item. Expected some; give right answers.")
    fitted, held, nothing = _even(first), _even(second, HELD // len(second)), _even(empty)
    probability = fit_hits("relevant", Hits.join([fitted, _share(nothing, fitted)]))
    present = fit_present(fitted, nothing, balanced=True)
    stated, relevant = _shown(probability, held)
    right = held.right[:, 0]
    if not right.any():
        raise BadData(
            "No held-out query has a relevant first answer. Expected some; give more queries."
        )
    largest, smallest = int(fitted.gallery.max()), int(fitted.gallery.min())
    return Policy(
        Conditions(model, gallery, style, smallest, largest),
        probability,
        present,
        _refuse(present, held.only(np.flatnonzero(right)), refused_in_vain),
        Held(stated, relevant, held.groups),
        _answers(stated, relevant),
        tuple(np.quantile(fitted.first, _FAR, axis=0).tolist()),
        tuple(np.quantile(fitted.first, 1 - _FAR, axis=0).tolist()),
    )


def _halves(asking: Asking, seed: int) -> tuple[Asking, Asking]:
    """Queries at random in two halves; what belongs to one picture alone stays together."""
    keys = _together(asking.scored.groups)
    unique = np.unique(keys)
    chosen = np.random.default_rng(seed).permutation(unique)[: (len(unique) + 1) // 2]
    inside = np.isin(keys, chosen)
    return _some(asking, np.flatnonzero(inside)), _some(asking, np.flatnonzero(~inside))


def _together(groups: Int[np.ndarray, " queries"]) -> Int[np.ndarray, " queries"]:
    """Which queries succeed and fail together: the captions of one picture.

    Names and phrases share pictures all over the gallery, which ties everything to
    everything; each of them is then a question of its own.
    """
    largest = np.unique(groups, return_counts=True)[1].max()
    return np.arange(len(groups)) if largest > max(20, len(groups) / 50) else groups


def _some(asking: Asking, queries: Int[np.ndarray, " some"]) -> Asking:
    return Asking(asking.style, asking.scored.queries(queries), asking.words[queries])


def _shown(
    probability: Probability, hits: Hits
) -> tuple[Float[np.ndarray, "queries shown"], Bool[np.ndarray, "queries shown"]]:
    """The hits that would be shown, most probable first, and which of them are relevant."""
    stated = state(probability, hits.features, hits.gallery)
    order = np.argsort(-stated, axis=1, kind="stable")[:, :SHOWN]
    right = np.take_along_axis(hits.right, order, axis=1)
    return np.take_along_axis(stated, order, axis=1), right


def _see(
    asking: Asking,
    sizes: Sequence[int],
    seed: int,
    offset: int,
    absent: bool = False,
    keep: int = SHOWN,
) -> Hits:
    """Hits in galleries of many sizes; `absent`: with everything relevant taken away."""
    scored = asking.scored
    if scored.match.any():
        hits = draw_sizes(scored, sizes, seed=seed, keep=keep, absent=absent)
    else:
        hits = _anywhere(scored, sizes, seed)
    words = asking.words[hits.queries]
    # groups of different kinds must not be taken for the same
    groups = _together(scored.groups)[hits.queries].astype(np.int64) + offset * 10_000_000
    features = described(hits.features, words)
    return Hits(_names(hits.names), features, hits.right, hits.gallery, groups, hits.queries)


def _anywhere(scored: Scored, sizes: Sequence[int], seed: int) -> Hits:
    """Hits of queries that nothing is relevant to, each in one gallery of every size."""
    queries, candidates = scored.match.shape
    rng = np.random.default_rng(seed)
    parts = []
    for size in [*(size for size in sizes if size < 0.8 * candidates), candidates]:
        galleries = np.array_split(rng.permutation(candidates), max(1, candidates // size))
        where = rng.integers(len(galleries), size=queries)
        parts += [
            see(scored, np.flatnonzero(where == number), np.sort(gallery), keep=SHOWN)
            for number, gallery in enumerate(galleries)
            if (where == number).any()
        ]
    return Hits.join(parts)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return (*names, "log words", *(f"{name} x log words" for name in names))


def _share(nothing: Hits, fitted: Hits) -> Hits:
    """As many queries without a match as make up their share of all."""
    wanted = round(len(fitted.gallery) * NOTHING_THERE / (1 - NOTHING_THERE))
    kept = np.random.default_rng(0).permutation(len(nothing.gallery))[:wanted]
    return nothing.only(np.sort(kept))


def _even(parts: Sequence[Hits], most: int = LEARNT) -> Hits:
    """The same number of queries of every kind, as far as there are so many."""
    rng = np.random.default_rng(0)
    chosen = []
    for part in parts:
        kept = rng.permutation(len(part.gallery))[:most]
        chosen.append(part.only(np.sort(kept)))
    return Hits.join(chosen)


def _refuse(present: Probability, right: Hits, share: float) -> tuple[float, ...]:
    """The line below which `share` of the right first answers lie, whatever the gallery's
    size and however long the query: what would be withheld in vain.

    A name and a caption, twenty pictures and ten thousand leave different traces, so one
    number for all of them would refuse most of one kind and nothing of another.
    """
    from sklearn.linear_model import QuantileRegressor  # slow to import; a search needs none

    there = log_odds(present(right.first, right.gallery))
    words = np.expm1(right.first[:, right.names.index("log words")]).round()
    # a small penalty: where all queries are alike, nothing is read into their kind
    line = QuantileRegressor(quantile=share, alpha=0.002)
    line.fit(kind_of(right.gallery, words)[:, 1:], there)
    return (float(line.intercept_), *line.coef_.tolist())


def _answers(
    stated: Float[np.ndarray, "queries shown"], relevant: Bool[np.ndarray, "queries shown"]
) -> tuple[tuple[float, float], ...]:
    """From the score of "one of those shown" to its probability, for 1, 2, … shown."""
    from sklearn.linear_model import LogisticRegression

    found = []
    for shown in range(1, stated.shape[1] + 1):
        score = log_odds(one_of(stated[:, :shown]))[:, None]
        happened = relevant[:, :shown].any(1)
        if happened.all() or not happened.any():
            found.append((1.0, 0.0))
            continue
        model = LogisticRegression(C=100.0).fit(score, happened)
        found.append((float(model.coef_[0, 0]), float(model.intercept_[0])))
    return tuple(found)
