"""Rank by relative evidence: a candidate's score less what it usually gets.

    s(q, c) - strength * tau * log mean over b of exp(s(b, c) / tau)

Hubs stand first for many queries and are seldom right. A bank of reference queries shows who
they are: training captions for images, training photographs for texts. No label of the bank
and nothing of the judged split is used, but the bank has to be scored with every candidate
once, so this is another protocol than plain retrieval, and is always named beside its
figures. The strength is chosen on another split, per direction; 0 is the plain ranking, and 1
ranks as the inverted softmax does.

Paper: Smith et al., "Offline bilingual word vectors, orthogonal transformations and the
inverted softmax", ICLR 2017.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from avow.assembly.evaluate import Evaluation, Row, evaluate
from avow.assembly.evaluate_runs import EvaluationPlan, open_splits
from avow.assembly.scored_split import encode_split, score
from avow.core.errors import BadData
from avow.metrics.recall import CUTS, Ranks, bootstrap, match_ranks, summarise
from avow.trust.gallery_sampling import Query, ScoredQueries

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
QUERIES: tuple[Query, ...] = ("image", "text")


def relative_scores(
    scored: ScoredQueries, strength: float
) -> Float[np.ndarray, "queries candidates"]:
    """The averaged scores, each less `strength` times what its candidate usually gets."""
    if scored.background is None:
        raise BadData(
            "There is no bank of reference queries to rank with. Expected scores with a "
            "background; score them with a bank."
        )
    usual = (scored.tau * scored.background.log_mean).mean(0)
    return scored.averaged - strength * usual


def choose_strength(scored: ScoredQueries, strengths: Sequence[float] = STRENGTHS) -> float:
    """The strength with the largest sum of recalls; the weakest of equals."""

    def recalls(strength: float) -> float:
        own_ranks = match_ranks(relative_scores(scored, strength), scored.match)
        return float(sum((own_ranks <= cut).mean() for cut in CUTS))

    return max(sorted(strengths), key=recalls)


def rerank(judged: Mapping[Query, ScoredQueries], strengths: Mapping[Any, float]) -> Ranks:
    """The ranks of both directions under relative evidence."""
    image, text = (
        match_ranks(relative_scores(judged[query], strengths[query]), judged[query].match)
        for query in QUERIES
    )
    return Ranks(image, text)


def judge_reranked(
    run: Path, plan: EvaluationPlan, *, bank: str = "train", chosen_on: str = "dev"
) -> Evaluation:
    """A trained run on a split, plainly and by relative evidence, one row more.

    bank: split of the run's own dataset whose queries tell what is usual. chosen_on: split
    the strength is chosen on; that of the run's own dataset too.
    """
    model, blocks, progress = plan.open_model(run), plan.blocks, plan.progress
    _, own = open_splits(model, "", None if plan.data else plan.features, [bank, chosen_on])
    dataset, judged = open_splits(model, plan.data, plan.features, [plan.split])
    asking = encode_split(model, own[bank], blocks, progress)
    before, after = (
        score(model, encode_split(model, one, blocks, progress), asking, blocks, progress)
        for one in (own[chosen_on], judged[plan.split])
    )
    strengths = {query: choose_strength(before[query]) for query in QUERIES}
    about = plan.about(model, run, dataset) | {
        "rerank": {
            "by": "relative evidence",
            "bank": f"{len(own[bank].captions)} texts and {len(own[bank].image_ids)} images "
            f"of {bank}, without their labels",
            "strength": strengths,
            "strength_chosen_on": chosen_on,
        },
    }
    image_of = judged[plan.split].image_of
    plain = evaluate(list(after["image"].similarity), image_of, draws=plan.draws, about=about)
    reranked = rerank(after, strengths)
    intervals = bootstrap(reranked, image_of, plan.draws) if plan.draws else {}
    row = Row("relative evidence", summarise(reranked), intervals)
    return Evaluation((*plain.rows, row), plain.about)
