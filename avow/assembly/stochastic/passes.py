"""Stochastic passes over a split: the same queries again, each time by another model.

    Passes(views, split, table, KeptDropout(views), device).draws("image")

goes into `QueryBatch.draws`. Only the queries are drawn; candidates are encoded once, without
chance or averaged over passes (section 3.2 of the paper). What chance does not touch is
not computed twice: a side without it is encoded once, and where only the finish of a
`PooledMethod` is left to chance the pooled vectors are kept.

Paper: Hama et al., "Exploring Uncertainty Measures for Image-Caption
Embedding-and-Retrieval Task", arXiv 2019.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from PIL import Image
from torch import Tensor

from avow.assembly.evaluate import encode_table
from avow.assembly.pairs import FeaturedSplit, some
from avow.assembly.photographs import pixel_regions, prepared
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.assembly.stochastic.chance import Chance
from avow.blocks.normalise import unit
from avow.core.contracts import (
    Backbone,
    Draw,
    Encoded,
    Method,
    PooledMethod,
    Regions,
    Tokens,
    VectorMethod,
)
from avow.core.errors import BadRecipe
from avow.data.captions import TokenTable

Query = Literal["image", "text"]


@dataclass(frozen=True)
class Pixels:
    """Photographs that pass the backbone in every draw, decoded and prepared once."""

    backbone: Backbone
    prepared: Num[np.ndarray, "images ..."]
    grid: int
    device: torch.device | str

    @classmethod
    def from_photographs(
        cls,
        backbone: Backbone,
        photographs: Sequence[Image.Image],
        grid: int,
        device: torch.device | str,
    ) -> "Pixels":
        return cls(backbone, prepared(backbone, photographs), grid, device)

    def regions(self, images: Int[np.ndarray, " items"]) -> Regions:
        return pixel_regions(self.backbone, self.prepared[images], self.grid, self.device)


@dataclass(frozen=True)
class Drawing:
    """What is drawn."""

    sides: Literal["queries", "both"] = "queries"
    """Whether candidates are drawn too, afresh in every pass."""
    average_candidates: int = 0
    """Draws that the vectors of candidates are averaged over; 0: encoded once, no chance."""
    seed: int = 0


class Passes:
    """Images and texts of a split before some views, with something left to chance."""

    def __init__(
        self,
        views: Sequence[Method],
        images: FeaturedSplit | Regions | Pixels,
        texts: TokenTable,
        chance: Chance,
        device: torch.device | str,
        drawing: Drawing | None = None,
        *,
        blocks: Blocks | None = None,
    ):
        drawing = drawing or Drawing()
        average_candidates = drawing.average_candidates
        self.views = [view.eval() for view in views]
        self.chance, self.device, self.seed = chance, device, drawing.seed
        self.draw, self.average_candidates = drawing.sides, average_candidates
        self.blocks = blocks or Blocks()
        self.has_vectors = all(isinstance(view, VectorMethod) for view in views)
        if average_candidates and not self.has_vectors:
            raise BadRecipe(
                f"average_candidates is {average_candidates} and the method compares parts. "
                "Expected a method with one vector per item; leave average_candidates at 0."
            )
        block = self.blocks.encode
        self._items: dict[Query, list[_Items]] = {
            "image": [_images(view, images, chance, device, block) for view in views],
            "text": [_texts(view, texts, chance, device, block) for view in views],
        }
        self._vectors: dict[Query, Tensor] = {}

    def draws(self, query: Query) -> Callable[[], Iterator[Draw]]:
        """Endless passes for the queries of one side; every call begins with the same."""
        self._refuse_certainty(query)

        def passes() -> Iterator[Draw]:
            for number in count():
                yield self._draw(query, number)

        return passes

    def candidates(self, query: Query) -> Float[Tensor, "candidates dim"]:
        """What the vectors of `draws(query)` are compared with, kept after the first call.

        Views stand side by side, scaled so that a product is their mean similarity.
        """
        side = _other(query)
        if side not in self._vectors:
            self._vectors[side] = self._candidate_vectors(side)
        return self._vectors[side]

    @torch.no_grad()
    def _candidate_vectors(self, side: Query) -> Float[Tensor, "items dim"]:
        if not self.average_candidates:
            return self._joined([items.settled for items in self._items[side]])
        drawers, total = [items.drawer for items in self._items[side]], 0
        for number in range(self.average_candidates):
            with self.chance.drawn(self.seed, "candidates", side, number):
                total = total + self._joined([drawer() for drawer in drawers])
        return unit(torch.as_tensor(total))

    @torch.no_grad()
    def _draw(self, query: Query, number: int) -> Draw:
        """One pass; the networks are restored before it is returned."""
        # whatever is encoded once is encoded here, before chance sets in
        drawers = [items.drawer for items in self._items[query]]
        others = self._other_drawers(query)
        with self.chance.drawn(self.seed, "passes", query, number):
            queries = [drawer() for drawer in drawers]
            facing = [drawer() for drawer in others]
            if not self.has_vectors:
                return Draw(self._compared(query, queries, facing))
        vectors = self._joined(queries)
        candidates = self._joined(facing) if facing else self.candidates(query)
        return Draw(vectors @ candidates.T, vectors)

    def _other_drawers(self, query: Query) -> list[Callable[[], Encoded]]:
        """How the other side comes about in a pass; nothing where its vectors are kept."""
        items = self._items[_other(query)]
        if self.draw == "both":
            return [one.drawer for one in items]
        if self.has_vectors:
            return []
        settled = [one.settled for one in items]
        return [lambda encoded=encoded: encoded for encoded in settled]

    def _joined(self, encoded: Sequence[Encoded]) -> Float[Tensor, "items dim"]:
        vectors = [
            view.vectors(part.to(self.device))  # type: ignore[union-attr]
            for view, part in zip(self.views, encoded, strict=True)
        ]
        return torch.cat(vectors, -1) / math.sqrt(len(vectors))

    def _compared(
        self, query: Query, queries: Sequence[Encoded], others: Sequence[Encoded]
    ) -> Float[Tensor, "queries candidates"]:
        """The mean similarity of all views, scored pair by pair."""
        visual, text = (queries, others) if query == "image" else (others, queries)
        total = 0
        for view, images, texts in zip(self.views, visual, text, strict=True):
            total = total + compare(view, images, texts, self.device, self.blocks)
        scores = torch.from_numpy(total / len(self.views))
        return scores if query == "image" else scores.T

    @torch.no_grad()
    def is_random(self, query: Query) -> bool:
        """Whether chance touches the answers to queries of one side at all."""
        kinds: list[Query] = [query, _other(query)] if self.draw == "both" else [query]
        if any(items.is_random for kind in kinds for items in self._items[kind]):
            return True
        images, texts = self._items["image"], self._items["text"]
        return not self.has_vectors and any(
            self.chance.met(partial(view.similarity, image.first(), text.first()))
            for view, image, text in zip(self.views, images, texts, strict=True)
        )

    def _refuse_certainty(self, query: Query) -> None:
        if self.is_random(query):
            return
        raise BadRecipe(
            f"Nothing is left to chance where {query!r} queries are encoded. Expected "
            "dropout above 0 or drawn batch statistics on their way; train with "
            'method.dropout_head = 0.1, or pass sides="both".'
        )


@dataclass
class _Items:
    """All items of one side as one view encodes them: pooled first, then finished."""

    pool: Callable[[Any], Encoded]
    finish: Callable[[Encoded], Encoded]
    every: Callable[[Callable[[Any], Encoded]], Encoded]
    """Pools all items."""
    one: Callable[[], Any]
    """The first item alone, as it is pooled."""
    chance: Chance
    place: torch.device | str
    """Where the pooled items are kept: vectors on the device, parts in host memory."""

    def first(self) -> Encoded:
        return self.finish(self.pool(self.one()))

    @cached_property
    def is_random(self) -> bool:
        return self.chance.met(self.first)

    @cached_property
    def pooled(self) -> Encoded:
        """Without chance."""
        return self.every(self.pool).to(self.place)

    @cached_property
    def settled(self) -> Encoded:
        """Without chance."""
        return self.finish(self.pooled)

    @cached_property
    def drawer(self) -> Callable[[], Encoded]:
        """Encodes all items under the chance of the moment, as cheaply as it can."""
        if self.chance.met(lambda: self.pool(self.one())):
            return lambda: self.finish(self.every(self.pool))
        return partial(self.finish, self.pooled)


def _images(
    view: Method,
    images: FeaturedSplit | Regions | Pixels,
    chance: Chance,
    device: torch.device | str,
    block: int,
) -> _Items:
    if isinstance(images, FeaturedSplit):
        number, read = len(images.rows), images.regions
    elif isinstance(images, Pixels):
        number, read = len(images.prepared), images.regions
    else:
        number, read = len(images.features), partial(some, images)

    def every(encoder: Callable[[Regions], Encoded]) -> Encoded:
        return encode(encoder, (read(part) for part in batches(number, block)), device)

    def one() -> Regions:
        return read(np.arange(1)).to(device)

    if isinstance(view, PooledMethod):
        pool, finish = _halves(view.pool_visual, view.finish, device)
        return _Items(pool, finish, every, one, chance, device)
    return _Items(view.encode_visual, _nothing_left, every, one, chance, "cpu")


def _texts(
    view: Method,
    texts: TokenTable,
    chance: Chance,
    device: torch.device | str,
    block: int,
) -> _Items:
    def every(encoder: Callable[[Tokens], Encoded]) -> Encoded:
        return encode_table(encoder, texts, device, block)

    def one() -> Tokens:
        return texts.tokens(torch.arange(1)).to(device)

    if isinstance(view, PooledMethod):
        pool, finish = _halves(view.pool_text, view.finish, device)
        return _Items(pool, finish, every, one, chance, device)
    return _Items(view.encode_text, _nothing_left, every, one, chance, "cpu")


def _nothing_left(encoded: Encoded) -> Encoded:
    """The finish of a method that cannot tell it from its encoder."""
    return encoded


def _halves(
    pool: Callable[[Any], Tensor],
    finish: Callable[[Tensor], Encoded],
    device: torch.device | str,
) -> tuple[Callable[[Any], Encoded], Callable[[Encoded], Encoded]]:
    """Pool and finish of a method, with the pooled vectors as one part per item."""

    def pooled(items: Any) -> Encoded:
        vectors = pool(items)[:, None]
        present = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        return Encoded(vectors, present)

    def finished(encoded: Encoded) -> Encoded:
        return finish(encoded.parts[:, 0].to(device))

    return pooled, finished


def _other(query: Query) -> Query:
    return "text" if query == "image" else "image"
