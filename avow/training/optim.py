"""What is trained how fast: parameter groups, the learning rate over time, clipping."""

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer, RAdam

from avow.assembly.recipe import Training
from avow.core.contracts import Method


def build_optimiser(views: Sequence[Method], train: Training) -> Optimizer:
    """One group of fresh parameters and one of pretrained ones, which go slower."""
    slow = {id(p) for view in views for p in view.pretrained_parameters()}
    everything = [p for view in views for p in view.parameters()]
    groups = [{"params": [p for p in everything if id(p) not in slow], "speed": 1.0}]
    if slow:
        chosen = [p for p in everything if id(p) in slow]
        groups.append({"params": chosen, "speed": train.pretrained_lr})
    if train.optimiser == "radam":
        decay = train.weight_decay
        return RAdam(groups, lr=train.lr, weight_decay=decay, decoupled_weight_decay=True)
    kind = {"adamw": AdamW, "adam": Adam}[train.optimiser]
    fused = everything[0].is_cuda
    return kind(groups, lr=train.lr, weight_decay=train.weight_decay, fused=fused)


def set_rates(
    optimiser: Optimizer, train: Training, epoch: int, batch: int = 0, batches: int = 1
) -> float:
    """Set every group's learning rate for a batch of `epoch`; return the main one."""
    rate = train.lr * share_of_rate(train, epoch, batch, batches)
    for group in optimiser.param_groups:
        group["lr"] = rate * group["speed"]
    return rate


def share_of_rate(train: Training, epoch: int, batch: int = 0, batches: int = 1) -> float:
    """The share of the full rate for `batch` of `batches` in `epoch`, both counted from 0."""
    done = epoch * batches + batch
    if train.schedule == "cosine":
        share = (1 + math.cos(math.pi * epoch / train.epochs)) / 2
    elif train.schedule == "cosine_batches":
        share = (1 + math.cos(math.pi * done / (train.epochs * batches))) / 2
    elif train.schedule == "exponential":
        share = train.decay**epoch
    else:
        share = train.decay ** _cuts(train, epoch)
    warm = min(1, (done + 1) / train.warm_up) if train.warm_up else 1
    return warm * share


def _cuts(train: Training, epoch: int) -> int:
    """How often the rate was cut before `epoch`."""
    if epoch < train.decay_after:
        return 0
    return 1 + (epoch - train.decay_after) // train.decay_every if train.decay_every else 1


def let_rest(views: Sequence[Method], resting: bool) -> None:
    """Compute no gradients at all for pretrained parameters while they rest.

    Only for one process: several agree beforehand on which gradients they exchange.
    """
    for view in views:
        for parameter in view.pretrained_parameters():
            parameter.requires_grad_(not resting)


def hold_back(views: Sequence[Method]) -> None:
    """Forget the gradients of pretrained parameters: this step leaves them alone.

    The parameters stay part of the graph, so every process sees the same set of
    gradients; an optimiser that finds none neither moves them nor remembers anything.
    """
    for view in views:
        for parameter in view.pretrained_parameters():
            parameter.grad = None


def clip(views: Sequence[nn.Module], most: float) -> None:
    """Bound the gradient norm of each view by itself, without waiting for the device."""
    if most > 0:
        for view in views:
            torch.nn.utils.clip_grad_norm_(view.parameters(), most)
