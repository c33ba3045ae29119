"""VSRN: regions reason about each other, a GRU gathers them, and a cosine.

    regions --project--> 4 graph blocks --> over regions to length one --> GRU --> unit vector
                                                     '--> captioner (training alone)
    tokens  --GRU, one way--> last state -----------------------------> unit vector

Paper: Li et al., "Visual Semantic Reasoning for Image-Text Matching", ICCV 2019.
As in the published system, each *channel* is brought to length one over the regions of its
image, and the two datasets have two encoders: `variant = "f30k"` normalises the batch after
the GRU, "coco" brings the projected regions to length one before the graph. There, padding
counts in both; here it never does. The captions that training tells again are the tokens as
they come, so recipes for this method leave words alone (`train.words_changed = 0`).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.encoders import EncoderSettings
from avow.blocks.normalise import unit
from avow.blocks.projection import spread
from avow.blocks.recurrent import OneWayGru, closed_up
from avow.blocks.running_norm import RunningNorm
from avow.core.contracts import Encoded, Regions, Tokens, VectorMethod
from avow.core.keywords import with_keywords
from avow.methods._captioner import Captioner

Variant = Literal["f30k", "coco"]
_BLOCKS = 4
_EPSILON = 1e-8  # the published system has none, and divides 0 by 0


def unit_over_parts(
    parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
) -> Float[Tensor, "items parts dim"]:
    """Each channel of an item to length one over the parts that are present."""
    parts = parts * present[..., None]
    return parts / (torch.linalg.vector_norm(parts, dim=1, keepdim=True) + _EPSILON)


class PartNorm(RunningNorm):
    """Batch normalisation whose statistics are those of the parts that are present.

    Weight and bias start at zero, so that a block around it starts as the identity.
    """

    def __init__(self, dim: int):
        super().__init__(dim, weight=0.0)

    def forward(
        self, parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts dim"]:
        parts = parts.to(self.weight.dtype)  # statistics keep full precision
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = self._measure(parts, present[..., None].to(parts.dtype))
        return (parts - mean) * (var + self.eps).rsqrt() * self.weight + self.bias

    def _measure(
        self, parts: Float[Tensor, "items parts dim"], weight: Float[Tensor, "items parts 1"]
    ) -> tuple[Float[Tensor, " dim"], Float[Tensor, " dim"]]:
        """Mean and variance of the batch, also remembered for evaluation."""
        count = weight.sum()
        mean = (parts * weight).sum((0, 1)) / count
        var = ((parts - mean).square() * weight).sum((0, 1)) / count
        with torch.no_grad():
            unbiased = var * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)
        return mean, var


class GraphBlock(nn.Module):
    """Every region adds what its affinity to the others brings in."""

    def __init__(self, dim: int):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.mix = nn.Linear(dim, dim)
        self.norm = PartNorm(dim)

    def forward(
        self, parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts dim"]:
        affinity = self.query(parts) @ self.key(parts).mT
        share = present / present.sum(1, keepdim=True)
        gathered = (affinity * share[:, None]) @ self.value(parts)
        return parts + self.norm(self.mix(gathered), present)


@dataclass(frozen=True, kw_only=True)
class Reasoned(Encoded):
    """An image's vector, and in training the regions its caption is written from."""

    regions: Float[Tensor, "items regions width"]
    regions_present: Bool[Tensor, "items regions"]


@dataclass(frozen=True, kw_only=True)
class Worded(Encoded):
    """A text's vector, and in training the words to be written."""

    tokens: Tokens


@dataclass(frozen=True, kw_only=True)
class Settings(EncoderSettings):
    """variant: the encoder published for Flickr30K or the one for MS-COCO.

    caption_weight: share of the captioning loss; 0 leaves the captioner out.
    """

    dim: int = 2048
    variant: Variant = "f30k"
    caption_weight: float = 1.0
    caption_dim: int = 512
    caption_word_dim: int = 300
    dropout_caption: float = 0.0

    def captioner(self) -> Captioner | None:
        if not self.caption_weight:
            return None
        sizes = self.dim, self.vocabulary, self.caption_dim, self.caption_word_dim
        return Captioner(*sizes, self.dropout_caption)


class Vsrn(VectorMethod):
    """Graph reasoning over regions; the similarity is the cosine."""

    def __init__(self, settings: Settings):
        super().__init__()
        text, captioner = settings.text_encoder("ahead"), settings.captioner()
        dim = settings.dim
        self.drop_image = nn.Dropout(settings.dropout_image)
        self.project = spread(nn.Linear(settings.visual_dim, dim))
        self.graph = nn.ModuleList(GraphBlock(dim) for _ in range(_BLOCKS))
        self.gather = OneWayGru(dim, dim)
        self.norm = nn.BatchNorm1d(dim) if settings.variant == "f30k" else None
        self.text = text
        self.captioner, self.caption_weight = captioner, settings.caption_weight
        self.drop = nn.Dropout(settings.dropout_head)

    def reason(self, visual: Regions) -> Float[Tensor, "items parts dim"]:
        """The regions after the graph, each channel of an image of length one."""
        parts = self.project(self.drop_image(visual.features))
        if self.norm is None:
            parts = unit_over_parts(parts, visual.present)
        for block in self.graph:
            parts = block(parts, visual.present)
        return unit_over_parts(parts, visual.present)

    def encode_visual(self, visual: Regions) -> Encoded:
        regions = self.reason(visual)
        _, gathered = self.gather.with_end(*closed_up(regions, visual.present))
        if self.norm is not None:
            gathered = self.norm(gathered)
        vector = self._finish(gathered)
        there = _one_part(vector)
        if not (self.training and self.captioner):
            return Encoded(vector, there)
        return Reasoned(vector, there, regions=regions, regions_present=visual.present)

    def encode_text(self, text: Tokens) -> Encoded:
        _, whole = self.text.with_whole(text)
        vector = self._finish(whole)
        there = _one_part(vector)
        if not (self.training and self.captioner):
            return Encoded(vector, there)
        return Worded(vector, there, tokens=text)

    def regulariser(self, visual: Encoded, text: Encoded) -> Float[Tensor, ""]:
        """The loss of a network that writes each image's caption from its regions."""
        if self.captioner is None or not isinstance(visual, Reasoned):
            return visual.parts.new_zeros(())
        assert isinstance(text, Worded), "both sides were encoded in training"
        caption_loss = self.captioner(visual.regions, visual.regions_present, text.tokens)
        return self.caption_weight * caption_loss

    def _finish(self, state: Float[Tensor, "items dim"]) -> Float[Tensor, "items 1 dim"]:
        # the cosine keeps full precision even where the encoders run in bfloat16
        return unit(self.drop(state).float())[:, None]


def _one_part(vector: Float[Tensor, "items 1 dim"]) -> Bool[Tensor, "items 1"]:
    return torch.ones(vector.shape[:2], dtype=torch.bool, device=vector.device)


build = with_keywords(Settings, Vsrn)
