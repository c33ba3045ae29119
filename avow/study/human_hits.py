"""Does the probability of a hit come true where people have judged it?

    text queries of another split --fit--> P(relevant), P(right), similarity alone
    judged pairs among the hits shown --stated, called by people--> errors and AUROC

Nothing is fitted on judgements. People were not shown hits at random: annotated matches and
early ranks are more common among the judged pairs. So a judged hit stands for all hits of
its rank that are, or are not, annotated, and counts as many times; within such a class the
judged ones are taken to be like the others.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.data.judgements import JudgedPairs
from avow.study.human_agreement import LENIENT, STRICT
from avow.study.measures import redraw, weighted_auroc
from avow.study.relevance import RELEVANT, similarity_alone
from avow.trust.gallery_sampling import KEEP, ScoredQueries, collect_hits, draw_sizes, fit_hits
from avow.trust.top_k import summarise

BINS = 5  # judged hits are few

Stated = dict[str, Float[np.ndarray, " hits"]]
Weights = Float[np.ndarray, "draws hits"]


def people_study(
    fitted: Mapping[str, ScoredQueries],
    judged: ScoredQueries,
    pairs: JudgedPairs,
    *,
    shown: int = KEEP,
    draws: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Stated probabilities of judged hits beside what people said of them.

    fitted: by event ("relevant", "right"), text queries of another split with what counts as
    it. judged: the split the pairs are of. Only pairs that a search would show count.
    """
    place, text, chosen = _shown_pairs(judged, pairs, shown)
    hits = collect_hits(judged, keep=shown)
    features, gallery = hits.features[text, place], hits.gallery[text]
    stated: Stated = {}
    for event, one in fitted.items():
        probability = fit_hits(event, draw_sizes(one, seed=seed, keep=shown))
        stated[f"P({event})"] = probability(features, gallery)
    stated["similarity alone"] = similarity_alone(
        collect_hits(fitted[RELEVANT], keep=shown), features
    )
    weight = stands_for(hits.right, place, pairs.own[chosen])
    redrawn = redraw(pairs.image[chosen], draws, seed) * weight
    return {
        "shown": shown,
        "pairs": len(chosen),
        "annotated": int(pairs.own[chosen].sum()),
        "strict": _with_people(stated, pairs.called(STRICT)[chosen], weight, redrawn),
        "lenient": _with_people(stated, pairs.called(LENIENT)[chosen], weight, redrawn),
    }


def stands_for(
    right: Bool[np.ndarray, "queries shown"],
    place: Int[np.ndarray, " hits"],
    own: Bool[np.ndarray, " hits"],
) -> Float[np.ndarray, " hits"]:
    """How many hits of all queries each judged one counts for."""
    weight = np.zeros(len(place))
    for rank in range(right.shape[1]):
        for annotated in (False, True):
            alike = (place == rank) & (own == annotated)
            if alike.any():
                weight[alike] = (right[:, rank] == annotated).sum() / alike.sum()
    return weight


def weighted_errors(
    stated: Float[np.ndarray, " hits"],
    happened: Bool[np.ndarray, " hits"],
    weight: Weights,
    bins: int = BINS,
) -> Float[np.ndarray, " draws"]:
    """Expected calibration error of every draw, in bins of about equal weight."""
    order = np.argsort(stated, kind="stable")
    heavy = weight[:, order].astype(np.float64)
    total = heavy.sum(1, keepdims=True)
    middle = (np.cumsum(heavy, 1) - heavy / 2) / total
    bin_of = np.minimum((middle * bins).astype(int), bins - 1)
    gap = heavy * (stated[order] - happened[order])
    sums = np.stack([(gap * (bin_of == one)).sum(1) for one in range(bins)])
    return np.abs(sums).sum(0) / total[:, 0]


def _shown_pairs(
    judged: ScoredQueries, pairs: JudgedPairs, shown: int
) -> tuple[Int[np.ndarray, " hits"], Int[np.ndarray, " hits"], Int[np.ndarray, " hits"]]:
    """Of judged pairs that are shown: the place of the image, the caption, the pair."""
    asked, which = np.unique(pairs.text, return_inverse=True)
    _, order = summarise(judged.asked(asked), shown=shown)
    inside = order[which] == pairs.image[:, None]
    chosen = np.flatnonzero(inside.any(1))
    return inside[chosen].argmax(1), pairs.text[chosen], chosen


def _with_people(
    stated: Stated,
    called: Bool[np.ndarray, " hits"],
    weight: Float[np.ndarray, " hits"],
    redrawn: Weights,
) -> dict[str, Any]:
    """Each figure with its interval over redrawn photographs."""
    called_share = np.average(called, weights=weight)
    shares = (redrawn * called).sum(1) / redrawn.sum(1)
    rows = {
        name: {
            "stated": float(np.average(values, weights=weight)),
            "ece": _figure(weighted_errors, values, called, weight, redrawn),
            "auroc": _figure(weighted_auroc, values, called, weight, redrawn),
        }
        for name, values in stated.items()
    }
    return {
        "called": [float(called_share), *_ends(shares)],
        "count": int(called.sum()),
        "measures": rows,
    }


def _figure(
    measure: Any,
    values: Float[np.ndarray, " hits"],
    called: Bool[np.ndarray, " hits"],
    weight: Float[np.ndarray, " hits"],
    redrawn: Weights,
) -> list[float]:
    """A figure, and the ends of its interval."""
    (middle,) = measure(values, called, weight[None])
    return [float(middle), *_ends(measure(values, called, redrawn))]


def _ends(drawn: Float[np.ndarray, " draws"]) -> list[float]:
    return np.nanquantile(drawn, (0.025, 0.975)).tolist()
