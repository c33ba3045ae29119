"""DivE: a few vectors per item, each for another reading of it, compared as sets.

    regions --project--> parts --> slots look at parts, four times --.
                           '-----> largest of each channel ----------+--> unit vectors
    tokens ---vectors--> words --> slots look at words, four times --+--> unit vectors
                           '-----> two-way GRU, where it ends -------'

In every look the slots compete for each part, so that they come to stand for different ones.
What training adds keeps the slots of an item apart and the two modalities together.

Paper: Kim et al., "Improving Cross-Modal Retrieval with Set of Diverse Embeddings", CVPR
2023. In the published text encoder padding is shared out evenly among the slots, and the
places of words are measured against the longest caption of the batch: `faithful = true`.
By default neither happens. The smooth-Chamfer score can exceed 1 by a constant, which the
similarity leaves out.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.encoders import EncoderSettings
from avow.blocks.normalise import unit
from avow.blocks.pooling import MaxPool
from avow.blocks.projection import VisualProjection
from avow.blocks.text import WordGru
from avow.core.contracts import Encoded, Method, Regions, Tokens
from avow.core.keywords import with_keywords

SetKind = Literal["smooth_chamfer", "chamfer", "max"]
_EPSILON = 1e-7  # what a slot gets of a part that the others took
_APART = 2.0  # how fast two slots stop disturbing each other
_KERNEL = 0.5  # how fast two vectors stop resembling each other
_NOTHING = 1e-14  # a squared distance that counts as none, and has no direction to push in


def places(
    present: Bool[Tensor, "items parts"], dim: int, faithful: bool
) -> Float[Tensor, "items parts dim"]:
    """Sines of where each part stands on the way from the first to the last, a full turn."""
    place = present.cumsum(1).float()
    last = present.shape[1] if faithful else place[:, -1:]
    rate = 10000.0 ** (-torch.arange(0, dim, 2, device=present.device) / dim)
    angle = (2 * math.pi * place / last)[..., None] * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :dim]


class SlotAttention(nn.Module):
    """Slots look at the parts of an item, again and again, through the same layers."""

    def __init__(
        self,
        dim: int,
        context_dim: int,
        slots: int,
        heads: int,
        head_dim: int,
        looks: int,
        faithful: bool,
    ):
        super().__init__()
        self.heads, self.looks, self.faithful = heads, looks, faithful
        self.slots = nn.Parameter(torch.randn(slots, dim))
        self.slot_norm, self.context_norm = nn.LayerNorm(dim), nn.LayerNorm(context_dim)
        self.query = nn.Linear(dim, heads * head_dim, bias=False)
        self.key = nn.Linear(context_dim, heads * head_dim, bias=False)
        self.value = nn.Linear(context_dim, heads * head_dim, bias=False)
        self.join = nn.Linear(heads * head_dim, dim)
        self.think = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )
        self.last_norm = nn.LayerNorm(dim)

    def forward(
        self,
        parts: Float[Tensor, "items parts inside"],
        present: Bool[Tensor, "items parts"],
        place: Float[Tensor, "items parts inside"] | None = None,
    ) -> Float[Tensor, "items slots dim"]:
        context = self.context_norm(parts)
        # the layers are the same in every look, so keys and values are, too
        keys = self._split(self.key(context if place is None else context + place))
        values = self._split(self.value(context))
        slots = self.slots.expand(len(parts), -1, -1)
        for _ in range(self.looks):
            queries = self._split(self.query(self.slot_norm(slots)))
            weight = self._compete(queries @ keys.mT, present[:, None, None])
            looked = (weight @ values).transpose(1, 2).flatten(-2)
            slots = slots + self.join(looked)
            slots = slots + self.think(slots)
        return self.last_norm(slots)

    def _compete(
        self,
        products: Float[Tensor, "items heads slots parts"],
        present: Bool[Tensor, "items 1 1 parts"],
    ) -> Float[Tensor, "items heads slots parts"]:
        """The slots share out every part, then each slot weighs what it got."""
        scale = self.query.out_features // self.heads
        products = (products * scale**-0.5).masked_fill(~present, 0.0)
        share = products.softmax(-2) + _EPSILON
        if not self.faithful:
            share = share * present
        return share / share.sum(-1, keepdim=True)

    def _split(
        self, states: Float[Tensor, "items parts width"]
    ) -> Float[Tensor, "items heads parts head"]:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def compare_sets(
    cosines: Float[Tensor, "images slots texts slots"], kind: SetKind, sharpness: float
) -> Float[Tensor, "images texts"]:
    """Two sets are as alike as each member and the one that meets it best."""
    if kind == "max":
        return cosines.amax((1, 3))
    if kind == "chamfer":
        return (cosines.amax(3).mean(1) + cosines.amax(1).mean(2)) / 2
    soft = sharpness * cosines
    both = soft.logsumexp(3).mean(1) + soft.logsumexp(1).mean(2)
    return both / (2 * sharpness)


def crowding(slots: Float[Tensor, "items slots dim"]) -> Float[Tensor, ""]:
    """How close the directions of an item's slots are, over all pairs of them."""
    slots, count = unit(slots), slots.shape[1]
    if count < 2:
        return slots.new_zeros(())
    first, second = torch.triu_indices(count, count, 1, device=slots.device)
    apart = (slots[:, first] - slots[:, second]).square().sum(-1)
    return torch.exp(-_APART * apart).mean()


