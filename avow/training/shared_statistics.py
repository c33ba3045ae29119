"""Batch normalisation over the batch of all processes, for runs that gather.

With `gather` the loss sees the items of all processes, and so must the statistics by which
they are encoded, or two processes learn something else than one. A layer that normalises is
given the inputs of all processes, computes as ever, and hands back the rows of its own.

    share_statistics(views)      before `loop.train`; changes nothing where one process trains

What compares pairs after gathering (SAF's normalisation per caption) sees all items already.
"""

import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from avow.blocks.running_norm import RunningNorm


class _SharedInputs(nn.Module):
    """Before a class that normalises: its forward on the inputs of all processes."""

    def forward(self, *inputs: Tensor) -> Tensor:
        alone = not dist.is_initialized() or dist.get_world_size() == 1
        if alone or not self.training:
            return super().forward(*inputs)
        first, own = _places(inputs[0])
        if len(inputs) == 1:
            return super().forward(_from_all(inputs[0]))[first : first + own]
        longest = torch.tensor(inputs[0].shape[1], device=inputs[0].device)
        dist.all_reduce(longest, dist.ReduceOp.MAX)
        everyone = [_from_all(_widened(one, int(longest))) for one in inputs]
        return super().forward(*everyone)[first : first + own, : inputs[0].shape[1]]


def share_statistics(views: Iterable[nn.Module]) -> None:
    """Let every layer that normalises items of a batch see those of all processes."""
    for view in views:
        for layer in view.modules():
            if isinstance(layer, _BatchNorm) or _takes_parts(type(layer)):
                layer.__class__ = _shared(type(layer))


@cache
def _shared(kind: type[nn.Module]) -> Any:
    if issubclass(kind, _SharedInputs):
        return kind
    return type(kind.__name__, (_SharedInputs, kind), {})


def _takes_parts(kind: type[nn.Module]) -> bool:
    """Whether a normalisation of our own is of items; others are of compared pairs."""
    if not issubclass(kind, RunningNorm):
        return False
    return list(inspect.signature(kind.forward).parameters) == ["self", "parts", "present"]


def _places(rows: Tensor) -> tuple[int, int]:
    """Where the rows of this process stand among all, and how many they are."""
    counts = _counts(rows)
    return sum(counts[: dist.get_rank()]), len(rows)


def _counts(rows: Tensor) -> list[int]:
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=rows.device)
    counts[dist.get_rank()] = len(rows)
    dist.all_reduce(counts)
    return counts.tolist()


def _widened(
    items: Shaped[Tensor, "items parts ..."], longest: int
) -> Shaped[Tensor, "items longest ..."]:
    """Room for as many parts as the widest process has."""
    missing = (len(items), longest - items.shape[1], *items.shape[2:])
    return torch.cat([items, items.new_zeros(missing)], 1)


def _from_all(rows: Shaped[Tensor, "rows ..."]) -> Shaped[Tensor, "everyone ..."]:
    """The rows of all processes in order of rank; gradients flow back to each."""
    counts, rank = _counts(rows), dist.get_rank()
    numbers = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
    before = numbers.new_zeros((sum(counts[:rank]), *rows.shape[1:]))
    after = numbers.new_zeros((sum(counts[rank + 1 :]), *rows.shape[1:]))
    total = _Sum.apply(torch.cat([before, numbers, after]))
    return total.to(rows.dtype)


class _Sum(torch.autograd.Function):
    """The sum over all processes, of values and of gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _Sum.apply(gradients[0].contiguous())
