"""The most and the least trusted queries, with their first answers."""

from typing import Any

import numpy as np

from avow.assembly.pairs import FeaturedSplit
from avow.core.evidence import log_evidence, top_positions, uncertainty
from avow.trust.gallery_sampling import Query, ScoredQueries, collect_hits, predict
from avow.trust.probability import Probability

COUNT, SHOWN = 6, 5


def extremes(
    scored: ScoredQueries, probability: Probability, split: FeaturedSplit, query: Query
) -> dict[str, list[dict[str, Any]]]:
    """At most one query per image, so that five captions of one do not fill the page."""
    hits = collect_hits(scored)
    stated = predict(probability, hits.features, hits.gallery)
    opinion = scored.asked().together
    best = top_positions(opinion, min(SHOWN, opinion.shape[-1]))
    # u is of the view that learnt the direction, as in the papers and the other figures
    doubt = uncertainty(log_evidence(scored.similarity[scored.own], scored.tau, scored.kind))
    queries, answers = split.captions, split.image_ids
    if query == "image":
        queries, answers = answers, queries

    def example(place: int) -> dict[str, Any]:
        return {
            "query": queries[place],
            "trust": float(stated[place, 0]),
            "u": float(doubt[place]),
            "right": bool(hits.right[place, 0]),
            "answers": [
                {
                    "id": answers[candidate],
                    "probability": float(stated[place, rank]),
                    "similarity": float(opinion[place, candidate]),
                    "right": bool(hits.right[place, rank]),
                }
                for rank, candidate in enumerate(best[place])
            ],
        }

    order = np.argsort(-stated[:, 0], kind="stable")
    return {
        "most": [example(place) for place in _once(order, scored.groups)],
        "least": [example(place) for place in _once(order[::-1], scored.groups)],
    }


def _once(order: np.ndarray, groups: np.ndarray) -> list[int]:
    """The first few of an order, one of each group."""
    _, first = np.unique(groups[order], return_index=True)
    return [int(place) for place in order[np.sort(first)][:COUNT]]