def discrepancy(
    one: Float[Tensor, "vectors dim"], other: Float[Tensor, "others dim"]
) -> Float[Tensor, ""]:
    """How far apart two clouds of vectors are (maximum mean discrepancy)."""
    return _alike(one, one) + _alike(other, other) - 2 * _alike(one, other)


def _alike(
    one: Float[Tensor, "vectors dim"], other: Float[Tensor, "others dim"]
) -> Float[Tensor, ""]:
    """In float64: squares less products would else give a vector a distance to itself."""
    kind, one, other = one.dtype, one.double(), other.double()
    squares = one.square().sum(-1)[:, None] + other.square().sum(-1)
    apart = (squares - 2 * one @ other.T).clamp(min=_NOTHING).sqrt()
    return torch.exp(-_KERNEL * apart).mean().to(kind)


@dataclass(frozen=True, kw_only=True)
class Diverse(Encoded):
    """An item's set, and in training its slots before the whole item was added."""

    slots: Float[Tensor, "items slots width"]


@dataclass(frozen=True, kw_only=True)
class Settings(EncoderSettings):
    """slots: vectors per item. looks: how often they look. kind: how sets are compared.

    together_weight: share of the distance between modalities (MMD) in training.
    apart_weight: share of how close the slots of an item are (uniformity).
    faithful: whether padding counts in captions, as in the published system.
    """

    slots: int = 4
    looks: int = 4
    heads: int = 4
    head_dim: int = 512
    kind: SetKind = "smooth_chamfer"
    sharpness: float = 16.0
    together_weight: float = 0.01
    apart_weight: float = 0.01
    faithful: bool = False

    def projection(self) -> VisualProjection:
        return VisualProjection(self.visual_dim, self.dim, True, 0.0, bend_from="projection")

    def slot_attention(self, context_dim: int, faithful: bool) -> SlotAttention:
        sizes = self.slots, self.heads, self.head_dim, self.looks
        return SlotAttention(self.dim, context_dim, *sizes, faithful)


class Dive(Method):
    """Sets of embeddings from slots; the similarity is smooth-Chamfer."""

    def __init__(self, settings: Settings):
        super().__init__()
        text = settings.text_encoder()
        self.visual, self.text = settings.projection(), text
        self.drop_image = nn.Dropout(settings.dropout_image)
        self.drop = nn.Dropout(settings.dropout_head)
        self.whole_visual = MaxPool()
        inside = settings.word_dim if isinstance(text, WordGru) else settings.dim
        self.visual_slots = settings.slot_attention(settings.dim, faithful=False)
        self.text_slots = settings.slot_attention(inside, settings.faithful)
        self.visual_norm = nn.LayerNorm(settings.dim)
        self.text_norm = nn.LayerNorm(settings.dim)
        self.kind: SetKind = settings.kind
        self.sharpness = settings.sharpness
        self.together_weight = settings.together_weight
        self.apart_weight = settings.apart_weight

    def encode_visual(self, visual: Regions) -> Encoded:
        parts = self.drop_image(self.visual(visual.features))
        whole = self.visual_norm(self.whole_visual(parts, visual.present))
        return self._finish(self.visual_slots(parts, visual.present), whole)

    def encode_text(self, text: Tokens) -> Encoded:
        if isinstance(self.text, WordGru):
            words = self.text.vectors(text)
            _, whole = self.text.gru.with_end(words, text.present)
        else:
            words, whole = self.text.with_whole(text)
        place = places(text.present, words.shape[-1], self.text_slots.faithful)
        slots = self.text_slots(words, text.present, place.to(words.dtype))
        return self._finish(slots, self.text_norm(whole))

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        flat = visual.parts.flatten(0, 1) @ text.parts.flatten(0, 1).T
        shape = (*visual.parts.shape[:2], *text.parts.shape[:2])
        return compare_sets(flat.view(shape), self.kind, self.sharpness)

    def similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        score = self.score(visual, text)
        if self.kind != "smooth_chamfer":
            return score
        sizes = visual.parts.shape[1] * text.parts.shape[1]
        return score - math.log(sizes) / (2 * self.sharpness)

    def regulariser(self, visual: Encoded, text: Encoded) -> Float[Tensor, ""]:
        """Both modalities to one cloud, the slots of an item apart."""
        if not isinstance(visual, Diverse) or not isinstance(text, Diverse):
            return visual.parts.new_zeros(())
        gap = discrepancy(visual.parts.flatten(0, 1), text.parts.flatten(0, 1))
        crowd = crowding(visual.slots) + crowding(text.slots)
        return self.together_weight * gap + self.apart_weight * crowd

    def _finish(
        self, slots: Float[Tensor, "items slots dim"], whole: Float[Tensor, "items dim"]
    ) -> Encoded:
        # the cosine keeps full precision even where the encoders run in bfloat16
        vectors = unit(self.drop(slots + whole[:, None]).float())
        there = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        if not self.training:
            return Encoded(vectors, there)
        return Diverse(vectors, there, slots=slots.float())


build = with_keywords(Settings, Dive)
