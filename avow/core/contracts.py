"""The promises the parts make to each other. Read this file first.

    photographs -> Backbone -> Regions --Method.encode_visual--> Encoded --.
                                                                           +- score
    captions -> Tokeniser -> Tokens ----Method.encode_text-----> Encoded --'    |
                                                                                v
                              similarity in [-1, 1] -> Loss.steps  -> training
                                                    -> Opinion     -> ranking + trust

A method never sees a loss, a loss never sees a method, and neither knows whether it runs in
training, in evaluation or behind a search box, whose own promises are in `searching.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import pad

from avow.core.datasets import PairedDataset as PairedDataset
from avow.core.datasets import Split as Split
from avow.core.errors import BadRecipe
from avow.core.experts import Experts as Experts
from avow.core.experts import TextFeatures as TextFeatures
from avow.core.queries import QueryBatch as QueryBatch
from avow.core.renamed import renamed
from avow.core.times import Times as Times
from avow.core.tokeniser import Tokeniser as Tokeniser

# --- what goes in -----------------------------------------------------------------


@dataclass(frozen=True)
class Regions:
    """Images as parts: detected regions, grid cells or video frames, padded."""

    features: Float[Tensor, "items parts dim"]
    present: Bool[Tensor, "items parts"]
    boxes: Float[Tensor, "items parts 4"] | None = None
    """Where each part lies: x1, y1, x2, y2, in 0..1 of the image."""

    def to(self, device: torch.device | str) -> "Regions":
        boxes = None if self.boxes is None else self.boxes.to(device)
        return Regions(self.features.to(device), self.present.to(device), boxes)


@dataclass(frozen=True)
class Tokens:
    """Captions as numbers, padded with 0 at the end."""

    ids: Int[Tensor, "items parts"]
    present: Bool[Tensor, "items parts"]
    edges: Bool[Tensor, "items parts parts"] | None = None
    """Which words depend on which, where somebody parsed the captions."""

    @property
    def lengths(self) -> Int[Tensor, " items"]:
        return self.present.sum(1)

    def to(self, device: torch.device | str) -> "Tokens":
        edges = None if self.edges is None else self.edges.to(device)
        return Tokens(self.ids.to(device), self.present.to(device), edges)

    def resized(self, parts: int) -> "Tokens":
        """The same captions with padding added or taken away until they have `parts`."""
        more = parts - self.ids.shape[1]
        edges = None if self.edges is None else pad(self.edges, (0, more, 0, more))
        return Tokens(pad(self.ids, (0, more)), pad(self.present, (0, more)), edges)


class Backbone(nn.Module, ABC):
    """A pixel network, photographs to grid cells: one file in `backbones/`."""

    dim: int
    identity: dict[str, Any]
    """Everything that changes the features: weights hash, input size, preprocessing."""

    @abstractmethod
    def prepare(self, photograph: Image.Image) -> np.ndarray:
        """One decoded photograph to the array `forward` takes (cheap to move)."""

    @abstractmethod
    def forward(self, pixels: Tensor) -> Float[Tensor, "items rows columns dim"]:
        """The feature grid of a batch of prepared photographs."""

    def take(self, state: Mapping[str, Tensor]) -> None:
        """Go on with weights that were trained further; `identity` changes with them."""
        raise BadRecipe(
            f"The backbone {self.identity.get('backbone')!r} has no weights that a model can "
            "bring. Expected a model that was trained with it as it is; train it anew."
        )


# --- the network --------------------------------------------------------------------


@dataclass(frozen=True)
class Encoded:
    """Items of one modality in the common space, padded: regions, words or frames.

    A method whose `regulariser` needs more derives a kind of its own, for itself alone.
    """

    parts: Float[Tensor, "items parts dim"]
    present: Bool[Tensor, "items parts"]
    boxes: Float[Tensor, "items parts 4"] | None = None
    """Where each part lies, for methods that compare arrangements."""
    edges: Bool[Tensor, "items parts parts"] | None = None
    """Which parts depend on which, for methods that compare structures."""

    def to(self, device: torch.device | str) -> "Encoded":
        return self._each(lambda tensor: tensor.to(device))

    def rows(self, chosen: slice | Int[Tensor, " chosen"]) -> "Encoded":
        """Some of the items."""
        return self._each(lambda tensor: tensor[chosen])

    def given(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        every = {name: getattr(self, name) for name in ("parts", "present", "boxes", "edges")}
        return {name: tensor for name, tensor in every.items() if tensor is not None}

    def resized(self, parts: int) -> "Encoded":
        """The same items with padding added or taken away until they have `parts`."""
        more = parts - self.parts.shape[1]
        return Encoded(
            pad(self.parts, (0, 0, 0, more)),
            pad(self.present, (0, more)),
            None if self.boxes is None else pad(self.boxes, (0, 0, 0, more)),
            None if self.edges is None else pad(self.edges, (0, more, 0, more)),
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Encoded":
        boxes = None if self.boxes is None else change(self.boxes)
        edges = None if self.edges is None else change(self.edges)
        return Encoded(change(self.parts), change(self.present), boxes, edges)


class TextPart(nn.Module):
    """What training and saving ask of an encoder of texts; it may have nothing to offer."""

    def pretrained_parameters(self) -> list[nn.Parameter]:
        """What was learnt elsewhere, and is therefore trained more slowly."""
        return []

    def use_word_vectors(
        self, listed: list[str], words: list[str], vectors: Float[np.ndarray, "words dim"]
    ) -> int:
        """Copy known vectors into the rows of the words `listed`; return how many."""
        return 0

    def save_parts(self, folder: Path) -> None:
        """Write what rebuilding needs besides the weights."""


class Method(nn.Module, ABC):
    """A way to compare images (or videos) with texts: one file in `methods/`."""

    keeps_regions = False
    """Whether a region's place counts, so that training may mask regions but not drop them."""
    takes_bf16 = takes_fp16 = False
    """Whether `score` reads parts in 16 bits, and still sums and normalises in float32."""

    @abstractmethod
    def encode_visual(self, visual: Regions) -> Encoded: ...

    @abstractmethod
    def encode_text(self, text: Tokens) -> Encoded: ...

    @abstractmethod
    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        """Every pair's score as its paper defines it, of whatever range."""

    def similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        """Every pair's similarity in [-1, 1]; ranking and evidence both read this."""
        return self.score(visual, text)

    def pair_similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, " pairs"]:
        """The similarity of the n-th image with the n-th text alone, in evaluation."""

        def one(image: dict[str, Tensor], caption: dict[str, Tensor]) -> Tensor:
            pair = (
                Encoded(**{name: tensor[None] for name, tensor in item.items()})
                for item in (image, caption)
            )
            return self.similarity(*pair)[0, 0]

        return torch.vmap(one)(visual.given(), text.given())

    def pooled(self, encoded: Encoded) -> Float[Tensor, "items dim"]:
        """One unit vector per item, for a shortlist that `similarity` then looks through."""
        summed = (encoded.parts * encoded.present[..., None]).sum(1)
        return torch.nn.functional.normalize(summed.float(), dim=-1)

    def regulariser(self, visual: Encoded, text: Encoded) -> Float[Tensor, ""]:
        """What the method itself adds to the first value a loss yields."""
        return visual.parts.new_zeros(())

    def pretrained_parameters(self) -> list[nn.Parameter]:
        """What was learnt elsewhere, and may be trained more slowly or later."""
        return self._text_part().pretrained_parameters()

    def use_word_vectors(
        self, listed: list[str], words: list[str], vectors: Float[np.ndarray, "words dim"]
    ) -> int:
        """Start the vectors of the words `listed` from known ones; how many were known."""
        return self._text_part().use_word_vectors(listed, words, vectors)

    def save_parts(self, folder: Path) -> None:
        """Write what rebuilding needs besides settings and weights."""
        self._text_part().save_parts(folder)

    def _text_part(self) -> TextPart:
        """The encoder of texts, by its usual name; without one, a part that has nothing."""
        text = getattr(self, "text", None)
        return text if isinstance(text, TextPart) else TextPart()


