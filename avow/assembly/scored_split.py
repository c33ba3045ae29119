"""A run's own scores for a split, with what is usual for every candidate.

    split + bank --encode, once each--> Corpus --compare, in blocks--> Scored, both directions

The bank is held-out or training material of the other side: its texts tell what is usual
for an image, its images what is usual for a text. Nothing of the split is used for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from tqdm import tqdm

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.core.background import Background
from avow.core.contracts import Encoded, Method
from avow.data.captions import TokenTable
from avow.trust.gallery_sampling import Query, ScoredQueries

KEPT = 32


@dataclass(frozen=True)
class Corpus:
    """Encoded images and texts, one of each per view."""

    images: tuple[Encoded, ...]
    texts: tuple[Encoded, ...]
    image_of: Int[np.ndarray, " texts"]


def encode_split(
    model: Model, split: FeaturedSplit, blocks: Blocks, progress: bool = False
) -> Corpus:
    """Every image and text of a split, by every view, in host memory."""
    table = TokenTable.from_captions(model.tokeniser, split.captions)
    images, texts = [], []
    for view in tqdm(model.views, desc="encoding", disable=not progress, leave=False, delay=2):
        view.eval()
        parts = (split.regions(part) for part in batches(len(split.rows), blocks.encode))
        images.append(encode(view.encode_visual, parts, model.device))
        texts.append(encode_captions(view, table, model.device, blocks.encode))
    return Corpus(tuple(images), tuple(texts), split.image_of)


def score(
    model: Model, corpus: Corpus, bank: Corpus | None, blocks: Blocks, progress: bool = False
) -> dict[Query, ScoredQueries]:
    """All pairs of a corpus, in both directions, with their background."""
    settings = model.evidence_settings
    matrices = [
        compare(view, images, texts, model.device, blocks, len(model.views), progress)
        for view, images, texts in zip(model.views, corpus.images, corpus.texts, strict=True)
    ]
    usual_images = usual_texts = None
    if bank is not None:
        usual_images = background(
            model, corpus.images, bank.texts, "text", blocks, progress=progress
        )
        usual_texts = background(
            model, corpus.texts, bank.images, "image", blocks, progress=progress
        )
    return ScoredQueries.both(
        np.stack(matrices),
        corpus.image_of,
        tau=settings["tau"],
        kind=settings["kind"],
        images=usual_images,
        texts=usual_texts,
    )


def background(
    model: Model,
    candidates: Sequence[Encoded],
    bank: Sequence[Encoded],
    query: Query,
    blocks: Blocks,
    kept: int = KEPT,
    progress: bool = False,
) -> Background:
    """What is usual for candidates, from reference queries of the other side."""
    count = len(bank[0].parts)
    starts = tqdm(
        range(0, count, blocks.texts),
        desc="asking the bank",
        disable=not progress,
        leave=False,
        delay=2,
    )

    def parts() -> Iterator[np.ndarray]:
        for start in starts:
            some = slice(start, start + blocks.texts)
            yield np.stack(
                [
                    _compare(view, items, _part(asking, some), query, model.device, blocks)
                    for view, items, asking in zip(model.views, candidates, bank, strict=True)
                ]
            )

    return Background.from_scores(parts(), model.evidence_settings["tau"], kept)


def _compare(
    view: Method,
    candidates: Encoded,
    asking: Encoded,
    query: Query,
    device: torch.device,
    blocks: Blocks,
) -> Float[np.ndarray, "queries candidates"]:
    """Scores of some reference queries (rows) with all candidates."""
    pair = (candidates, asking) if query == "text" else (asking, candidates)
    scores = compare(view, *pair, device, blocks)
    return scores.T if query == "text" else scores


def _part(encoded: Encoded, some: slice) -> Encoded:
    return Encoded(encoded.parts[some], encoded.present[some])
