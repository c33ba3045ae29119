"""IMRAM: words look at regions several times, each time remembering what they saw.

A query part that has looked once asks again as a mixture of what it was and what it saw;
so may regions that look at words. Every step is scored by the cosine of the *first* query
with what is attended, and the score of a pair is the sum over steps and directions, as
published. Its similarity is their mean unless `squash` says otherwise.

What is attended is never formed. The memory reads W [query; attended] = U query + V attended,
and V attended is a weighted sum of V region, made once per region. For N query parts, M
context parts and D numbers, a step costs 2 NDD + 3 NMD multiplications per pair instead of
4 NDD + 2 NMD; in the first step the query is not yet of the pair, and U query is made once
per item; after the last nothing is remembered. Three steps: 2 NDD instead of 8 NDD.
The largest tensor of a pair has ND numbers: 4 x 36 x 1024 = 147 kB for regions that look.

Paper: Chen et al., "IMRAM: Iterative Matching with Recurrent Attention Memory for
Cross-Modal Image-Text Retrieval", CVPR 2020. `memory_norm = true` makes what is remembered a
unit vector; the published training commands switch that off.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks import fused
from avow.blocks.attention import (
    Focus,
    FocusNorm,
    attended_cosine,
    gram,
    mean_of_present,
    raw_products,
)
from avow.blocks.attention_inference import is_worthwhile
from avow.blocks.normalise import precise, unit
from avow.blocks.projection import spread
from avow.core.contracts import Encoded
from avow.core.errors import BadRecipe
from avow.core.keywords import with_keywords
from avow.methods._memory import remembered
from avow.methods._partwise import Pairing, Partwise, PartwiseSettings, Side

Mode = Literal["full", "text", "image"]


class Memory(nn.Module):
    """The memory distillation unit: updates a query with what it attended to.

    | symbol of the paper | here                     |
    |---------------------|--------------------------|
    | query, x            | `query`                  |
    | attended, c         | `weights`, `projections` |
    | gate, g             | `gate`                   |
    | fresh content, o    | `fresh`                  |
    """

    def __init__(self, dim: int, norm: bool):
        super().__init__()
        self.fresh = spread(nn.Linear(2 * dim, dim))
        self.gate = spread(nn.Linear(2 * dim, dim))
        self.norm = norm

    def forward(
        self,
        query: Float[Tensor, "#contexts rows dim"],
        weights: Float[Tensor, "contexts rows context_parts"],
        projections: "Projections",
    ) -> Float[Tensor, "contexts rows dim"]:
        if torch.is_grad_enabled() and self.forgets_gates(query):
            return self._normed(self._learnt(query, weights, projections))
        gate = _mixed(self.gate, query, weights, projections[0])
        fresh = _mixed(self.fresh, query, weights, projections[1])
        if torch.is_grad_enabled() or len(weights) == 1:  # or `vmap`, as below
            new = torch.lerp(fresh.tanh(), query.expand_as(fresh), gate.sigmoid())
        else:  # without gradients, in place
            new = fresh.tanh_().lerp_(query.expand_as(fresh), gate.sigmoid_())
        return self._normed(new)

    def forgets_gates(self, query: Tensor) -> bool:
        """Whether gates are made once more for the gradient (`_memory`), and not kept.

        Without kernels that takes longer than keeping them.
        """
        return fused.can_learn(query)

    def _normed(self, new: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
        return unit(precise(new)).to(new.dtype) if self.norm else new

    def _learnt(
        self,
        query: Float[Tensor, "#contexts rows dim"],
        weights: Float[Tensor, "contexts rows context_parts"],
        projections: "Projections",
    ) -> Float[Tensor, "contexts rows dim"]:
        kind, layers = query.dtype, (self.gate, self.fresh)
        of_query = torch.cat([layer.weight.chunk(2, dim=1)[0] for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        context = torch.cat(projections, -1)
        return remembered(query, weights.to(kind), context, of_query.to(kind), bias.to(kind))

    def project(self, context: Float[Tensor, "contexts context_parts dim"]) -> "Projections":
        """The context's part of the inputs of `gate` and `fresh`, shared by all queries."""
        return _project_context(self.gate, context), _project_context(self.fresh, context)


Projections = tuple[
    Float[Tensor, "contexts context_parts dim"], Float[Tensor, "contexts context_parts dim"]
]


def _project_context(
    layer: nn.Linear, context: Float[Tensor, "contexts context_parts dim"]
) -> Float[Tensor, "contexts context_parts dim"]:
    kind = context.dtype
    of_attended = layer.weight.to(kind).chunk(2, dim=1)[1]
    # weights sum to one, so the bias may come with the context, which is smaller
    bias = None if torch.is_grad_enabled() else layer.bias.to(kind)
    return nn.functional.linear(context, of_attended, bias)