class VectorMethod(Method):
    """A method whose score is a dot product of one unit vector per item.

    Its `Encoded` has exactly one part, so items can be stored in an index.
    """

    def vectors(self, encoded: Encoded) -> Float[Tensor, "items dim"]:
        return encoded.parts[:, 0]

    def pooled(self, encoded: Encoded) -> Float[Tensor, "items dim"]:
        return self.vectors(encoded)

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        return self.vectors(visual) @ self.vectors(text).T


class PooledMethod(VectorMethod):
    """A vector method that pools an item first and then finishes the pooled vector.

    Where only the finish is left to chance, drawing it again need not pool again.
    """

    @abstractmethod
    def pool_visual(self, visual: Regions) -> Float[Tensor, "items dim"]: ...

    @abstractmethod
    def pool_text(self, text: Tokens) -> Float[Tensor, "items dim"]: ...

    @abstractmethod
    def finish(self, pooled: Float[Tensor, "items dim"]) -> Encoded:
        """The same for images and texts; cheap beside pooling."""

    def encode_visual(self, visual: Regions) -> Encoded:
        return self.finish(self.pool_visual(visual))

    def encode_text(self, text: Tokens) -> Encoded:
        return self.finish(self.pool_text(text))


# --- learning -------------------------------------------------------------------------

