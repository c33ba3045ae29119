"""Does doubt tell queries of another domain, or without a match, from the usual ones?

    usual queries      --gallery--> measures --.
    foreign queries    --the same--> measures --+--> AUROC per measure: 1/2 is no idea
    unmatched queries  --the same--> measures --'

The gallery must be the same for both sides, because most measures depend on its size.

Paper: Hama et al., "Exploring Uncertainty Measures for Image-Caption Embedding-and-Retrieval
Task", arXiv 2019, section 4.5.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from avow.assembly.evaluate import score_views
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks
from avow.core.background import Background
from avow.core.contracts import QueryBatch
from avow.core.errors import BadData, BadFeatures
from avow.core.groups import halves
from avow.data.captions import TokenTable
from avow.metrics.rejection import auroc
from avow.trust.gallery_sampling import Query, ScoredQueries

NO_MATCH = "no match"

Measures = Mapping[str, Float[np.ndarray, " _"]]
"""Named measures of some queries; larger means less trust."""


def tell_apart(usual: Measures, others: Mapping[str, Measures]) -> dict[str, dict[str, float]]:
    """Per measure and other kind of queries: chance that those are doubted more.

    A measure that was not taken of some kind of queries is left out there.
    """
    for kind, measures in others.items():
        if not set(usual) & set(measures):
            raise BadData(
                f"The queries called {kind!r} have the measures {_listed(measures)} and the "
                f"usual ones {_listed(usual)}. Expected at least one that both have."
            )
    _refuse_broken({"usual": usual, **others})
    return {
        name: {
            kind: auroc(np.asarray(measures[name]), np.asarray(values))
            for kind, measures in others.items()
            if name in measures
        }
        for name, values in usual.items()
    }


def ask(
    model: Model,
    query: Query,
    split: FeaturedSplit,
    table: TokenTable,
    *,
    usual: Background | None = None,
    blocks: Blocks | None = None,
    progress: bool = False,
) -> QueryBatch:
    """Captions asked for images, or images for captions, of the same dataset or of two.

    With text queries the captions of `table` ask in the gallery of the images of `split`,
    with image queries the other way round. usual: the background of that gallery.
    """
    if split.dim != model.visual["dim"]:
        raise BadFeatures(
            f"The features of the split have {split.dim} numbers per part. Expected "
            f"{model.visual['dim']}, as the model was trained with; extract them with its "
            "backbone."
        )
    if table.size != model.tokeniser.size or table.mask != model.tokeniser.mask:
        raise BadData(
            f"The captions were numbered by a tokeniser of {table.size} numbers. Expected "
            f"the model's own, of {model.tokeniser.size}; make the table with "
            "`TokenTable.from_captions(model.tokeniser, captions)`."
        )
    scores = score_views(model.views, split, table, model.device, blocks, progress)
    stacked = np.stack([np.asarray(one) for one in scores])
    settings = model.evidence_settings
    if query == "text":
        own = min(1, len(scores) - 1)
        return QueryBatch(stacked.swapaxes(1, 2), own, settings["tau"], settings["kind"], usual)
    return QueryBatch(stacked, 0, settings["tau"], settings["kind"], usual)


def with_and_without(scored: ScoredQueries, seed: int = 0) -> tuple[QueryBatch, QueryBatch]:
    """Queries with their match and queries without any, in one gallery.

    Half of what belongs together is drawn; its candidates are the gallery. Its queries have
    their match there, all others have none. K is the same for both.
    """
    of_query, of_candidate = scored.belonging
    groups = np.unique(of_candidate)
    if len(groups) < 2:
        raise BadData(
            "All candidates belong together. Expected at least two that share no query, to "
            "leave one of them out."
        )
    gallery, _ = halves(of_candidate, seed)
    matched = np.isin(of_query, of_candidate[gallery])
    present, absent = np.flatnonzero(matched), np.flatnonzero(~matched)
    return scored.asked(present, gallery), scored.asked(absent, gallery)


def _refuse_broken(kinds: Mapping[str, Measures]) -> None:
    for kind, measures in kinds.items():
        for name, values in measures.items():
            if not len(values) or np.isnan(values).any():
                what = "holds NaN" if len(values) else "is of no query"
                raise BadData(
                    f"The measure {name!r} of the queries called {kind!r} {what}. Expected "
                    "a number for each of them; leave the measure out."
                )


def _listed(measures: Measures) -> str:
    return ", ".join(map(repr, measures)) or "none"
