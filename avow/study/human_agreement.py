"""Does trust agree with people? Measures of judged pairs beside what experts said of them.

    judged pair (photograph, caption) --similarity, belief, calibrated trust--> numbers
    numbers, three scores per pair    --tau-c, AUROC, bootstrap over photographs--> study

The annotated match is not all that is right: a caption may be true of many photographs.
Experts who looked at other pairs say which. Two rules turn their scores into "right":
strictly, more than half of them gave 4 (describes the image without any errors); leniently,
more than half gave at least 3 (minor errors). Nothing here is fitted.

Paper: Hodosh, Young, Hockenmaier, "Framing Image Description as a Ranking Task", JAIR 2013.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from avow.core.contracts import QueryBatch
from avow.core.opinion import Opinion
from avow.data.judgements import JudgedPairs
from avow.metrics.agreement import DRAWS, Interval, auroc_interval, tau_c_interval
from avow.trust.gallery_sampling import Query, ScoredQueries
from avow.trust.probability import Probability
from avow.trust.top_k import describe_one

STRICT, LENIENT = 4, 3
TRUST = "calibrated trust"
_AT_ONCE = 512

Measures = dict[str, Float[np.ndarray, " pairs"]]
"""Larger means that the pair fits better."""


def human_study(
    scored: Mapping[Query, ScoredQueries],
    judged: JudgedPairs,
    probability: Mapping[Query, Probability] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Any]:
    """How far each measure of a judged pair agrees with the people who judged it.

    scored: the split the pairs are of, per direction. probability: per direction, fitted on
    other queries, and on more than the first answers, since most pairs are none. `foreign`
    leaves out the pairs whose caption was written for the very photograph, as published
    comparisons do.
    """
    measures = pair_measures(scored, judged, probability or {})
    study = {
        "pairs": len(judged),
        "queries": len(np.unique(judged.text)),
        "images": len(np.unique(judged.image)),
        "rule": {"strict": "most gave 4", "lenient": "most gave 3 or 4"},
        **_agreement(judged, measures, ~np.zeros(len(judged), bool), draws, seed),
        "foreign": _agreement(judged, measures, ~judged.own, draws, seed),
    }
    for query, one in scored.items():
        name = "wrong_but_fitting" if query == "text" else "wrong_but_fitting_image"
        first = is_first(one, query, judged)
        of_query = _answer_measures(one, query, judged, measures)
        study[name] = wrong_but_fitting(judged, first, of_query, draws=draws, seed=seed)
    return study


def pair_measures(
    scored: Mapping[Query, ScoredQueries],
    judged: JudgedPairs,
    probability: Mapping[Query, Probability],
) -> Measures:
    """Similarity of every judged pair and, per direction, its belief and its trust.

    The photograph is one candidate of the caption's query (and the other way round), seen
    among the whole gallery wherever it ranks.
    """
    measures: Measures = {}
    for query, asked_of in scored.items():
        named = probability.get(query)
        parts = [
            _measure(asked, chosen, named) for asked, chosen in _asked(asked_of, query, judged)
        ]
        for key in parts[0]:
            name = key if key == "similarity" else f"{key}, {query} query"
            measures[name] = np.concatenate([part[key] for part in parts]).astype(np.float64)
    return measures


def is_first(
    scored: ScoredQueries, query: Query, judged: JudgedPairs
) -> Bool[np.ndarray, " pairs"]:
    """Whether the pair's candidate is the first answer to its query."""
    first = [
        asked.together.argmax(-1) == chosen for asked, chosen in _asked(scored, query, judged)
    ]
    return np.concatenate(first)


def wrong_but_fitting(
    judged: JudgedPairs,
    first: Bool[np.ndarray, " pairs"],
    measures: Measures,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Any]:
    """Of first answers that the annotation calls wrong: is one people call right doubted less?

    first: which pairs are a query and its first answer. The study is of the calibrated
    trust where it is among the measures, else of the first; the others stand beside it.
    """
    wrong = first & ~judged.own
    main = TRUST if TRUST in measures else next(iter(measures))
    strict = _fitting(judged, wrong, measures, main, STRICT, draws, seed)
    return {**strict, "lenient": _fitting(judged, wrong, measures, main, LENIENT, draws, seed)}


