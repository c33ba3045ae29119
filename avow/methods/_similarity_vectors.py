"""A vector of similarity per word and one for the whole: what SAF and SGR share.

    regions --project--> unit vectors --+-- gist --.
                                        |          +-- W_glo (gist - gist)^2 --> node 0
    words looking at regions, per word: |          |
        W_loc (attended - word)^2 --> nodes 1 ...  +-- Head --> one number per pair
                                        |          |
    tokens  --encode---> unit vectors --+-- gist --'

The two differ in how they read the nodes of a pair, which is their `Head`. The first part
of what is encoded is the gist. Pairs are compared in tiles. Where nothing is learnt, or on
the processor, captions are sorted by length first, so that a tile has little padding;
training on a device never asks how long a caption is, and so can be recorded as a graph.

What is computed per pair of a 12-word caption with 36 regions of 1,024 numbers, in MFLOP:

                            plain  here
    words x regions          0.9    0.9
    what words attend to     0.9    0.9
    local vectors            6.3    6.3
    global vector            0.5    0.5
    graph (SGR, 3 steps)    15.8    7.4   see sgr.py

The length of what is attended comes from the products of the regions among themselves:
|sum w v|^2 = w (v v^T) w, so that weights are scaled instead of vectors. In bfloat16 the
products are taken in it, and every norm and softmax in float32; on a device that is then
done by the kernels of `blocks.fused`.

For the gradient SGR keeps 9 kB per pair and node in float32, SAF 3 kB: a batch of 128 with
captions of up to 28 words takes 4.4 GB and 1.3 GB per network, and about half of that in
bfloat16. With `recompute` it is one tile, and tiles are computed twice.

Paper: Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching",
AAAI 2021.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear
from torch.utils.checkpoint import checkpoint

from avow.blocks import attention_inference as inference
from avow.blocks import fused
from avow.blocks.attention import Focus, focus
from avow.blocks.encoders import EncoderSettings
from avow.blocks.normalise import precise
from avow.blocks.projection import spread
from avow.core.contracts import Encoded, Method, Regions, Tokens
from avow.core.errors import BadFeatures
from avow.methods._gaps import projected_gaps
from avow.methods._gist import Gist, led_by_gist
from avow.methods._learnt_nodes import Compared, learnt_nodes

Squash = Literal["tanh", "sigmoid", "none"]
Reader = Callable[
    [Float[Tensor, "images texts nodes dim"], Bool[Tensor, "texts nodes"]],
    tuple[Float[Tensor, "images texts"], Float[Tensor, "texts moments"]],
]
"""Scores, and per text what the head must remember of it (nothing, or some numbers)."""

_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it
_TILE_MB = {"cpu": 8}  # what a processor keeps near; a device wants large products
_TILE_MB_ELSEWHERE = 512
_LONGISH = 2  # a tile has this many times the images of a square one


@dataclass(frozen=True, kw_only=True)
class VectorSettings(EncoderSettings):
    """regions: the most an image may have. smooth: how sharply words look at regions.

    dropout_head acts where the gist is weighed. tile_mb: the largest intermediate; 0 chooses
    for the device. recompute: keep nothing of a tile for the gradient, and compute it a second
    time then.
    """

    dropout_word: float = 0.4
    dropout_head: float = 0.4
    regions: int = 36
    similarity_dim: int = 256
    smooth: float = 9.0
    squash: Squash = "tanh"
    tile_mb: int = 0
    recompute: bool = False


class Head(nn.Module, ABC):
    """How the nodes of a pair become one number."""

    @abstractmethod
    def reader(self, kind: torch.dtype) -> Reader:
        """A function for one tile, with what all tiles share worked out beforehand."""

    def remember(self, moments: Float[Tensor, "texts moments"]) -> None:
        """Called once per comparison in training, with all texts in their order."""


@dataclass(frozen=True)
class _Images:
    """The image side of a comparison."""

    gist: Float[Tensor, "images dim"]
    regions: Float[Tensor, "images regions dim"]
    present: Bool[Tensor, "images regions"]
    gram: Float[Tensor, "images regions regions"]
    """The products of an image's regions among themselves."""

    @classmethod
    def of(cls, visual: Encoded) -> "_Images":
        rest = Encoded(visual.parts[:, 1:], visual.present[:, 1:])
        rest = rest.resized(_aligned(rest.parts))
        among = precise(rest.parts @ rest.parts.mT)
        return cls(visual.parts[:, 0], rest.parts.contiguous(), rest.present, among)

    def __getitem__(self, rows: slice) -> "_Images":
        return _Images(self.gist[rows], self.regions[rows], self.present[rows], self.gram[rows])


