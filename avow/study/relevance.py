"""The probability that a hit is relevant: fitted per style of query, and judged.

    query sets + images --score--> Scored per style --one half fits, the other is judged-->
    a row per style, and a `Policy` with the event "relevant" to search with

Queries of one style are split at random; each half is stated by a fit on the other. A fit of
one style is off for another, so every style has its own. Beside it stands the similarity
alone, made a probability by a logistic curve that was fitted on the same half.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import Model
from avow.assembly.scores import Blocks, compare
from avow.core.background import Background
from avow.core.contracts import Encoded
from avow.core.errors import BadData
from avow.core.groups import halves
from avow.data.captions import TokenTable
from avow.metrics.rejection import auroc
from avow.study.measures import calibration, platt
from avow.study.short_queries import QuerySet
from avow.trust.fitting import fit_policy
from avow.trust.gallery_sampling import (
    Hits,
    ScoredQueries,
    collect_hits,
    draw_sizes,
    fit_hits,
    predict,
)
from avow.trust.policy import Policy

RELEVANT = "relevant"


def score_queries(
    model: Model,
    queries: QuerySet,
    images: Sequence[Encoded],
    usual: Background | None,
    blocks: Blocks,
) -> ScoredQueries:
    """The queries of one style against images that every view has encoded."""
    table = TokenTable.from_captions(model.tokeniser, queries.queries)
    settings = model.evidence_settings
    parts = []
    for view, items in zip(model.views, images, strict=True):
        texts = encode_captions(view, table, model.device, blocks.encode)
        parts.append(compare(view, items, texts, model.device, blocks, len(model.views)).T)
    own = min(1, len(parts) - 1)
    similarity = np.stack(parts)
    return ScoredQueries(
        similarity, queries.match, own, settings["tau"], settings["kind"], usual
    )


def relevance_study(
    scored: Mapping[str, ScoredQueries], *, model: str = "", seed: int = 0, draws: int = 200
) -> tuple[dict[str, Any], dict[str, Policy]]:
    """A row and a fitted policy per style. model: the fingerprint that the policies keep.

    A style with too few queries to learn from has a sentence instead of both.
    """
    rows: dict[str, Any] = {}
    policies: dict[str, Policy] = {}
    for style, one in scored.items():
        try:
            row = judge_style(one, seed=seed, draws=draws)
            policies[style] = fit_policy(
                one.similarity,
                one.match,
                bank=one.background,
                event=RELEVANT,
                model=model,
                style=style,
                tau=one.tau,
                seed=seed,
            )
            rows[style] = row
        except BadData as error:
            rows[style] = {"queries": len(one.match), "left_out": str(error)}
    return rows, policies


def judge_style(scored: ScoredQueries, *, seed: int = 0, draws: int = 200) -> dict[str, Any]:
    """Each half of the queries stated by a fit on the other; hits of a query go together."""
    split = halves(scored.groups, seed)
    ours, alone, relevant, query = [], [], [], []
    for before, after in (split, split[::-1]):
        fitted_hits, hits = collect_hits(scored, before), collect_hits(scored, after)
        probability = fit_hits(RELEVANT, draw_sizes(scored.queries(before)))
        ours.append(predict(probability, hits.features, hits.gallery).reshape(-1))
        flat = hits.features.reshape(-1, len(hits.names))
        alone.append(similarity_alone(fitted_hits, flat))
        relevant.append(hits.right.reshape(-1))
        query.append(np.repeat(scored.groups[after], hits.right.shape[1]))
    right, groups = np.concatenate(relevant), np.concatenate(query)
    return {
        "queries": len(scored.match),
        "images": scored.match.shape[1],
        "hits": len(right),
        "relevant": float(right.mean()),
        **_row(np.concatenate(ours), right, groups, draws),
        "similarity": _row(np.concatenate(alone), right, groups, draws),
    }


def _row(
    stated: Float[np.ndarray, " hits"],
    right: Bool[np.ndarray, " hits"],
    groups: Int[np.ndarray, " hits"],
    draws: int,
) -> dict[str, Any]:
    return {
        **calibration(stated, right, groups, draws=draws),
        "auroc": auroc(stated[right], stated[~right]),
        "stated": float(stated.mean()),
    }


def similarity_alone(
    fitted_hits: Hits, features: Float[np.ndarray, "hits features"]
) -> Float[np.ndarray, " hits"]:
    """The score by itself as a probability, its curve fitted on `fitted_hits`."""
    place = fitted_hits.names.index("score")
    return platt(
        fitted_hits.features[:, :, place].reshape(-1).astype(np.float64),
        fitted_hits.right.reshape(-1),
        features[:, place].astype(np.float64),
    )
