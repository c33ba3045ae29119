"""Batch normalisation with drawn statistics: how mini-batches vary, learnt and drawn.

In training a layer normalises with the mean and variance of its mini-batch, so it is a
different network for every batch. Here training batches pass a trained network once more,
without learning, and per channel the batch mean is summed up as a normal and the batch
variance as a log-normal distribution. Drawing from them gives one model per pass; the
running statistics of plain evaluation are its weight averaging.

Paper: Atanov et al., "Uncertainty Estimation via Stochastic Batch Normalization", ICLR
workshop 2018.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from avow.assembly.pairs import FeaturedSplit
from avow.assembly.stochastic.chance import Chance
from avow.core.contracts import Method, Regions
from avow.core.errors import BadData, WrongCheckpoint
from avow.core.files import new_file
from avow.core.seeds import generator

FILE = "batch_statistics.safetensors"
"""Beside the weights of a model; a backbone's may lie there under another name."""
_LEAST = 1e-12  # a dead channel has no variance, and its logarithm no end

T = TypeVar("T")


@dataclass(frozen=True)
class BatchStatistics:
    """Per layer: mean and spread of the batch mean, mean and spread of its log variance."""

    layers: Mapping[str, Float[Tensor, "4 channels"]]

    @classmethod
    def collect(
        cls, network: nn.Module, forward: Callable[[T], Any], batches: Iterable[T]
    ) -> "BatchStatistics":
        """Pass training batches through `network`, a method or a backbone, by `forward`.

        Nothing is learnt: weights, running statistics and modes stay as they are.
        """
        by_layer: dict[str, list[Tensor]] = {}
        with torch.no_grad(), _batch_mode(network, by_layer):
            for batch in batches:
                forward(batch)
        fewest = min(map(len, by_layer.values()), default=0)
        if fewest < 2:
            raise BadData(
                f"Batch normalisation saw {fewest} batches. Expected a network that has it "
                "and at least 2 batches, better 100; pass more of them."
            )
        return cls({name: _summary(torch.stack(moments)) for name, moments in by_layer.items()})

    def save(self, path: Path) -> None:
        with new_file(path) as fresh:
            save_file(dict(self.layers), fresh)

    @classmethod
    def open(cls, path: Path) -> "BatchStatistics":
        try:
            return cls(load_file(path))
        except (OSError, SafetensorError) as error:
            raise WrongCheckpoint(
                f"The batch statistics {str(path)!r} cannot be read ({error}). Expected a "
                "file that `BatchStatistics.save` wrote; collect them again."
            ) from error


class DrawnStatistics(Chance):
    """Every layer of `network` that was observed, with statistics of its own per pass."""

    def __init__(self, network: nn.Module, statistics: BatchStatistics):
        modules = dict(network.named_modules())
        pairs = [(modules.get(name), numbers) for name, numbers in statistics.layers.items()]
        for (layer, numbers), name in zip(pairs, statistics.layers, strict=True):
            if not isinstance(layer, _BatchNorm) or layer.num_features != numbers.shape[1]:
                raise WrongCheckpoint(
                    f"The batch statistics name a layer {name!r} of {numbers.shape[1]} "
                    "channels that the network does not have. Expected those of the same "
                    "network; collect them again."
                )
        self.layers = [layer for layer, _ in pairs if layer is not None]
        self._numbers = [numbers for _, numbers in pairs]

    @contextmanager
    def drawn(self, *seed: int | str) -> Iterator[None]:
        draw = generator(*seed)
        before = [_running(layer).clone() for layer in self.layers]
        try:
            for layer, numbers in zip(self.layers, self._numbers, strict=True):
                noise = torch.randn(2, numbers.shape[1], generator=draw)
                mean = numbers[0] + numbers[1] * noise[0]
                variance = (numbers[2] + numbers[3] * noise[1]).exp()
                _set_running(layer, torch.stack([mean, variance]))
            yield
        finally:
            for layer, numbers in zip(self.layers, before, strict=True):
                _set_running(layer, numbers)


def collect_from_split(
    views: Sequence[Method],
    split: FeaturedSplit,
    device: torch.device | str,
    *,
    batch: int = 128,
    batches: int = 100,
    seed: int = 0,
) -> BatchStatistics:
    """The statistics of all views, over images drawn by their captions as in training."""

    def forward(regions: Regions) -> None:
        there = regions.to(device)
        for view in views:
            view.encode_visual(there)

    def drawn() -> Iterator[Regions]:
        draw = generator(seed, "batch statistics")
        for _ in range(batches):
            captions = torch.randperm(len(split.captions), generator=draw)[:batch]
            yield split.regions(split.image_of[captions.numpy()])

    return BatchStatistics.collect(nn.ModuleList(views), forward, drawn())


def has_batch_norm(network: nn.Module) -> bool:
    """Whether there are statistics to collect at all."""
    return any(
        isinstance(layer, _BatchNorm) and layer.track_running_stats
        for layer in network.modules()
    )


@contextmanager
def _batch_mode(network: nn.Module, by_layer: dict[str, list[Tensor]]) -> Iterator[None]:
    """Normalise with the statistics of each batch, and note them; then undo everything."""
    layers = {
        name: layer
        for name, layer in network.named_modules()
        if isinstance(layer, _BatchNorm) and layer.track_running_stats
    }
    before = {
        name: (layer.training, {key: value.clone() for key, value in layer.named_buffers()})
        for name, layer in layers.items()
    }
    hooks = [
        layer.register_forward_pre_hook(_note(by_layer.setdefault(name, [])))
        for name, layer in layers.items()
    ]
    try:
        for layer in layers.values():
            layer.train()
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for name, layer in layers.items():
            training, buffers = before[name]
            layer.train(training)
            for key, value in layer.named_buffers():
                value.copy_(buffers[key])
        for name in [name for name, moments in by_layer.items() if not moments]:
            del by_layer[name]  # a layer that `forward` does not reach


def _note(moments: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def hook(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        rows = inputs[0].transpose(0, 1).flatten(1).double()
        variance = rows.var(1, correction=0).clamp(min=_LEAST)
        moments.append(torch.stack([rows.mean(1), variance.log()]).cpu())

    return hook


def _summary(moments: Float[Tensor, "batches 2 channels"]) -> Float[Tensor, "4 channels"]:
    mean, spread = moments.mean(0), moments.std(0)
    return torch.stack([mean[0], spread[0], mean[1], spread[1]]).float()


def _running(layer: nn.Module) -> Float[Tensor, "2 channels"]:
    return torch.stack([layer.running_mean, layer.running_var])  # type: ignore[list-item]


@torch.no_grad()
def _set_running(layer: nn.Module, numbers: Float[Tensor, "2 channels"]) -> None:
    layer.running_mean.copy_(numbers[0])  # type: ignore[union-attr, operator]
    layer.running_var.copy_(numbers[1])  # type: ignore[union-attr, operator]
