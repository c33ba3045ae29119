"""Every image against every text, in blocks, under a memory budget.

Items are encoded once and kept in host memory; scores are computed block by block on the
device. A score matrix larger than the budget lies in a temporary file instead of memory.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from avow.blocks import fused
from avow.core.contracts import Encoded, Method, Regions, Tokens
from avow.core.device import multiplies_bf16
from avow.core.errors import BadRecipe

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
_BUFFER = 8 * 2**20


@dataclass(frozen=True)
class Blocks:
    """How much is done at once, and how exactly."""

    encode: int = 256
    images: int = 512
    texts: int = 4096
    memory: int = 2 * 2**30
    """Bytes of host memory that all score matrices together may take."""
    precision: Precision = "fp32"
    """Of products: all but "fp32" round what is multiplied, never sums or norms."""


@torch.inference_mode()
def encode(
    encoder: Callable[[Regions], Encoded] | Callable[[Tokens], Encoded],
    batches: Iterator[Regions] | Iterator[Tokens],
    device: torch.device | str,
) -> Encoded:
    """Encode batch after batch; the result lies in host memory."""
    done = [encoder(batch.to(device)).to("cpu") for batch in batches]  # type: ignore[arg-type]
    longest = max(part.parts.shape[1] for part in done)
    padded = [part.resized(longest) for part in done]
    return Encoded(
        torch.cat([part.parts.float() for part in padded]),
        torch.cat([part.present for part in padded]),
        _joined([part.boxes for part in padded]),
        _joined([part.edges for part in padded]),
    )


def _joined(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """One after the other, where every one of them is there."""
    given = [tensor for tensor in tensors if tensor is not None]
    return torch.cat(given) if len(given) == len(tensors) else None


@torch.inference_mode()
def compare(
    method: Method,
    visual: Encoded,
    text: Encoded,
    device: torch.device | str,
    blocks: Blocks,
    matrices: int = 1,
    progress: bool = False,
) -> Float[np.ndarray, "images texts"]:
    """The similarity of every pair. `matrices`: how many share the memory budget."""
    shape = (len(visual.parts), len(text.parts))
    out = _matrix(shape, blocks.memory // matrices)
    rounded = _kind(method, blocks.precision, device)
    steps = range(0, shape[0], blocks.images)
    for top in tqdm(steps, desc="scoring", disable=not progress, leave=False, delay=2):
        rows = _take(visual, top, top + blocks.images, device, rounded)
        for left in range(0, shape[1], blocks.texts):
            columns = _take(text, left, left + blocks.texts, device, rounded)
            scores = similarity(method, rows, columns, blocks.precision)
            out[top : top + blocks.images, left : left + blocks.texts] = scores.cpu().numpy()
    return out


def similarity(
    method: Method, visual: Encoded, text: Encoded, precision: Precision
) -> Float[Tensor, "images texts"]:
    """`method.similarity` with its products in this precision; the answer is float32."""
    kind = _kind(method, precision, visual.parts.device)
    if kind is not None:
        rounded = [in_kind(items, kind) for items in (visual, text)]
        with multiplying(precision):
            scores = method.similarity(*rounded).float()
        # float16 ends at 65,504, which no unit vector reaches, but what is learnt might
        if kind != torch.float16 or bool(scores.isfinite().all()):
            return scores
        visual, text = (replace(items, parts=items.parts.float()) for items in (visual, text))
    with multiplying(precision):
        return method.similarity(visual, text).float()


def in_kind(items: Encoded, kind: torch.dtype) -> Encoded:
    """`items` with their parts rounded.

    A processor without products of bfloat16 takes the rounded numbers as float32; its
    products of bfloat16 are made one number after the other.
    """
    parts = items.parts.to(kind)
    if kind == torch.bfloat16 and not multiplies_bf16(parts.device):
        parts = parts.float()
    return replace(items, parts=parts)


def _kind(
    method: Method, precision: Precision, device: torch.device | str
) -> torch.dtype | None:
    """What parts are rounded to before they are compared; None: to nothing.

    float16 keeps ten binary digits of what is multiplied, as tf32 does and three more than
    bfloat16, at the speed of that. It is taken where kernels read it; elsewhere tf32 is.
    """
    if precision == "bf16" and method.takes_bf16:
        return torch.bfloat16
    if precision == "fp16" and method.takes_fp16 and torch.device(device).type == "cuda":
        like = torch.empty(0, dtype=torch.float16, device=device)
        return torch.float16 if fused.is_possible(like) else None
    return None


@contextmanager
def multiplying(precision: Precision) -> Iterator[None]:
    """Whether float32 products may be rounded to tf32 where the device can."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def from_vectors(
    images: Float[np.ndarray, "images dim"],
    texts: Float[np.ndarray, "texts dim"],
    blocks: Blocks,
    progress: bool = False,
) -> Float[np.ndarray, "images texts"]:
    """The dot product of every pair of given vectors."""
    out = _matrix((len(images), len(texts)), blocks.memory)
    steps = range(0, len(images), blocks.images)
    for top in tqdm(steps, desc="scoring", disable=not progress, leave=False, delay=2):
        part = torch.from_numpy(np.array(images[top : top + blocks.images]))
        for left in range(0, len(texts), blocks.texts):
            other = torch.from_numpy(np.array(texts[left : left + blocks.texts]))
            out[top : top + blocks.images, left : left + blocks.texts] = part @ other.T
    return out


