"""GSMN: words and regions are matched first, then the graphs that join them.

    regions --project--> unit vectors --.    node matching: a vector of block cosines each
                                        +--> polar graph of the boxes -----> score  --.
                                        +--> graph of the words -----------> score  --+--> sum
    tokens --two-way GRU--> unit vectors'

Every region gathers the words it resembles, and every word its regions; the cosine of each
block of channels with what was gathered is the node's match vector. Matches then spread
along the graph of their own side, and a small network reads each node.

Paper: Liu et al., "Graph Structured Network for Image-Text Matching", CVPR 2020.
As in the published system, the kernels of the visual graph are weighed against each other
and not over neighbours, and those of the textual graph have learnt scales that cancel, so
here they have none. In the published system a node hears only itself, as loudly as it has
neighbours: `faithful = true`. By default it hears its neighbours, as the paper says. The
score has no bounds; `squash` brings it into [-1, 1].
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from avow.blocks import attention_inference as inference
from avow.blocks.attention import Focus, focus
from avow.blocks.encoders import EncoderSettings
from avow.blocks.normalise import precise, unit
from avow.blocks.projection import spread
from avow.blocks.squash import Squash, squashed
from avow.blocks.tiles import MB, in_tiles
from avow.core.contracts import Encoded, Method, Regions, Tokens
from avow.core.errors import BadFeatures, BadRecipe
from avow.core.keywords import with_keywords
from avow.methods._block_matches import (
    Blocks,
    block_matches,
    in_blocks,
    learnt_block_matches,
)

Graph = Literal["dense", "sparse"]
_EPSILON = 1e-8
FEWEST_CHANNELS = 16  # of a block; what few gather may cancel out, and products lose digits
_LEAN_MB = 16  # of products by block: what a processor keeps near
_NARROWEST = 1e-14  # added to the square of a kernel's width


def block_cosine(
    one: Float[Tensor, "*#nodes dim"], other: Float[Tensor, "*nodes dim"], blocks: int
) -> Float[Tensor, "*nodes blocks"]:
    """The cosine of each of `blocks` equal stretches of channels."""
    x, y = one.unflatten(-1, (blocks, -1)), other.unflatten(-1, (blocks, -1))
    kind = torch.promote_types(other.dtype, torch.float32)
    length = _length(x, kind) * _length(y, kind)
    return (x * y).sum(-1, dtype=kind) / length.clamp(min=_EPSILON)


def _length(x: Float[Tensor, "*shape dim"], kind: torch.dtype) -> Float[Tensor, "*shape"]:
    return torch.linalg.vector_norm(x, dim=-1, dtype=kind)


def polar(
    boxes: Float[Tensor, "items parts 4"],
) -> tuple[Float[Tensor, "items parts parts"], Float[Tensor, "items parts parts"]]:
    """Distance and angle from the centre of each box to that of every other."""
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    apart = centre[:, :, None] - centre[:, None]
    return torch.linalg.vector_norm(apart, dim=-1), torch.atan2(apart[..., 0], apart[..., 1])


class Readout(nn.Module):
    """Two layers on every node, and the mean of the nodes that are present."""

    def __init__(self, hidden: int):
        super().__init__()
        self.bend = weight_norm(nn.Linear(hidden, hidden))
        self.judge = weight_norm(nn.Linear(hidden, 1))

    def forward(
        self,
        nodes: Float[Tensor, "images texts nodes hidden"],
        present: Bool[Tensor, "#images #texts nodes"],
    ) -> Float[Tensor, "images texts"]:
        bent = self.bend(nodes).tanh() * present[..., None]
        # the second layer is linear, so it may as well judge the mean
        return self.judge(bent.sum(-2) / present.sum(-1, keepdim=True)).squeeze(-1)


class VisualGraph(nn.Module):
    """Matches of regions spread to neighbours by where these lie, through Gaussian kernels."""

    def __init__(self, blocks: int, hidden: int, kernels: int):
        super().__init__()
        self.kernels = kernels
        self.distance = nn.Parameter(torch.rand(kernels))
        self.angle = nn.Parameter((2 * torch.rand(kernels) - 1) * math.pi)
        self.distance_width = nn.Parameter(torch.rand(kernels))
        self.angle_width = nn.Parameter(torch.rand(kernels))
        self.convolve = nn.Linear(blocks, hidden, bias=False)
        self.readout = Readout(hidden)

    def weights(
        self, boxes: Float[Tensor, "items parts 4"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts parts kernels"]:
        """How far each kernel sees the second part from the first; over kernels, one."""
        distance, angle = (tensor[..., None] for tensor in polar(boxes))
        turn = (angle - self.angle).abs()
        turn = torch.minimum(turn, (2 * math.pi - turn).abs())
        near = (distance - self.distance).square() / (self.distance_width**2 + _NARROWEST)
        aligned = turn.square() / (self.angle_width**2 + _NARROWEST)
        return (-0.5 * (near + aligned)).softmax(-1) * present[:, None, :, None]

    def forward(
        self,
        match: Float[Tensor, "images texts regions blocks"],
        weights: Float[Tensor, "images regions regions kernels"],
        present: Bool[Tensor, "images regions"],
    ) -> Float[Tensor, "images texts"]:
        mapped = self.convolve(match).unflatten(-1, (self.kernels, -1))
        spread_out = torch.einsum("irsk,itsko->itrko", weights, mapped)
        return self.readout(spread_out.flatten(-2), present[:, None])


class TextualGraph(nn.Module):
    """Matches of words spread to the words they are linked with."""

    def __init__(self, blocks: int, hidden: int):
        super().__init__()
        self.convolve = nn.Linear(blocks, hidden)
        self.readout = Readout(hidden)

    def forward(
        self,
        match: Float[Tensor, "images texts words blocks"],
        links: Float[Tensor, "texts words words"],
        present: Bool[Tensor, "texts words"],
    ) -> Float[Tensor, "images texts"]:
        spread_out = torch.einsum("twv,itvb->itwb", links, match)
        return self.readout(self.convolve(spread_out), present[None])


@dataclass(frozen=True, kw_only=True)
class Settings(EncoderSettings):
    """graph: "sparse" joins words by the edges their tokens come with, "dense" joins all.

    Tokens that come without edges are joined all with all in either case.
    smooth: how sharply nodes choose; published are 20 on Flickr30K and 10 on MS-COCO.
    blocks: equal stretches of channels with a cosine each; fewer where `dim` is small.
    faithful: whether a node hears only itself, as in the published system.
    tile_mb: the most that one intermediate tensor may take. recompute: forget them, and
    compute them again for the gradient.
    """

    graph: Graph = "dense"
    smooth: float = 20.0
    blocks: int = 16
    hidden: int = 32
    kernels: int = 8
    faithful: bool = False
    squash: Squash = "tanh"
    tile_mb: int = 1024
    recompute: bool = True


class Gsmn(Method):
    """Node matching and structure matching, of regions with words and back."""

    takes_bf16 = True

    def __init__(self, settings: Settings, blocks: int):
        super().__init__()
        text = settings.text_encoder()
        visual_graph = VisualGraph(blocks, settings.hidden, settings.kernels)
        textual_graph = TextualGraph(blocks, settings.hidden)
        self.drop_image = nn.Dropout(settings.dropout_image)
        self.project = spread(nn.Linear(settings.visual_dim, settings.dim))
        self.text = text
        self.drop = nn.Dropout(settings.dropout_head)
        self.visual_graph, self.textual_graph = visual_graph, textual_graph
        self.graph, self.faithful = settings.graph, settings.faithful
        self.smooth, self.blocks = settings.smooth, blocks
        self.squash: Squash = settings.squash
        self.tile_mb, self.recompute = settings.tile_mb, settings.recompute

    def encode_visual(self, visual: Regions) -> Encoded:
        if visual.boxes is None:
            raise BadFeatures(
                "The image features have no 'boxes'. Expected where each region lies, which "
                "GSMN compares. Use features made by `avow features`, or another method."
            )
        parts = self._finish(self.project(self.drop_image(visual.features)), visual.present)
        return Encoded(parts, visual.present, boxes=visual.boxes)

    def encode_text(self, text: Tokens) -> Encoded:
        parts = self._finish(self.text(text), text.present)
        edges = text.edges if self.graph == "sparse" else None
        return Encoded(parts, text.present, edges=edges)

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        return self.scores(visual, text).sum(0)

    def scores(self, visual: Encoded, text: Encoded) -> Float[Tensor, "2 images texts"]:
        """The score of the visual graphs and that of the textual graphs."""
        regions, words = visual.parts.shape[1], text.parts.shape[1]
        most = self.tile_mb * MB
        if self._is_lean(visual, text):
            size = self.blocks * regions * words * text.parts.element_size()
            prepare = self._prepare_visual, self._prepare_text
            few = min(most, _LEAN_MB * MB)
            return in_tiles(self._compare, visual, text, size, few, prepare=prepare)
        if self.learns_from_products(visual, text):
            # products by block, and what the squared lengths of either side are made of
            size = 3 * self.blocks * regions * words * 4
            return in_tiles(self._compare, visual, text, size, most, recompute=self.recompute)
        # what every node gathers, and its product with the node
        size = 2 * (regions + words) * text.parts.shape[2] * text.parts.element_size()
        return in_tiles(self._compare, visual, text, size, most, recompute=self.recompute)

    def similarity(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        return squashed(self.score(visual, text), self.squash, largest=None)

    def weights(self, visual: Encoded) -> Float[Tensor, "images regions regions kernels"]:
        """How loudly each region hears every other, by kernel."""
        assert visual.boxes is not None, "encode_visual keeps the boxes"
        weights = self.visual_graph.weights(visual.boxes, visual.present)
        if not self.faithful:
            return weights
        return torch.diag_embed(weights.sum(2).mT, dim1=1, dim2=2)

    def links(self, text: Encoded) -> Float[Tensor, "texts words words"]:
        """How much each word takes over from every other; over those, one."""
        alike = precise(self.smooth * text.parts @ text.parts.mT)
        links = alike.masked_fill(~text.present[:, None], -torch.inf).softmax(-1)
        joined = torch.ones_like(links)
        if text.edges is not None:
            itself = torch.eye(links.shape[-1], device=links.device)
            joined = (text.edges | text.edges.mT).to(links) + itself
            links = links * joined
            links = links / links.sum(-1, keepdim=True).clamp(min=_EPSILON)
        return torch.diag_embed((links * joined).sum(-1)) if self.faithful else links

    def _is_lean(self, visual: Encoded, text: Encoded) -> bool:
        exact = visual.parts.dtype == text.parts.dtype != torch.bfloat16
        wide = visual.parts.shape[2] >= FEWEST_CHANNELS * self.blocks
        return exact and wide and inference.is_possible(text, visual, Focus(self.smooth))

    def _prepare_visual(self, visual: Encoded) -> Blocks:
        return in_blocks(visual, self.blocks, self.weights(visual), part_by_part=False)

    def _prepare_text(self, text: Encoded) -> Blocks:
        return in_blocks(text, self.blocks, self.links(text), part_by_part=True)

    def _compare_lean(self, visual: Encoded, text: Encoded) -> Float[Tensor, "2 images texts"]:
        images = visual if isinstance(visual, Blocks) else self._prepare_visual(visual)
        texts = text if isinstance(text, Blocks) else self._prepare_text(text)
        assert images.spread is not None and texts.spread is not None
        by_region, by_word = block_matches(images, texts, Focus(self.smooth))
        from_images = self.visual_graph(by_region, images.spread, visual.present)
        from_texts = self.textual_graph(by_word, texts.spread, text.present)
        return torch.stack([from_images, from_texts])

    def _compare(self, visual: Encoded, text: Encoded) -> Float[Tensor, "2 images texts"]:
        if isinstance(visual, Blocks) or self._is_lean(visual, text):
            return self._compare_lean(visual, text)
        if self.learns_from_products(visual, text):
            by_region, by_word = learnt_block_matches(visual, text, self.blocks, self.smooth)
        else:
            by_region, by_word = self._matches(visual, text)
        from_images = self.visual_graph(by_region, self.weights(visual), visual.present)
        from_texts = self.textual_graph(by_word, self.links(text), text.present)
        return torch.stack([from_images, from_texts])

    def learns_from_products(self, visual: Encoded, text: Encoded) -> bool:
        """Whether match vectors are learnt without forming what nodes gather."""
        wide = visual.parts.shape[2] >= FEWEST_CHANNELS * self.blocks
        return torch.is_grad_enabled() and wide and visual.parts.dtype == text.parts.dtype

    def _matches(
        self, visual: Encoded, text: Encoded
    ) -> tuple[
        Float[Tensor, "images texts regions blocks"], Float[Tensor, "images texts words blocks"]
    ]:
        regions, words = visual.parts, text.parts
        region_present, word_present = visual.present[:, None], text.present[None]
        products = precise(torch.einsum("ird,twd->itrw", regions, words))
        to_words = focus(products, region_present, word_present, self.smooth).to(words.dtype)
        gathered = torch.einsum("itrw,twd->itrd", to_words, words)
        by_region = block_cosine(regions[:, None], gathered, self.blocks)
        to_regions = focus(products.mT, word_present, region_present, self.smooth).to(
            words.dtype
        )
        gathered = torch.einsum("itwr,ird->itwd", to_regions, regions)
        by_word = block_cosine(words[None], gathered, self.blocks)
        return by_region, by_word

    def _finish(
        self, states: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts dim"]:
        # comparing keeps full precision even where the encoders run in bfloat16
        return unit(self.drop(states).float()) * present[..., None]


def _build(chosen: Settings) -> Gsmn:
    if chosen.hidden % chosen.kernels:
        raise BadRecipe(
            f"kernels of 'gsmn' in methods is '{chosen.kernels}'. Expected a divisor of "
            f"hidden, which is {chosen.hidden}. Change one of them."
        )
    # the cosine of a single channel is its sign, which learns nothing
    most = min(chosen.blocks, max(1, chosen.dim // 2))
    return Gsmn(chosen, next(n for n in range(most, 0, -1) if chosen.dim % n == 0))


build = with_keywords(Settings, _build)