def _mixed(
    layer: nn.Linear,
    query: Float[Tensor, "#contexts rows dim"],
    weights: Float[Tensor, "contexts rows context_parts"],
    of_context: Float[Tensor, "contexts context_parts dim"],
) -> Float[Tensor, "contexts rows dim"]:
    """`layer` of each query joined with what it attends to; the join is not formed."""
    kind = of_context.dtype
    of_query = layer.weight.to(kind).chunk(2, dim=1)[0]
    if torch.is_grad_enabled():
        of_rows = nn.functional.linear(query, of_query, layer.bias.to(kind))
    else:
        of_rows = nn.functional.linear(query, of_query.contiguous())
    # a single context may be one of many under `vmap`, which does not support `out`
    if len(of_rows) == len(weights) > 1 and not torch.is_grad_enabled():
        return torch.baddbmm(of_rows, weights.to(kind), of_context, out=of_rows)
    return torch.baddbmm(of_rows.expand(len(weights), -1, -1), weights.to(kind), of_context)


@dataclass(frozen=True)
class _Projected(Encoded):
    """Items that are attended to, with their projections for a memory."""

    projections: Projections | None = None


class RecurrentAttention(Pairing):
    """Steps of attention from words to regions, from regions to words, or both."""

    tile_mb = 64

    def __init__(self, mode: Mode, steps: int, dim: int, memory_norm: bool, how: Focus):
        super().__init__()
        self.mode, self.steps, self.dim, self.how = mode, steps, dim, how
        self.rounded = False
        """Whether what is remembered is rounded to bfloat16 while learning."""
        remembers = steps > 1
        words, regions = (remembers and mode != other for other in ("image", "text"))
        self.words = Memory(dim, memory_norm) if words else None
        self.regions = Memory(dim, memory_norm) if regions else None
        self.largest = float(steps * (2 if mode == "full" else 1))

    def forward(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        scores = []
        if self.mode != "image":
            scores.append(self.each_step(text, visual, self.words).sum(0))
        if self.mode != "text":
            scores.append(self.each_step(visual, text, self.regions).sum(0).T)
        return torch.stack(scores).sum(0)

    def prepare(self, tile: Encoded, side: Side) -> Encoded:
        memory = self.words if side == "image" else self.regions
        if memory is None or not is_worthwhile(tile.parts):
            return tile
        return _Projected(tile.parts, tile.present, projections=memory.project(tile.parts))

    def numbers(self, regions: int, words: int) -> int:
        looking = max(
            words if self.mode != "image" else 0, regions if self.mode != "text" else 0
        )
        return max(looking * self.dim, regions * words)

    def each_step(
        self, query: Encoded, context: Encoded, memory: Memory | None
    ) -> Float[Tensor, "steps contexts queries"]:
        """The score of every step, one direction."""
        first = raw_products(query, context)
        products, among = first, gram(context)
        kind = query.parts.dtype
        if self.rounded and torch.is_grad_enabled():
            kind = torch.bfloat16
        state, seen = query.parts.flatten(0, 1)[None].to(kind), context.parts.to(kind)
        projections = context.projections if isinstance(context, _Projected) else None
        if projections is None and memory is not None:
            projections = memory.project(seen)
        scores = []
        for step in range(self.steps):
            weights = self.how(products, query, context)
            cosine = attended_cosine(first, weights, query, among)
            scores.append(mean_of_present(cosine, query.present))
            if memory is not None and projections is not None and step + 1 < self.steps:
                state = memory(state, weights.flatten(1, 2), projections)
                products = precise(state @ seen.mT).view(first.shape)
        return torch.stack(scores)


@dataclass(frozen=True, kw_only=True)
class Settings(PartwiseSettings):
    """mode: who looks, words ("text"), regions ("image") or both. steps: how often.

    smooth: how sharply attention chooses.
    raw_feature_norm: how products become comparable across query parts before that.
    memory_bf16: what is remembered, and the products that make it, are in bfloat16 while
    learning: half the memory, and twice the speed of products. Attention and scores are not.
    """

    mode: Mode = "full"
    steps: int = 3
    memory_norm: bool = False
    smooth: float = 9.0
    raw_feature_norm: FocusNorm = "clipped_l2norm"
    memory_bf16: bool = False


def _build(chosen: Settings) -> Partwise:
    steps, how = chosen.steps, Focus(chosen.smooth, chosen.raw_feature_norm)
    if steps < 1:
        raise BadRecipe(
            f"steps of 'imram' in methods is '{steps}'. Expected at least 1. Look once or more."
        )
    pairing = RecurrentAttention(chosen.mode, steps, chosen.dim, chosen.memory_norm, how)
    pairing.rounded = chosen.memory_bf16
    return Partwise(pairing, chosen)


build = with_keywords(Settings, _build)