Scores = Float[Tensor, "images texts"]
Matches = Bool[Tensor, "images texts"]
PerView = Float[Tensor, "views pairs"]
Similarities = Callable[[], Sequence[Scores]]
"""Compares the batch afresh: one matrix per view (a view is one trained network)."""


@dataclass(frozen=True)
class Lesson:
    """What is known of a batch besides its similarities."""

    pairs: Int[Tensor, " pairs"]
    """Which captions of the training split these are."""
    match: Bool[Tensor, "images texts"]
    """Which pairs belong together; several per row when an image has many texts."""
    trust: Float[Tensor, "views pairs"]
    """How far each view believes each pair to be rightly paired, 0 to 1."""
    epoch: int
    step: int
    fits: Float[Tensor, "images texts"] | None = None
    """How probable it is that a person says of each pair that it fits; None: nobody asked."""

    @classmethod
    def paired(cls, size: int, epoch: int = 0, step: int = 0, views: int = 1) -> "Lesson":
        """The usual batch: the i-th image matches the i-th text, and all are trusted."""
        match = torch.eye(size, dtype=torch.bool)
        return cls(torch.arange(size), match, torch.ones(views, size), epoch, step)


class Loss(ABC):
    """What to minimise, given similarities alone: one file in `losses/`."""

    views: int
    """How many networks are trained together."""
    weighs: ClassVar[bool] = False  # pairs by the trust of a lesson that it did not settle

    @property
    def needs_fits(self) -> bool:
        """Whether its lessons must say which pairs besides the matches fit."""
        return False

    @abstractmethod
    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Float[Tensor, ""]]:
        """Yield each value to minimise; the trainer takes one step per value."""


class SiftingLoss(Loss):
    """A loss that judges, between epochs, which training pairs are rightly paired.

    Before such an epoch every pair is looked at once, in a batch and in evaluation mode;
    what `settle` makes of all these looks is the trust of the lessons.
    """

    @abstractmethod
    def sifts(self, epoch: int) -> bool: ...

    @abstractmethod
    def glance(self, scores: Sequence[Scores], match: Matches) -> PerView:
        """What each view makes of each pair of one batch."""

    @abstractmethod
    def settle(
        self, seen: PerView, before: PerView | None, epoch: int
    ) -> tuple[PerView, PerView]:
        """The trust in all pairs from `epoch` on, and what to keep for the next time.
        seen: every `glance`, in the order of the split. before: what was kept last time."""


# --- doubt ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """One stochastic pass: the query vectors, and their scores with every candidate."""

    similarity: Float[Tensor, "queries candidates"]
    vectors: Float[Tensor, "queries dim"] | None = None
    """Where the method gives each query one vector."""


class Probe(ABC):
    """A way to doubt the first answer of every query: one file in `uncertainty/`."""

    needs: frozenset[str] = frozenset()  # optional parts of `QueryBatch` that it requires

    @abstractmethod
    def measure(self, asked: QueryBatch) -> dict[str, Float[Tensor, " queries"]]:
        """Named measures; a larger number always means less trust."""


__getattr__ = renamed(__name__, {"Asked": "QueryBatch"})