def _fitting(
    judged: JudgedPairs,
    wrong: Bool[np.ndarray, " pairs"],
    measures: Measures,
    main: str,
    at_least: int,
    draws: int,
    seed: int,
) -> dict[str, Any]:
    called, groups = judged.called(at_least)[wrong], judged.image[wrong]
    trust = measures[main][wrong]
    aurocs = {
        name: _plain(auroc_interval(values[wrong], called, groups, draws, seed))
        for name, values in measures.items()
        if called.any() and not called.all()
    }
    return {
        "measure": main,
        "trust when people call it right": float(trust[called].mean())
        if called.any()
        else None,
        "when they call it wrong": float(trust[~called].mean()) if (~called).any() else None,
        "auroc": aurocs.get(main),
        "n": [int(called.sum()), int((~called).sum())],
        "baselines": {name: value for name, value in aurocs.items() if name != main},
    }


def _agreement(
    judged: JudgedPairs,
    measures: Measures,
    chosen: Bool[np.ndarray, " pairs"],
    draws: int,
    seed: int,
) -> dict[str, Any]:
    scores, groups = judged.scores[chosen], judged.image[chosen]
    strict, lenient = judged.called(STRICT)[chosen], judged.called(LENIENT)[chosen]

    def every(statistic: Any, truth: np.ndarray) -> dict[str, list[float | None]]:
        return {
            name: _plain(statistic(values[chosen], truth, groups, draws, seed))
            for name, values in measures.items()
        }

    return {
        "pairs": int(chosen.sum()),
        "called_right": {"strict": int(strict.sum()), "lenient": int(lenient.sum())},
        "kendall_tau_c": every(tau_c_interval, scores),
        "auroc": every(auroc_interval, strict),
        "auroc_lenient": every(auroc_interval, lenient),
    }


def _answer_measures(
    scored: ScoredQueries, query: Query, judged: JudgedPairs, measures: Measures
) -> Measures:
    """The pair measures of one direction under plain names, and how certain its queries are."""
    ending = f", {query} query"
    named = {
        name.removesuffix(ending): values
        for name, values in measures.items()
        if name == "similarity" or name.endswith(ending)
    }
    certain = [
        1 - _opinion(asked, asked.similarity[asked.own]).uncertainty.numpy()
        for asked, _ in _asked(scored, query, judged)
    ]
    return {**named, "1 - u": np.concatenate(certain).astype(np.float64)}


def _asked(
    scored: ScoredQueries, query: Query, judged: JudgedPairs
) -> Iterator[tuple[QueryBatch, Int[np.ndarray, " some"]]]:
    """Every judged pair as a query and the candidate it is judged with, some at a time."""
    rows, chosen = judged.text, judged.image
    if query == "image":
        rows, chosen = chosen, rows
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield scored.asked(rows[part]), chosen[part]


def _measure(
    asked: QueryBatch, chosen: Int[np.ndarray, " some"], probability: Probability | None
) -> dict[str, Float[np.ndarray, " some"]]:
    rows, together = np.arange(len(chosen)), asked.together
    measures = {
        "similarity": together[rows, chosen],
        "belief": _opinion(asked, together).belief.numpy()[rows, chosen],
    }
    if probability is not None:
        features = describe_one(asked, chosen)
        measures[TRUST] = probability(features, together.shape[1])
    return measures


def _opinion(asked: QueryBatch, similarity: Float[np.ndarray, "some candidates"]) -> Opinion:
    return Opinion.from_similarity(torch.from_numpy(similarity), asked.tau, asked.kind)


def _plain(interval: Interval) -> list[float | None]:
    """Numbers as JSON has them: one that cannot be had is null."""
    return [None if math.isnan(value) else value for value in interval]
