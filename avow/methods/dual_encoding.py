"""Dual Encoding: videos and texts at three levels each, joined in one vector.

    frames --mean---------------------------------.
           --two-way GRU--> states --mean---------+--> linear, norm --> unit vector
                                   --CNN, max-----'
    words  --counted------------------------------.
           --two-way GRU--> states --mean---------+--> linear, norm --> unit vector
                                   --CNN, max-----'

Paper: Dong et al., "Dual Encoding for Zero-Example Video Retrieval", CVPR 2019; with
`concepts`, Dong et al., "Dual Encoding for Video Retrieval by Text", TPAMI 2021, which adds a
second space whose numbers are probabilities of concepts, compared by their Jaccard index.

In the published system an embedding depends on how far its batch is padded: the visual GRU
reads padding on its way back, and the CNN sees windows of nothing but padding. That is
`faithful = true`; by default neither happens. Like there, the first level averages all frames
and the GRU reads the first `frames` of them.

Ours: the concepts are the first words of the vocabulary, and a pair is labelled with those
that its caption names, where the published system has labels from all captions of the video.
The two spaces are trained apart, and added as they are: the published system stretches both
to 0..1 first, by the smallest and largest score of the whole test set (`rescaled`).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy

from avow.blocks.encoders import EncoderSettings
from avow.blocks.normalise import unit
from avow.blocks.projection import spread
from avow.blocks.recurrent import TwoWayGru, closed_up
from avow.blocks.text import TextEncoder, WordGru, build_text
from avow.core.contracts import Encoded, Method, Regions, TextPart, Tokens, VectorMethod
from avow.core.errors import BadRecipe
from avow.core.keywords import with_keywords


@dataclass(frozen=True, kw_only=True)
class DualSettings(EncoderSettings):
    """frames: how many of them the GRU reads. *_hidden: states of a GRU, each way.

    *_kernels: widths of the kernels of a CNN, and *_maps how many there are of each width.
    bag: how many of the first words of the vocabulary are counted, 0 for all. concepts: how
    many of them the second space has, 0 for none. share: of the first space in the similarity.
    concept_margin: of the hinge in the second space.
    faithful: whether padding changes an embedding, as in the published system.
    """

    dim: int = 2048
    word_dim: int = 500
    dropout_head: float = 0.2
    frames: int = 64
    visual_hidden: int = 1024
    text_hidden: int = 512
    visual_kernels: str = "2-3-4-5"
    text_kernels: str = "2-3-4"
    visual_maps: int = 512
    text_maps: int = 512
    bag: int = 0
    concepts: int = 0
    share: float = 0.6
    concept_margin: float = 0.2
    faithful: bool = False

    def state_encoder(self) -> TextEncoder:
        """Captions to a state per word, as wide as both directions of the GRU."""
        if self.text in ("gru", "glove"):
            return WordStates(
                self.vocabulary, self.word_dim, self.text_hidden, self.dropout_word
            )
        return build_text(
            self.text,
            dim=2 * self.text_hidden,
            vocabulary=self.vocabulary,
            word_dim=self.word_dim,
            source=self.text_source,
            pretrained=self.pretrained,
            dropout=self.dropout_word,
        )


def widths(kernels: str) -> tuple[int, ...]:
    """The numbers in "2-3-4"."""
    parts = kernels.split("-")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise BadRecipe(
            f"The kernels of 'dual_encoding' are {kernels!r}. Expected their widths with "
            "hyphens between them, such as '2-3-4'."
        )
    return tuple(map(int, parts))


class WordStates(WordGru):
    """Word vectors and a GRU, whose two directions stand side by side."""

    def forward(self, text: Tokens) -> Float[Tensor, "items parts dim"]:
        assert isinstance(self.gru, TwoWayGru)
        return self.gru.side_by_side(self.vectors(text), text.present)


class Levels(nn.Module):
    """The second and third level: the mean of all states, and the largest of each kernel."""

    def __init__(
        self, inside: int, maps: int, kernels: tuple[int, ...], dropout: float, faithful: bool
    ):
        super().__init__()
        self.kernels = nn.ModuleList(
            [nn.Conv1d(inside, maps, width, padding=width - 1) for width in kernels]
        )
        self.drop = nn.Dropout(dropout)
        self.faithful = faithful
        self.width = inside + maps * len(kernels)

    def forward(
        self, states: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items width"]:
        """The parts that are present come first."""
        steps = (states * present[..., None]).transpose(1, 2)
        largest = [self._largest(kernel(steps), present) for kernel in self.kernels]
        mean = masked_mean(states, present)
        return torch.cat([self.drop(mean), self.drop(torch.cat(largest, 1))], 1)

    def _largest(
        self,
        activations: Float[Tensor, "items maps windows"],
        present: Bool[Tensor, "items parts"],
    ) -> Float[Tensor, "items maps"]:
        """Over the windows that hold at least one part; after the relu none is below 0."""
        activations = activations.relu()
        if not self.faithful:
            # a kernel reaches beyond both ends, so an item has as many windows more as
            # the whole batch has
            more = activations.shape[-1] - present.shape[1]
            place = torch.arange(activations.shape[-1], device=activations.device)
            inside = place < present.sum(1, keepdim=True) + more
            activations = activations * inside[:, None]
        return activations.amax(-1)


def masked_mean(
    parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
) -> Float[Tensor, "items dim"]:
    """The mean of the parts that are present."""
    count = present.sum(1, keepdim=True).clamp(min=1)
    return (parts * present[..., None]).sum(1) / count


class VideoLevels(nn.Module):
    """Frames to all three levels side by side."""

    def __init__(self, how: DualSettings):
        super().__init__()
        self.drop = nn.Dropout(how.dropout_image)
        self.gru = TwoWayGru(how.visual_dim, how.visual_hidden)
        sizes = (2 * how.visual_hidden, how.visual_maps, widths(how.visual_kernels))
        self.levels = Levels(*sizes, how.dropout_head, how.faithful)
        self.frames, self.faithful = how.frames, how.faithful
        self.width = self.levels.width + how.visual_dim

    def forward(self, visual: Regions) -> Float[Tensor, "items width"]:
        frames, present = closed_up(self.drop(visual.features), visual.present)
        first = masked_mean(frames, present)
        # what is padding must not be read even where it holds no numbers
        frames = frames.masked_fill(~present[..., None], 0)[:, : self.frames]
        present = present[:, : self.frames]
        read = torch.ones_like(present) if self.faithful else present
        states = self.gru.side_by_side(frames, read)
        return torch.cat([self.levels(states, present), first], 1)


class TextLevels(TextPart):
    """Captions to all three levels side by side."""

    def __init__(self, how: DualSettings):
        super().__init__()
        self.encoder = how.state_encoder()
        sizes = (2 * how.text_hidden, how.text_maps, widths(how.text_kernels))
        self.levels = Levels(*sizes, how.dropout_head, how.faithful)
        self.counted = how.bag or how.vocabulary
        self.width = self.levels.width + self.counted

    def forward(
        self, text: Tokens, bag: Float[Tensor, "items words"] | None = None
    ) -> Float[Tensor, "items width"]:
        """bag: how often each word occurs, where another vocabulary says so."""
        if bag is None:
            bag = counts(text, self.counted)
        levels = self.levels(self.encoder(text), text.present)
        return torch.cat([levels, bag.to(levels.dtype)], 1)

    def pretrained_parameters(self) -> list[nn.Parameter]:
        return self.encoder.pretrained_parameters()

    def use_word_vectors(
        self, listed: list[str], words: list[str], vectors: Float[np.ndarray, "words dim"]
    ) -> int:
        return self.encoder.use_word_vectors(listed, words, vectors)

    def save_parts(self, folder: Path) -> None:
        self.encoder.save_parts(folder)


def counts(text: Tokens, words: int) -> Float[Tensor, "items words"]:
    """How often each of the first `words` of the vocabulary occurs."""
    in_bag = text.present & (text.ids < words)
    bag = torch.zeros(len(text.ids), words, device=text.ids.device)
    return bag.scatter_add_(1, text.ids.clamp(max=words - 1), in_bag.float())


class Mapping(nn.Module):
    """All levels into a common space.

    The norm takes any bias out again, which would therefore have no gradient but rounding.
    """

    def __init__(self, inside: int, dim: int, dropout: float):
        super().__init__()
        self.linear = spread(nn.Linear(inside, dim, bias=False))
        self.norm = nn.BatchNorm1d(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, levels: Float[Tensor, "items inside"]) -> Float[Tensor, "items dim"]:
        return self.drop(self.norm(self.linear(levels)))


class DualEncoding(VectorMethod):
    """Three levels on both sides; the similarity is the cosine."""

    def __init__(self, how: DualSettings):
        super().__init__()
        self.visual, self.text = VideoLevels(how), TextLevels(how)
        self.visual_mapping = Mapping(self.visual.width, how.dim, how.dropout_head)
        self.text_mapping = Mapping(self.text.width, how.dim, how.dropout_head)

    def encode_visual(self, visual: Regions) -> Encoded:
        return whole(unit(self.visual_mapping(self.visual(visual)).float()))

    def encode_text(
        self, text: Tokens, bag: Float[Tensor, "items words"] | None = None
    ) -> Encoded:
        return whole(unit(self.text_mapping(self.text(text, bag)).float()))


def whole(vectors: Float[Tensor, "items dim"]) -> Encoded:
    """Items of one part each."""
    present = torch.ones(len(vectors), 1, dtype=torch.bool, device=vectors.device)
    return Encoded(vectors[:, None], present)


# --- the hybrid space -------------------------------------------------------------------


@dataclass(frozen=True)
class LabelledText(Encoded):
    """Texts that know the concepts of their pair."""

    labels: Float[Tensor, "items concepts"] | None = None


class HybridEncoding(Method):
    """A latent space compared by cosines, and a concept space compared by Jaccard indices.

    The one part of an item is its latent vector, followed by its probabilities of concepts.
    """

    def __init__(self, how: DualSettings):
        super().__init__()
        self.dim, self.concepts = how.dim, how.concepts
        self.share, self.margin = how.share, how.concept_margin
        self.visual, self.text = VideoLevels(how), TextLevels(how)
        self.visual_mapping = Mapping(self.visual.width, how.dim, how.dropout_head)
        self.text_mapping = Mapping(self.text.width, how.dim, how.dropout_head)
        self.visual_concepts = Mapping(self.visual.width, how.concepts, 0.0)
        self.text_concepts = Mapping(self.text.width, how.concepts, 0.0)

    def encode_visual(self, visual: Regions) -> Encoded:
        levels = self.visual(visual)
        return self._joined(self.visual_mapping(levels), self.visual_concepts(levels))

    def encode_text(
        self,
        text: Tokens,
        bag: Float[Tensor, "items words"] | None = None,
        labels: Float[Tensor, "items concepts"] | None = None,
    ) -> LabelledText:
        """labels: which concepts the pair of each text has, where more is known of it."""
        levels = self.text(text, bag)
        both = self._joined(self.text_mapping(levels), self.text_concepts(levels))
        if labels is None:
            labels = (counts(text, self.concepts) > 0).float()
        return LabelledText(both.parts, both.present, labels=labels)

    def _joined(
        self, latent: Float[Tensor, "items dim"], concepts: Float[Tensor, "items concepts"]
    ) -> Encoded:
        return whole(torch.cat([unit(latent.float()), concepts.float().sigmoid()], 1))

    def spaces(
        self, visual: Encoded, text: Encoded
    ) -> tuple[Float[Tensor, "images texts"], Float[Tensor, "images texts"]]:
        """The similarities of both spaces, in [-1, 1] and in [0, 1]."""
        images, texts = visual.parts[:, 0], text.parts[:, 0]
        latent = images[:, : self.dim] @ texts[:, : self.dim].T
        return latent, jaccard(images[:, self.dim :], texts[:, self.dim :])

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        """In training the latent space alone: the regulariser trains the other one."""
        latent, concepts = self.spaces(visual, text)
        return latent if self.training else self.share * latent + (1 - self.share) * concepts

    def pooled(self, encoded: Encoded) -> Float[Tensor, "items dim"]:
        """The latent vectors, which an index can hold."""
        return encoded.parts[:, 0, : self.dim]

    def concept_losses(self, visual: Encoded, text: LabelledText) -> Float[Tensor, " 3"]:
        """The hinge of the concept space, and how far videos and texts miss the labels."""
        assert text.labels is not None
        similarity = self.spaces(visual, text)[1]
        own = torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
        sides = [
            (self.margin + t - t.diagonal()[:, None]).clamp(min=0)
            for t in (similarity, similarity.T)
        ]
        hinge = sum(side.masked_fill(own, 0).amax(1).sum() for side in sides)
        missed = [
            binary_cross_entropy(side.parts[:, 0, self.dim :], text.labels)
            for side in (visual, text)
        ]
        return torch.stack([torch.as_tensor(hinge), *missed])

    def regulariser(self, visual: Encoded, text: Encoded) -> Float[Tensor, ""]:
        assert isinstance(text, LabelledText)
        hinge, by_video, by_text = self.concept_losses(visual, text)
        return hinge + len(visual.parts) * (by_video + by_text)


def jaccard(
    one: Float[Tensor, "images concepts"], other: Float[Tensor, "texts concepts"]
) -> Float[Tensor, "images texts"]:
    """The sum of the smaller numbers over the sum of the larger ones, of every pair.

    Both together are the sums of both items, and they differ by the distance of the items.
    """
    together = one.sum(1)[:, None] + other.sum(1)[None]
    apart = torch.cdist(one, other, p=1.0)
    return (together - apart) / (together + apart)


def rescaled(
    latent: Float[Tensor, "queries K"], concepts: Float[Tensor, "queries K"], share: float
) -> Float[Tensor, "queries K"]:
    """Both spaces added as the published system does, each stretched to 0..1 first."""

    def stretched(scores: Tensor) -> Tensor:
        return (scores - scores.min()) / (scores.max() - scores.min())

    return share * stretched(latent) + (1 - share) * stretched(concepts)


def _dual_encoding(how: DualSettings) -> Method:
    return HybridEncoding(how) if how.concepts else DualEncoding(how)


build = with_keywords(DualSettings, _dual_encoding)
