"""The nodes of SAF and SGR where a gradient is wanted: unit vectors without what lies between.

Forth, in 16 bits on a device, the kernel `compare` goes from the attention to unit vectors,
as it does for scores that are only read; it also keeps how long they were. Back, gaps are
formed a second time (`_gaps`). Elsewhere both go operation by operation. Passes over the
gaps, the widest tensor (1 GB for 128 x 128 pairs in bfloat16), and over the nodes (0.3 GB):

                          gaps forth  back   nodes forth  back
    operation by operation     4       13         6        13
    with kernels               0       10         1         3
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from avow.blocks import fused
from avow.methods._gaps import gaps_back, write_gaps

_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it


@dataclass(frozen=True)
class Compared:
    """What nodes are made of."""

    weights: Float[Tensor, "images words regions"]
    regions: Float[Tensor, "images regions dim"]
    words: Float[Tensor, "words dim"]
    image_gists: Float[Tensor, "images dim"]
    text_gists: Float[Tensor, "texts dim"]


def learnt_nodes(
    given: Compared, local: fused.Layer, whole: fused.Layer, most: int
) -> Float[Tensor, "images texts nodes narrow"]:
    """Node 0 of a pair compares gists by `whole`, the others words by `local`.

    most: bytes that one block of gaps may take.
    """
    size = given.words.numel() * given.words.element_size()
    sides = given.weights, given.regions, given.words, given.image_gists, given.text_gists
    return _Nodes.apply(*sides, *local, *whole, max(1, most // size))  # type: ignore[return-value]


class _Nodes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        weights, regions, words, image_gists, text_gists, *layers, step = given
        local, whole = tuple(layers[:2]), tuple(layers[2:])
        texts = len(text_gists)
        shape = len(regions), texts, len(words) // texts + 1
        nodes = words.new_empty(*shape, len(local[0]))
        lengths = words.new_empty(shape, dtype=torch.promote_types(words.dtype, torch.float32))
        if not (
            fused.can_learn(words)
            and fused.is_possible(words)
            and fused.gist_nodes(image_gists, text_gists, whole, nodes, lengths)
            and fused.word_nodes(weights, regions, words, local, nodes, lengths)
        ):
            flat = torch.empty_like(nodes[:, :, 1:]).flatten(1, 2)
            write_gaps(weights, regions, words, local, flat, step)
            nodes[:, :, 1:] = flat.unflatten(1, (texts, -1))
            flat = torch.empty_like(nodes[:, :, 0])
            write_gaps(None, image_gists[:, None], text_gists, whole, flat, step)
            nodes[:, :, 0] = flat
            torch.linalg.vector_norm(nodes, dim=-1, dtype=lengths.dtype, out=lengths)
            nodes /= (lengths + _EPSILON)[..., None].to(nodes.dtype)
        saved = (weights, regions, words, image_gists, text_gists, local[0], whole[0])
        ctx.save_for_backward(*saved, nodes, lengths)
        ctx.step = step
        return nodes

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        weights, regions, words, image_gists, text_gists, local, whole, nodes, lengths = (
            ctx.saved_tensors
        )
        slope = unit_slopes(nodes, lengths, slopes[0].contiguous())
        of_words = slope[:, :, 1:].flatten(1, 2)
        to_weights, to_regions, to_words, to_local, to_local_bias = gaps_back(
            weights, regions, words, local, of_words, ctx.step
        )
        _, to_images, to_texts, to_whole, to_whole_bias = gaps_back(
            None, image_gists[:, None], text_gists, whole, slope[:, :, 0].contiguous(), ctx.step
        )
        sides = to_weights, to_regions, to_words, to_images[:, 0], to_texts
        return *sides, to_local, to_local_bias, to_whole, to_whole_bias, None


def unit_slopes(
    units: Float[Tensor, "*rows dim"],
    lengths: Float[Tensor, "*rows"],
    slope: Float[Tensor, "*rows dim"],
) -> Float[Tensor, "*rows dim"]:
    """The slope of x, where x / (|x| + eps) are the units and |x| the lengths."""
    out, narrow, how = torch.empty_like(units), units.shape[-1], fused.CHOICES["unit_back"]

    def launch(kernels: ModuleType) -> None:
        kernels.unit_back[(fused.tiles(lengths.numel(), how["ROWS"]),)](
            units, lengths, slope, out, lengths.numel(), _EPSILON, S=narrow, **how
        )

    handy = fused.power(narrow) == narrow and fused.can_learn(units)
    if handy and fused.done("unit_back", units, launch):
        return out
    longer = (lengths + _EPSILON)[..., None]
    along = (units * slope).sum(-1, keepdim=True, dtype=lengths.dtype)
    along = along * longer / lengths[..., None].clamp(min=1e-30)
    return ((slope - units * along) / longer).to(units.dtype)
