"""The whole ladder for one run: measures, their judgement, calibration, promises, limits.

    dev split  --fit-->  probability of every hit         (and Platt curves of each measure)
    test split --judge--> a dictionary that the report and `--json` both show

Nothing is fitted on the test split except the thresholds of promises, and those on one half
of it at a time, counted on the other.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from avow import uncertainty
from avow.core import folder
from avow.core.contracts import QueryBatch
from avow.core.evidence import logsumexp
from avow.metrics.recall import match_ranks
from avow.metrics.rejection import auroc
from avow.study.guarantees import SPLITS, kept_promises, kept_sets
from avow.study.measures import (
    calibration,
    coverage,
    curves,
    judge,
    lead_over,
    platt,
    redraw,
    right_at,
)
from avow.trust.gallery_sampling import (
    SIZES,
    Hits,
    ScoredQueries,
    collect_hits,
    draw,
    draw_sizes,
    fit_hits,
    fit_present,
    fit_serving,
    one_of,
    predict,
)
from avow.trust.probability import Probability
from avow.trust.top_k import describe, summarise
from avow.uncertainty.scores import fit_temperature

OURS = "calibrated trust"
PRESENT = "probability of a match"
BASELINES = (
    "evidential: u",
    "scores: largest",
    "scores: probability",
    "two_way: both ways",
    "two_way: inverted softmax",
)
"""Single measures that promises, refusals and calibration are compared with."""
ALPHAS_FIRST, ALPHAS_TEN, ALPHAS_SETS = (0.2, 0.4), (0.1, 0.2), (0.1, 0.2)
DELTA = 0.1
KEPT_RIGHT = 0.95
DEPTH = 400

Doubts = dict[str, Float[np.ndarray, " queries"]]


@dataclass(frozen=True)
class Direction:
    """One direction of a run: what its probability was fitted on, and what is judged."""

    fitted: ScoredQueries
    judged: ScoredQueries


def ranks_of(scored: ScoredQueries) -> Int[np.ndarray, " queries"]:
    """Rank of the best match of every query; ties count against it."""
    return match_ranks(scored.averaged, scored.match)


def doubts_of(asked: QueryBatch, temperature: float) -> Doubts:
    """Every measure that needs nothing but what `asked` holds.

    temperature: of the plain softmax; each other probe keeps its own.
    """
    doubts: Doubts = {}
    for name in folder.names(uncertainty):
        settings = {"temperature": temperature} if name == "scores" else {}
        probe = folder.build(uncertainty, name, **settings)
        if all(getattr(asked, need) is not None for need in probe.needs):
            doubts |= {
                f"{name}: {key}": value.cpu().numpy().astype(np.float64)
                for key, value in probe.measure(asked).items()
            }
    return doubts


def study_direction(
    direction: Direction,
    *,
    extra: Mapping[str, Float[np.ndarray, " queries"]] | None = None,
    splits: int = SPLITS,
    draws: int = 500,
    seed: int = 0,
) -> tuple[dict[str, Any], Probability]:
    """The study of one direction, and the probability it was made with.

    extra: further measures of the judged queries (MC-dropout, several runs); NaN for a
    query that was not asked, which is then left out wherever the measure is judged.
    """
    fitted, judged = direction.fitted, direction.judged
    fitted_hits = draw_sizes(fitted, seed=seed)
    probability = fit_hits("right", fitted_hits)
    present = fit_present(fitted_hits, draw_sizes(fitted, seed=seed, keep=1, absent=True))
    averaged = torch.from_numpy(fitted.similarity.mean(0))
    temperature = fit_temperature(averaged, torch.from_numpy(fitted.match))
    hits, ranks = collect_hits(judged), ranks_of(judged)
    stated = predict(probability, hits.features, hits.gallery)
    before = doubts_of(fitted.asked(), temperature)
    doubts = doubts_of(judged.asked(), temperature) | dict(extra or {})
    confidence = {OURS: stated[:, 0], **{name: -value for name, value in doubts.items()}}
    right, groups = right_at(ranks), judged.groups
    redrawn = redraw(groups, draws, seed)
    shown = {OURS: confidence[OURS]} | {
        name: confidence[name] for name in BASELINES if name in confidence
    }
    results = {
        "queries": len(ranks),
        "candidates": judged.match.shape[1],
        "temperature": temperature,
        "strength": probability.strength,
        "recall": _recall(ranks),
        **_measured(confidence, ranks, right, redrawn),
        "calibration": calibration(stated[:, 0], right, groups, draws)
        | {"baselines": _baselines(fitted, before, doubts, right, draws)},
        "guarantee": _guarantees(shown, stated, right, hits, splits, seed),
        "sets": study_sets(judged, serving_of(fitted, probability), temperature, splits, seed),
        "absent": _absent(judged, probability, present, shown, right, temperature),
        "sizes": [
            _at_size(judged, probability, size, draws, seed)
            for size in SIZES
            if size < 0.8 * judged.match.shape[1]
        ]
        + [_row(judged, hits, stated[:, 0], draws)],
    }
    return results, probability


def _measured(
    confidence: Doubts,
    ranks: Int[np.ndarray, " queries"],
    right: Bool[np.ndarray, " queries"],
    redrawn: Float[np.ndarray, "draws queries"],
) -> dict[str, Any]:
    """Every measure by itself, and against ours."""
    asked = {name: _asked(values) for name, values in confidence.items()}
    return {
        "measures": {
            name: _judged(values, ranks, redrawn) for name, values in confidence.items()
        },
        "chance": _recall(ranks),
        "ahead": {
            name: _ahead(confidence[OURS], values, right, redrawn)
            for name, values in confidence.items()
            if name != OURS
        },
        "curves": {
            name: curves(values[asked[name]], ranks[asked[name]])
            for name, values in confidence.items()
        },
        "coverage": {
            name: coverage(values[asked[name]], right[asked[name]])
            for name, values in confidence.items()
        },
    }


def _asked(values: Float[np.ndarray, " queries"]) -> Bool[np.ndarray, " queries"]:
    return ~np.isnan(values)


def _judged(
    values: Float[np.ndarray, " queries"],
    ranks: Int[np.ndarray, " queries"],
    redrawn: Float[np.ndarray, "draws queries"],
) -> dict[str, Any]:
    asked = _asked(values)
    results = judge(values[asked], ranks[asked], redrawn[:, asked])
    return results if asked.all() else {**results, "queries": int(asked.sum())}


def _ahead(
    ours: Float[np.ndarray, " queries"],
    values: Float[np.ndarray, " queries"],
    right: Bool[np.ndarray, " queries"],
    redrawn: Float[np.ndarray, "draws queries"],
) -> dict[str, float]:
    asked = _asked(values)
    return lead_over(ours[asked], values[asked], right[asked], redrawn[:, asked])


def _recall(ranks: Int[np.ndarray, " queries"]) -> dict[str, float]:
    shares = {f"r{cut}": 100 * float((ranks <= cut).mean()) for cut in (1, 5, 10)}
    return shares | {"median_rank": float(np.median(ranks))}


def _baselines(
    fitted: ScoredQueries,
    before: Doubts,
    doubts: Doubts,
    right: Bool[np.ndarray, " queries"],
    draws: int,
) -> dict[str, Any]:
    """Single measures as probabilities, each by its own logistic curve."""
    fitted_right = right_at(ranks_of(fitted))
    return {
        name: calibration(platt(-before[name], fitted_right, -doubts[name]), right, draws=draws)
        for name in BASELINES
        if name in before
    }


def _guarantees(
    confidence: Doubts,
    stated: Float[np.ndarray, "queries shown"],
    right: Bool[np.ndarray, " queries"],
    hits: Hits,
    splits: int,
    seed: int,
) -> dict[str, Any]:
    none = ~hits.right.any(1)
    among = confidence | {OURS: one_of(stated)}
    cases = [
        ("first answer", ALPHAS_FIRST, confidence, np.logical_not(right)),
        ("one of ten", ALPHAS_TEN, among, np.asarray(none)),
    ]
    return {
        event: [
            {"alpha": alpha, "delta": DELTA}
            | _ours(kept_promises(values, wrong, hits.groups, alpha, DELTA, splits, seed))
            for alpha in alphas
        ]
        for event, alphas, values, wrong in cases
    }


def _ours(by_name: dict[str, dict[str, float]]) -> dict[str, Any]:
    return {**by_name.pop(OURS), "baselines": by_name}


def serving_of(fitted: ScoredQueries, probability: Probability | None = None) -> Probability:
    """What lists are cut by: that a hit serves its query.

    probability: of a right hit. Where every query has one match it is the same event.
    """
    several = bool((fitted.match.sum(1) > 1).any())
    return fit_serving(fitted) if several or probability is None else probability


def study_sets(
    judged: ScoredQueries, serving: Probability, temperature: float, splits: int, seed: int = 0
) -> list[dict[str, Any]]:
    """How long lists are that hold a right candidate as often as promised, per measure."""
    summary, order = summarise(judged.asked(), shown=DEPTH)
    features = describe(summary)
    right = np.take_along_axis(judged.match, order, axis=1)
    score = summary.scores.mean(0)
    total = logsumexp(judged.similarity.mean(0) / temperature)[:, None]
    soft = np.exp(score / temperature - total)
    values = {
        OURS: ("probability", predict(serving, features, summary.gallery)),
        "rank": ("rank", score),
        "softmax": ("probability", soft),
        "softmax, cumulative": ("cumulative", soft),
    }
    if "relative softmax 1" in summary.names:
        place = summary.names.index("relative softmax 1")
        values["inverted softmax"] = ("probability", np.exp(features[:, :, place]))
    out = []
    for alpha in ALPHAS_SETS:
        by_name = kept_sets(values, right, judged.groups, alpha, splits, seed)
        out.append({"alpha": alpha, **_ours(by_name)})
    return out


def _absent(
    judged: ScoredQueries,
    probability: Probability,
    present: Probability,
    confidence: Doubts,
    right: Bool[np.ndarray, " queries"],
    temperature: float,
) -> dict[str, Any]:
    """Every query once more, without its matches: is it separated from right answers?"""
    empty = collect_hits(judged, absent=True)
    hidden = np.where(judged.match, np.float32(-np.inf), judged.similarity)
    asked = QueryBatch(hidden, judged.own, judged.tau, judged.kind, judged.background)
    without = {
        OURS: predict(probability, empty.features, empty.gallery)[:, 0],
        PRESENT: present(empty.first, empty.gallery),
    }
    there = collect_hits(judged, keep=1)
    confidence = confidence | {PRESENT: present(there.first, there.gallery)}
    without |= {name: -value for name, value in doubts_of(asked, temperature).items()}
    refused, aurocs = {}, {}
    for name, values in confidence.items():
        limit = np.quantile(values[right], 1 - KEPT_RIGHT)
        refused[name] = float((without[name] < limit).mean())
        aurocs[name] = auroc(values[right], without[name])
    return {"kept": KEPT_RIGHT, "refused": refused, "auroc": aurocs}


def _at_size(
    judged: ScoredQueries, probability: Probability, size: int, draws: int, seed: int
) -> dict[str, Any]:
    hits = draw(judged, size, seed=seed)
    assert hits is not None
    stated = predict(probability, hits.features, hits.gallery)[:, 0]
    return _row(judged, hits, stated, draws)


def _row(
    judged: ScoredQueries, hits: Hits, stated: Float[np.ndarray, " queries"], draws: int
) -> dict[str, Any]:
    right = hits.right[:, 0]
    checked = calibration(stated, right, draws=draws)
    size = float(hits.gallery.mean())
    # u = K / (K + sum of evidence), and the softmax column holds s/tau - log of that sum
    place, score = hits.names.index("softmax"), hits.names.index("score")
    log_sum = hits.first[:, score] / judged.tau - hits.first[:, place]
    mean_u = float(np.mean(1 / (1 + np.exp(log_sum) / hits.gallery)))
    return {
        "candidates": round(size),
        "queries": len(right),
        "r1": 100 * float(right.mean()),
        "auroc": auroc(stated[right], stated[~right]),
        "mean_u": mean_u,
        "mean_trust": float(stated.mean()),
        **{key: checked[key] for key in ("ece", "floor", "debiased")},
    }


def about(**facts: Any) -> dict[str, Any]:
    """Who, what and when, beside the figures."""
    return {**facts, "date": datetime.date.today().isoformat()}
