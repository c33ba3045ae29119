"""The match vectors of GSMN from products alone.

A match vector holds, block by block of channels, the cosine of a node with what it gathers.
With the weights w of one region over the words c of a caption, and b for a block,

    region_b . gathered_b = sum of w (region_b . c_b)     |gathered_b|^2 = w G_b w

so that what is gathered is never formed. Both directions share the products of the blocks,
whose sum over blocks are the products by which nodes choose. For R = 36 regions, L = 12
words, D = 1024 numbers in B = 16 blocks, per image and text:

                        multiplications                         largest tensor, float32
    forming it          3 RLD                  1,327,000        4 (R + L) D bytes  197 kB
    from the products   RLD + BRL (R + L)        774,000        4 BRL bytes         28 kB
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from avow.blocks import attention_inference as inference
from avow.blocks.attention import Focus, focus
from avow.blocks.normalise import precise
from avow.core.contracts import Encoded

_EPSILON = 1e-8


@dataclass(frozen=True)
class Blocks(Encoded):
    """Items of one side, as the products of another side ask for them."""

    by_block: Float[Tensor, "blocks rows width"] | None = None
    """Every part of every item; regions item by item, words part by part."""
    among: Float[Tensor, "items blocks parts parts"] | None = None
    lengths: Float[Tensor, "blocks items parts"] | None = None
    spread: Tensor | None = None
    """How nodes hear each other: the kernels of a visual graph, the links of a textual one."""


def in_blocks(items: Encoded, blocks: int, spread: Tensor, part_by_part: bool) -> Blocks:
    parts = items.parts
    split = parts.unflatten(-1, (blocks, -1)).transpose(1, 2)
    ordered = parts.transpose(0, 1) if part_by_part else parts
    rows = ordered.flatten(0, 1).unflatten(-1, (blocks, -1)).transpose(0, 1)
    return Blocks(
        parts,
        items.present,
        by_block=rows.contiguous(),
        among=split @ split.mT,
        lengths=torch.linalg.vector_norm(split, dim=-1).transpose(0, 1),
        spread=spread,
    )


def block_matches(
    visual: Blocks, text: Blocks, how: Focus
) -> tuple[
    Float[Tensor, "images texts regions blocks"], Float[Tensor, "images texts words blocks"]
]:
    """Of every region with what it gathers of a text, and of every word of an image."""
    assert visual.by_block is not None and text.by_block is not None, "made by `in_blocks`"
    assert visual.lengths is not None and text.lengths is not None
    (images, regions), (texts, words) = visual.present.shape, text.present.shape
    products = torch.bmm(visual.by_block, text.by_block.mT)
    products = products.view(-1, images, regions, words, texts)
    total = products.sum(0)
    region_present, word_present = visual.present[:, :, None, None], text.present.T

    chosen = inference.focus(total, region_present, word_present, how, along=1)
    by_text = chosen.view(-1, words, texts).permute(2, 1, 0).contiguous()
    square = _squares(by_text, text).view(texts, -1, images, regions)
    dot = torch.mul(products, chosen).sum(3).permute(3, 0, 1, 2)
    total_weight = by_text.sum(1).view(texts, 1, images, regions)
    by_region = inference.cosine(dot, square, total_weight, visual.lengths).permute(2, 0, 3, 1)

    chosen = inference.focus(total, word_present, region_present, how, along=2)
    square = _squares(chosen.flatten(2), visual).view(images, -1, words, texts)
    dot = products.mul_(chosen).sum(2).transpose(0, 1)
    by_word = inference.cosine(dot, square, chosen.sum(1)[:, None], text.lengths.mT)
    by_word = by_word.permute(0, 3, 2, 1)
    return by_region, by_word


def _squares(
    weights: Float[Tensor, "items parts rows"], context: Blocks
) -> Float[Tensor, "items blocks rows"]:
    """The squared length of what is gathered, block by block."""
    assert context.among is not None
    formed = torch.bmm(context.among.flatten(1, 2), weights)
    return formed.view(*context.among.shape[:3], -1).mul_(weights[:, None]).sum(2)


def learnt_block_matches(
    visual: Encoded, text: Encoded, blocks: int, smooth: float
) -> tuple[
    Float[Tensor, "images texts regions blocks"], Float[Tensor, "images texts words blocks"]
]:
    """The same where a gradient is wanted, of what is encoded."""
    (images, regions), (texts, words) = visual.present.shape, text.present.shape
    region_present, word_present = visual.present[:, None], text.present[None]
    flat = visual.parts.flatten(0, 1), text.parts.flatten(0, 1)
    total = precise(flat[0] @ flat[1].T).view(images, regions, texts, words).transpose(1, 2)
    split = [rows.unflatten(-1, (blocks, -1)).transpose(0, 1) for rows in flat]
    products = precise(split[0] @ split[1].mT).view(-1, images, regions, texts, words)

    chosen = focus(total, region_present, word_present, smooth)  # [i, t, r, w]
    dot = (products * chosen.transpose(1, 2)).sum(-1).permute(1, 3, 2, 0)
    square = _learnt_squares(chosen.transpose(0, 1), text.parts, blocks).transpose(0, 1)
    by_region = _learnt_cosine(dot, square, visual.parts[:, None])

    chosen = focus(total.mT, word_present, region_present, smooth)  # [i, t, w, r]
    dot = (products * chosen.permute(0, 3, 1, 2).contiguous()).sum(2).permute(1, 2, 3, 0)
    by_word = _learnt_cosine(
        dot, _learnt_squares(chosen, visual.parts, blocks), text.parts[None]
    )
    return by_region, by_word


def _learnt_squares(
    chosen: Float[Tensor, "items others queries parts"],
    parts: Float[Tensor, "items parts dim"],
    blocks: int,
) -> Float[Tensor, "items others queries blocks"]:
    """The squared length of what is gathered of each item, block by block.

    Where it cancels out, products lose digits; so these are not rounded to tf32.
    """
    split = precise(parts).unflatten(-1, (blocks, -1)).transpose(1, 2)
    weights = chosen.contiguous()
    with _unrounded():
        among = (split @ split.mT).transpose(1, 2).flatten(2)  # [items, parts, blocks parts]
        formed = torch.bmm(weights.flatten(1, 2), among)
    formed = formed.view(*weights.shape[:3], blocks, -1)
    return (formed * weights[..., None, :]).sum(-1)


def _learnt_cosine(
    dot: Float[Tensor, "images texts nodes blocks"],
    square: Float[Tensor, "images texts nodes blocks"],
    own: Float[Tensor, "#images #texts nodes dim"],
) -> Float[Tensor, "images texts nodes blocks"]:
    length = torch.linalg.vector_norm(
        own.unflatten(-1, (dot.shape[-1], -1)), dim=-1, dtype=dot.dtype
    )
    # at a length of 0 the root has no gradient
    gathered = square.clamp(min=_EPSILON**2).sqrt()
    return dot / (length * gathered).clamp(min=_EPSILON)


@contextmanager
def _unrounded() -> Iterator[None]:
    """Products of float32 numbers in all their digits, also where tf32 is allowed."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
