"""What a stochastic pass leaves to chance, and how the network is itself again after it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from avow.core.seeds import mix


class Chance(ABC):
    """A way to draw one model out of many that the trained weights stand for."""

    layers: list[nn.Module]
    """Where chance enters."""

    @abstractmethod
    def drawn(self, *seed: int | str) -> AbstractContextManager[None]:
        """Inside, the networks are the one model that `seed` draws; after, as before."""

    def met(self, run: Callable[[], Any]) -> bool:
        """Whether `run` passes through a layer that is left to chance."""
        reached: list[nn.Module] = []
        hooks = [
            layer.register_forward_hook(lambda layer, *_: reached.append(layer))
            for layer in self.layers
        ]
        try:
            run()
        finally:
            for hook in hooks:
                hook.remove()
        return bool(reached)


class KeptDropout(Chance):
    """Dropout as in training, everything else as in evaluation.

    Only layers of their own count; a transformer's dropout inside its attention weights is
    no layer, and stays off.
    """

    def __init__(self, networks: Sequence[nn.Module]):
        self.layers = [
            layer
            for network in networks
            for layer in network.modules()
            if isinstance(layer, _DropoutNd) and layer.p > 0
        ]
        self._devices = _cuda_devices(networks)

    @contextmanager
    def drawn(self, *seed: int | str) -> Iterator[None]:
        before = [layer.training for layer in self.layers]
        with torch.random.fork_rng(self._devices):
            torch.manual_seed(mix(*seed))
            try:
                for layer in self.layers:
                    layer.train()
                yield
            finally:
                for layer, training in zip(self.layers, before, strict=True):
                    layer.train(training)


def _cuda_devices(networks: Sequence[nn.Module]) -> list[int]:
    """Whose generators are to be put back afterwards."""
    places = {weight.device for network in networks for weight in network.parameters()}
    return sorted(place.index or 0 for place in places if place.type == "cuda")