class SimilarityVectors(Method):
    """Encode parts and gist; compare by similarity vectors, read by `head`."""

    keeps_regions = True
    takes_bf16 = takes_fp16 = True

    def __init__(self, head: Head, settings: VectorSettings):
        super().__init__()
        text, dim = settings.text_encoder(), settings.dim
        self.visual, self.text, self.head = settings.linear_projection(), text, head
        self.visual_gist = Gist(dim, settings.dropout_head, settings.regions)
        self.text_gist = Gist(dim, settings.dropout_head)
        self.local = spread(nn.Linear(dim, settings.similarity_dim))
        self.whole = spread(nn.Linear(dim, settings.similarity_dim))
        self.regions, self.smooth = settings.regions, settings.smooth
        self.squash = settings.squash
        self.tile_mb, self.recompute = settings.tile_mb, settings.recompute

    def encode_visual(self, visual: Regions) -> Encoded:
        count = visual.features.shape[1]
        if count > self.regions:
            raise BadFeatures(
                f"The images have '{count}' regions. Expected at most {self.regions}, the "
                f"number this method was built for; set method.regions = {count} and train."
            )
        return led_by_gist(self.visual_gist, self.visual(visual.features), visual.present)

    def encode_text(self, text: Tokens) -> Encoded:
        return led_by_gist(self.text_gist, self.text(text), text.present)

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        """The logit, as published; products are taken in the precision of the parts."""
        # what was encoded in inference mode may be compared anywhere, but teaches nothing
        learns = torch.is_grad_enabled() and not visual.parts.is_inference()
        device = visual.parts.device.type
        with torch.autocast(device, enabled=False), torch.set_grad_enabled(learns):
            return self._score(visual, text)

    def similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        return self._squashed(self.score(visual, text))

    def pair_similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, " pairs"]:
        assert not self.training, "a pair alone has no statistics"
        with torch.autocast(visual.parts.device.type, enabled=False):
            nodes = self._pair_nodes(_Images.of(visual), text)
            scores, _ = self.head.reader(nodes.dtype)(nodes[None], text.present)
            return self._squashed(scores[0])

    def pooled(self, encoded: Encoded) -> Float[Tensor, "items dim"]:
        return precise(encoded.parts[:, 0])

    # --- comparing ------------------------------------------------------------------

    def _score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        images = _Images.of(visual)
        reader = self.head.reader(images.regions.dtype)
        order, groups = self._groups(images, text)
        done = [
            self._compare(images, _cut(text, chosen, width), reader) for chosen, width in groups
        ]
        scores = torch.cat([score for score, _ in done], 1)
        moments = torch.cat([moment for _, moment in done])
        if order is not None:
            place = order.argsort()
            scores, moments = scores.index_select(1, place), moments.index_select(0, place)
        if self.training:
            self.head.remember(moments)
        return scores

    def _compare(
        self, images: _Images, text: Encoded, reader: Reader
    ) -> tuple[Float[Tensor, "images texts"], Float[Tensor, "texts moments"]]:
        """All images with the texts of one group."""
        if self.training:  # all images at once: a head may normalise over them
            if self.recompute and torch.is_grad_enabled():
                how = {"use_reentrant": False, "preserve_rng_state": False}
                return checkpoint(self._tile, images, text, reader, **how)  # type: ignore[return-value]
            return self._tile(images, text, reader)
        count = len(images.gist)
        rows, _ = self._shape(images, text.parts.shape[1] - 1)
        steps = range(0, count, rows)
        tiles = [self._tile(images[top : top + rows], text, reader) for top in steps]
        return torch.cat([score for score, _ in tiles]), tiles[0][1]

    def _tile(
        self, images: _Images, text: Encoded, reader: Reader
    ) -> tuple[Float[Tensor, "images texts"], Float[Tensor, "texts moments"]]:
        return reader(self._nodes(images, text), text.present)

    def _nodes(self, images: _Images, text: Encoded) -> Float[Tensor, "images texts nodes dim"]:
        """Node 0 compares the gists, the others each a word with what it looks at."""
        plain = inference.is_worthwhile(text.parts) and inference.is_mild(Focus(self.smooth))
        if plain and not fused.is_possible(text.parts):
            return self._lean(images, text)
        count, (texts, parts) = len(images.gist), text.present.shape
        words, real = text.parts[:, 1:].flatten(0, 1), text.present[:, 1:]
        most = self._tile_bytes(words)
        weights = self._attention(images, words, real)
        gists = text.parts[:, 0].contiguous()
        layers = _in_kind(self.local, words.dtype), _in_kind(self.whole, words.dtype)
        if torch.is_grad_enabled():
            sides = Compared(weights, images.regions, words, images.gist, gists)
            return learnt_nodes(sides, *layers, most)
        if fused.is_possible(words):
            nodes = words.new_empty(count, texts, parts, self.local.out_features)
            done = fused.gist_nodes(images.gist, gists, layers[1], nodes)
            if done and fused.word_nodes(weights, images.regions, words, layers[0], nodes):
                return nodes
        whole = projected_gaps(None, images.gist[:, None], gists, self.whole, most)
        local = projected_gaps(weights, images.regions, words, self.local, most)
        local = local.view(count, texts, parts - 1, -1)
        return _noded(torch.cat([whole[:, :, None], local], 2))

    def _lean(self, images: _Images, text: Encoded) -> Float[Tensor, "images texts nodes dim"]:
        """The same where no gradient is wanted, with words in the order `lean` has them."""
        asking, gists = text.parts[:, 1:].transpose(0, 1), text.parts[:, 0].contiguous()
        words, most = asking.flatten(0, 1), self._tile_bytes(asking)
        regions = inference.Context(images.regions, images.present, among=images.gram)
        word_present, how = text.present[:, 1:].T, Focus(self.smooth)
        weights = inference.unit_weights(asking, word_present, regions, how).mT
        local = projected_gaps(weights, images.regions, words, self.local, most)
        local = local.view(len(local), *asking.shape[:2], -1).transpose(1, 2)
        whole = projected_gaps(None, images.gist[:, None], gists, self.whole, most)
        return _noded(torch.cat([whole[:, :, None], local], 2))

    def _pair_nodes(self, images: _Images, text: Encoded) -> Float[Tensor, "pairs nodes dim"]:
        """The nodes of the n-th image with the n-th text."""
        (gist, words), real = text.parts.split([1, text.parts.shape[1] - 1], 1), text.present
        products = precise(images.regions @ words.mT).mT
        weights = focus(products, real[:, 1:], images.present, self.smooth)
        attended = _to_unit(weights, images.gram).to(words.dtype) @ images.regions
        whole = _projected(self.whole, (images.gist[:, None] - gist).square())
        local = _projected(self.local, (attended - words).square())
        return _noded(torch.cat([whole, local], 1))

    def _attention(
        self,
        images: _Images,
        words: Float[Tensor, "words dim"],
        real: Bool[Tensor, "texts parts"],
    ) -> Float[Tensor, "images words regions"]:
        """Weights that make what a word attends to a unit vector."""
        if fused.is_possible(words):
            sides, masks = (images.regions, words, images.gram), (real, images.present)
            weights = fused.word_weights(*sides, *masks, self.smooth)
            if weights is not None:
                return weights.flatten(1, 2)
        products = images.regions.flatten(0, 1) @ words.T
        products = precise(products.view(*images.present.shape, *real.shape))
        weights = _regions_first(products, images.present, real, self.smooth).flatten(2)
        square = ((images.gram @ weights) * weights).sum(1, keepdim=True)
        # at a length of 0 the root has no gradient
        weights = weights / (square.clamp(min=_EPSILON**2).sqrt() + _EPSILON)
        return weights.to(words.dtype).mT

    def _squashed(self, score: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if self.squash == "none":
            return score
        return score.tanh() if self.squash == "tanh" else score.sigmoid()

    def _groups(
        self, images: _Images, text: Encoded
    ) -> tuple[Int[Tensor, " texts"] | None, list[tuple[Tensor | slice, int]]]:
        """Which texts are compared together, and how many words the longest has.

        With them, the order in which the groups have the texts, where it is another one.
        """
        count, longest = len(text.parts), text.parts.shape[1] - 1
        if not self._may_ask(text):
            longest = _aligned(text.parts) - 1
            size = self._shape(images, longest)[1] if self.recompute else count
            steps = range(0, count, size)
            return None, [(slice(start, start + size), longest) for start in steps]
        place = torch.arange(longest + 1, device=text.present.device)
        lengths, order = (text.present * place).amax(1).sort(descending=True)
        descending, groups, start = lengths.tolist(), [], 0
        while start < count:
            width = max(1, descending[start])
            stop = start + self._shape(images, width)[1]
            groups.append((order[start:stop], width))
            start = stop
        return order, groups

    def _may_ask(self, text: Encoded) -> bool:
        """Whether lengths may be read; on a device that would stop a recording."""
        return not self.training or text.parts.device.type == "cpu"

    def _shape(self, images: _Images, words: int) -> tuple[int, int]:
        """Images and texts of one tile whose captions have `words` words."""
        count, regions, _ = images.regions.shape
        numbers = max(2 * self.local.out_features, regions) * (words + 1)
        most = self._tile_bytes(images.regions)
        pairs = max(1, most // (numbers * images.regions.element_size()))
        # more images than texts: they all have as many regions, and captions do not
        rows = count if self.training else min(count, _LONGISH * math.isqrt(pairs))
        return rows, max(1, pairs // rows)

    def _tile_bytes(self, like: Tensor) -> int:
        usual = _TILE_MB.get(like.device.type, _TILE_MB_ELSEWHERE)
        return (self.tile_mb or usual) * 2**20


def _aligned(items: Float[Tensor, "items parts dim"]) -> int:
    """So many parts that rows begin at 16 bytes, as fast products on a device want them."""
    return items.shape[1] + -items.shape[1] % (16 // items.element_size())


def _regions_first(
    products: Float[Tensor, "images regions texts words"],
    present: Bool[Tensor, "images regions"],
    real: Bool[Tensor, "texts words"],
    smooth: float,
) -> Float[Tensor, "images regions texts words"]:
    """`focus` of words on regions, in the order in which products come: nothing is turned."""
    clipped = leaky_relu(products, 0.1) * real
    length = torch.linalg.vector_norm(clipped, dim=-1, keepdim=True)
    logits = (clipped / (length + _EPSILON)).mul_(smooth)
    return logits.masked_fill_(~present[:, :, None, None], -torch.inf).softmax(1)


def _in_kind(layer: nn.Linear, kind: torch.dtype) -> fused.Layer:
    return layer.weight.to(kind), layer.bias.to(kind)


def _to_unit(
    weights: Float[Tensor, "images words regions"],
    gram: Float[Tensor, "images regions regions"],
) -> Float[Tensor, "images words regions"]:
    """The weights scaled, so that what is attended has length 1."""
    square = ((weights @ gram) * weights).sum(-1, keepdim=True)
    # at a length of 0 the root has no gradient
    return weights / (square.clamp(min=_EPSILON**2).sqrt() + _EPSILON)


def _noded(nodes: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
    """Unit vectors, in the precision they have."""
    kind = torch.promote_types(nodes.dtype, torch.float32)
    length = torch.linalg.vector_norm(nodes, dim=-1, keepdim=True, dtype=kind)
    return nodes / (length + _EPSILON).to(nodes.dtype)


def _projected(
    layer: nn.Linear, gaps: Float[Tensor, "pairs nodes wide"]
) -> Float[Tensor, "pairs nodes narrow"]:
    return linear(gaps, layer.weight.to(gaps.dtype), layer.bias.to(gaps.dtype))


def _cut(text: Encoded, chosen: Tensor | slice, words: int) -> Encoded:
    """Some texts with no more padding than `words` asks for."""
    return Encoded(text.parts[chosen], text.present[chosen]).resized(words + 1)
