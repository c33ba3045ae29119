"""Does doubt rise when the input gets worse? Words and regions hidden on purpose.

    split, ratio --hide regions, change words--> both sides, encoded once per view
    (words | regions | both) x ratio --> u, trust and R@1 of every query, both directions

The draws are the same at every ratio: what is hidden at 0.3 is hidden at 0.6 too, and every
view sees the same corrupted input. "words" changes the captions and "regions" the images,
whichever side asks: text queries have worse queries under "words" and a worse gallery under
"regions". "both" is the protocol of the papers.

Words are masked, replaced or deleted, or swapped as in TcVSE; regions are dropped or set to
1e-8, as the recipe changed them in training.

Papers: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025, Fig. 5;
"Trust-consistent Visual Semantic Embedding for Image-Text Matching", 2022, Fig. 3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from tqdm import tqdm

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.core.background import Background
from avow.core.contracts import Encoded, QueryBatch, Regions
from avow.core.errors import BadData
from avow.core.evidence import log_evidence, uncertainty
from avow.core.seeds import generator
from avow.data.captions import TokenTable
from avow.data.corruption import (
    USUAL,
    compact_regions,
    corrupt_captions,
    drop_regions,
    mask_regions,
)
from avow.metrics.recall import Ranks, ranks
from avow.trust.gallery_sampling import Query

Kind = Literal["words", "regions", "both"]
Confidence = Callable[[QueryBatch], Float[np.ndarray, " queries"]]
"""Trust in the first answer of each query; it may see some of the queries at a time."""
BackgroundOf = Callable[[Query, Sequence[Encoded]], Background]
"""What is usual for the candidates of text (or image) queries, one `Encoded` per view."""

KINDS: tuple[Kind, ...] = get_args(Kind)
RATIOS = (0.0, 0.3, 0.6)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 50
_QUERIES_AT_ONCE = 512


@dataclass(frozen=True)
class Worsened:
    """Both sides of a split at one ratio, encoded by every view."""

    images: list[Encoded]
    texts: list[Encoded]
    usual: dict[Query, Background]
    """What is usual for the candidates of each kind of query, worsened as they are."""


@dataclass(frozen=True)
class _Observed:
    """What one corruption did to every query, per direction."""

    u: dict[Query, Float[np.ndarray, " queries"]]
    averaged: dict[Query, Float[np.ndarray, " queries"]]
    trust: dict[Query, Float[np.ndarray, " queries"]]
    ranks: Ranks
    smaller: dict[Query, dict[int, Float[np.ndarray, " queries"]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Stating:
    """How trust in the answers of worsened queries is stated."""

    confidence: Mapping[Query, Confidence] = field(default_factory=dict)
    usual: BackgroundOf | None = None
    """Gives `confidence` the background of the candidates it is asked about."""
    words: Sequence[str] = USUAL
    """What happens to words: mask, replace, delete, swap."""
    galleries: Sequence[int] = ()
    """Numbers of candidates K among which u is stated too: a match and others, drawn."""


def corruption_study(
    model: Model,
    split: FeaturedSplit,
    table: TokenTable,
    *,
    stating: Stating | None = None,
    ratios: Sequence[float] = RATIOS,
    seed: int = 0,
    blocks: Blocks | None = None,
    progress: bool = False,
) -> dict[Query, dict[str, Any]]:
    """u, trust and R@1 at every ratio, per direction and kind of corruption.

    Gives per direction `kinds` (one entry per ratio, in the order of `ratios`) and `rises`:
    whether the mean of u rises strictly from each ratio to the next larger one.
    """
    _check(split, table, ratios)
    blocks, stating = blocks or Blocks(), stating or Stating()
    observe = partial(_observe, model, split.image_of, stating, blocks)
    encode_at = partial(_worsened, model, split, table, stating, seed, blocks)
    observed: dict[Kind, list[_Observed]] = {kind: [] for kind in KINDS}
    whole = encode_at(0.0)
    for ratio in tqdm(ratios, "corruption", disable=not progress, leave=False, delay=2):
        # only whole and one worsened form are held at a time
        worse = encode_at(ratio) if ratio > 0 else whole
        observed["both"].append(observe(worse, worse))
        observed["words"].append(observe(whole, worse) if ratio > 0 else observed["both"][-1])
        observed["regions"].append(observe(worse, whole) if ratio > 0 else observed["both"][-1])
    return {query: _study(query, observed, ratios) for query in get_args(Query)}


def summary(values: Float[np.ndarray, " queries"]) -> dict[str, Any]:
    """Quantiles, histogram over 0 to 1 and mean of a number per query."""
    counts, edges = np.histogram(values, BINS, (0.0, 1.0))
    return {
        "quantiles": np.quantile(values, QUANTILES).tolist(),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "mean": float(values.mean()),
    }


def rises(entries: Sequence[dict[str, Any]], name: str) -> bool:
    """Whether the mean is larger at every larger ratio."""
    ordered = sorted((entry["ratio"], entry[name]["mean"]) for entry in entries)
    return bool((np.diff([mean for _, mean in ordered]) > 0).all())


def _worsened(
    model: Model,
    split: FeaturedSplit,
    table: TokenTable,
    stating: Stating,
    seed: int,
    blocks: Blocks,
    ratio: float,
) -> Worsened:
    """Both sides at one ratio, each encoded once by every view."""
    captions = corrupt_captions(table, ratio, generator(seed, "words"), stating.words)
    images, texts = [], []
    for view in model.views:
        view.eval()
        worse = _worse_regions(model, split, ratio, seed, blocks.encode)
        images.append(encode(view.encode_visual, worse, model.device))
        texts.append(encode_captions(view, captions, model.device, blocks.encode))
    if stating.usual is None:
        return Worsened(images, texts, {})
    backgrounds: dict[Query, Background] = {
        "text": stating.usual("text", images),
        "image": stating.usual("image", texts),
    }
    return Worsened(images, texts, backgrounds)


def _observe(
    model: Model,
    image_of: Int[np.ndarray, " texts"],
    stating: Stating,
    blocks: Blocks,
    images: Worsened,
    texts: Worsened,
) -> _Observed:
    """Score two encoded sides, and keep a few numbers per query."""
    scores = [
        compare(view, visual, text, model.device, blocks, len(model.views))
        for view, visual, text in zip(model.views, images.images, texts.texts, strict=True)
    ]
    observed = _Observed({}, {}, {}, ranks(scores, image_of))
    galleries: dict[Query, Worsened] = {"text": images, "image": texts}
    confidence = stating.confidence
    for query, gallery in galleries.items():
        own, averaged, trust = [], [], []
        for asked in _asked(model, scores, query, gallery.usual.get(query)):
            own.append(_uncertainty(asked, asked.similarity[asked.own]))
            averaged.append(_uncertainty(asked, asked.together))
            if query in confidence:
                trust.append(np.asarray(confidence[query](asked)))
        observed.u[query] = np.concatenate(own)
        observed.averaged[query] = np.concatenate(averaged)
        if trust:
            observed.trust[query] = np.concatenate(trust)
        observed.smaller[query] = {
            size: _among(model, scores, query, image_of, size) for size in stating.galleries
        }
    return observed


def _among(
    model: Model,
    scores: Sequence[Float[np.ndarray, "images texts"]],
    query: Query,
    image_of: Int[np.ndarray, " texts"],
    size: int,
) -> Float[np.ndarray, " queries"]:
    """u of every query among `size` candidates: the same others for all, and a match."""
    count = scores[0].shape[0 if query == "text" else 1]
    if not 0 < size <= count:
        raise BadData(f"A gallery of {size} was asked for. Expected 1 to {count} candidates.")
    others = np.random.default_rng(0).permutation(count)[:size]
    first_text = np.unique(image_of, return_index=True)[1]
    match, own, start = (image_of if query == "text" else first_text), [], 0
    for asked in _asked(model, scores, query, None):
        rows = np.arange(start, start + asked.similarity.shape[1])
        start += len(rows)
        chosen = np.broadcast_to(others, (len(rows), size)).copy()
        missing = ~(chosen == match[rows, None]).any(1)
        chosen[missing, 0] = match[rows][missing]
        some = np.take_along_axis(asked.similarity[asked.own], chosen, 1)
        own.append(_uncertainty(asked, some))
    return np.concatenate(own)


def _study(
    query: Query, observed: dict[Kind, list[_Observed]], ratios: Sequence[float]
) -> dict[str, Any]:
    kinds = {
        kind: [_entry(query, ratio, one) for ratio, one in zip(ratios, row, strict=True)]
        for kind, row in observed.items()
    }
    rising = {
        kind: {name: rises(entries, name) for name in ("u", "u averaged")}
        for kind, entries in kinds.items()
    }
    return {"kinds": kinds, "rises": rising}


def _entry(query: Query, ratio: float, observed: _Observed) -> dict[str, Any]:
    rank = observed.ranks.text_to_image if query == "text" else observed.ranks.image_to_text
    entry = {
        "ratio": ratio,
        "u": summary(observed.u[query]),
        "u averaged": summary(observed.averaged[query]),
        "r1": 100 * float((rank == 1).mean()),
    }
    if query in observed.trust:
        entry["trust"] = summary(observed.trust[query])
    if smaller := observed.smaller.get(query):
        entry["u among K"] = {str(size): float(u.mean()) for size, u in smaller.items()}
    return entry


def _worse_regions(
    model: Model, split: FeaturedSplit, ratio: float, seed: int, block: int
) -> Iterator[Regions]:
    change = drop_regions if model.recipe.train.region_change == "drop" else mask_regions
    for part in batches(len(split.rows), block):
        whole = split.regions(part)
        draw = generator(seed, "regions", int(part[0]))
        yield compact_regions(change(whole, ratio, draw)) if ratio else whole


def _asked(
    model: Model,
    scores: Sequence[Float[np.ndarray, "images texts"]],
    query: Query,
    usual: Background | None,
) -> Iterator[QueryBatch]:
    """Some queries at a time, each with all its candidates."""
    own = min(1, len(scores) - 1) if query == "text" else 0
    settings = model.evidence_settings
    count = scores[0].shape[1 if query == "text" else 0]
    for part in batches(count, _QUERIES_AT_ONCE):
        yield QueryBatch(
            np.stack([_queries(one, query, part) for one in scores]),
            own,
            settings["tau"],
            settings["kind"],
            usual,
        )


def _queries(
    scores: Float[np.ndarray, "images texts"], query: Query, part: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "some candidates"]:
    here = slice(int(part[0]), int(part[-1]) + 1)
    chosen = scores[:, here].T if query == "text" else scores[here]
    return np.ascontiguousarray(chosen)


def _uncertainty(
    asked: QueryBatch, similarity: Float[np.ndarray, "some candidates"]
) -> Float[np.ndarray, " some"]:
    return uncertainty(log_evidence(similarity, asked.tau, asked.kind))


def _check(split: FeaturedSplit, table: TokenTable, ratios: Sequence[float]) -> None:
    if len(table.lengths) != len(split.captions):
        raise BadData(
            f"The table holds {len(table.lengths)} captions and the split "
            f"{len(split.captions)}. Expected the captions of the split, in its order."
        )
    if len(set(ratios)) != len(ratios) or not ratios:
        raise BadData(
            f"The ratios are {list(ratios)}. Expected at least one, each once, such as "
            f"{list(RATIOS)}."
        )