def batches(count: int, size: int) -> Iterator[np.ndarray]:
    """Consecutive positions 0 … count-1, `size` at a time."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def read_size(text: str) -> int:
    """Bytes from "2GB", "512 MB" or a plain number."""
    units = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40, "": 1}
    cleaned = text.strip().upper().removesuffix("IB").removesuffix("B")
    number = cleaned.rstrip("KMGT ")
    unit = cleaned[len(number) :].strip()
    try:
        return int(float(number) * units[f"{unit}B" if unit else ""])
    except (ValueError, KeyError) as error:
        raise BadRecipe(
            f"The size {text!r} cannot be read. Expected a number and a unit, such as 2GB."
        ) from error


def _take(
    encoded: Encoded,
    start: int,
    stop: int,
    device: torch.device | str,
    kind: torch.dtype | None,
) -> Encoded:
    """A block of items, without the padding that none of them needs."""
    block = encoded.rows(slice(start, stop))
    needed = int(block.present.any(0).nonzero().max()) + 1
    if needed < block.parts.shape[1]:  # else it would be copied to no end
        block = block.resized(needed)
    if kind and torch.device(device).type == "cuda" and not block.parts.is_cuda:
        block = replace(block, parts=_carried(block.parts, device, kind))
    return block.to(device)


def _carried(
    parts: Float[Tensor, "items parts dim"], device: torch.device | str, kind: torch.dtype
) -> Float[Tensor, "items parts dim"]:
    """In 16 bits on the device, rounded here: half as many bytes travel.

    They go through two buffers that the device reads by itself, one being filled while the
    other is read. Any other memory the driver would first copy, with one thread.
    """
    out = torch.empty(parts.shape, dtype=kind, device=device)
    step = max(1, _BUFFER // (2 * parts[0].numel()))
    shape = (min(step, len(parts)), *parts.shape[1:])
    with torch.cuda.device(out.device):
        buffers = [torch.empty(shape, dtype=out.dtype, pin_memory=True) for _ in range(2)]
        read = [torch.cuda.Event() for _ in buffers]
        for turn, start in enumerate(range(0, len(parts), step)):
            some, event = parts[start : start + step], read[turn % 2]
            event.synchronize()
            here = buffers[turn % 2][: len(some)].copy_(some)
            out[start : start + step].copy_(here, non_blocking=True)
            event.record()
    return out


def _matrix(shape: Sequence[int], budget: int) -> np.ndarray:
    size = 4 * shape[0] * shape[1]
    if size <= budget:
        return np.empty(shape, np.float32)
    handle, path = tempfile.mkstemp(suffix=".scores")
    os.close(handle)
    out = np.memmap(path, np.float32, "w+", shape=(shape[0], shape[1]))
    os.unlink(path)  # the mapping keeps it alive; nothing is left behind
    return out
