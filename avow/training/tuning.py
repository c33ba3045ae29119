"""The pixel network of a run from photographs: as it is, or learning with the views.

    pixels --backbone--> cells | a fresh leaf --> views --> loss
                   \\--> classifier, held to what the frozen backbone says

The views' optimiser steps as always, however many steps a batch takes. What all of them
say about the cells adds up in the leaf's gradient, and the backbone takes one step by it.
Early layers stay as they were: they cost the most memory and see edges, not things. All
of this on one device.
"""

import copy
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, softmax
from torch.optim import AdamW

from avow.assembly.features import cell_boxes, pooled
from avow.assembly.model import Model
from avow.assembly.pairs import whole
from avow.core.contracts import Regions
from avow.core.errors import BadRecipe
from avow.training.pixels import seen

CLIP = 1.0


class Frozen:
    """A backbone that stays as it is; on an accelerator in half precision."""

    def __init__(self, backbone: Any, grid: int):
        self.average: Any = backbone if _on_processor(backbone) else backbone.half()
        """The backbone to judge with."""
        self.grid = grid

    def see(self, photographs: UInt8[Tensor, "items size size 3"]) -> Regions:
        """Cells of a batch."""
        return seen(self.average, photographs, self.grid)

    def step(self, share_of_rate: float, keep_average: float) -> None:
        """Nothing learns."""

    def settle(self, model: Model) -> None:
        """The model goes on with the backbone that it has."""


class Tuning:
    """Steps of a backbone by the gradients that its cells collect."""

    def __init__(self, backbone: Any, rate: float, first_block: int, keep: float, grid: int):
        """first_block: the first of the network's blocks that learns.

        keep: weight of the classes' divergence from those of the frozen backbone.
        """
        blocks = getattr(getattr(backbone, "network", None), "_blocks", ())
        if first_block >= len(blocks):
            raise BadRecipe(
                f"train.tune_from is {first_block}, and the backbone "
                f"{backbone.identity.get('backbone')!r} has {len(blocks)} blocks that can be "
                "trained. Expected a block that it has, counted from 0, or train.tune=0."
            )
        self.frozen: Any = copy.deepcopy(backbone)
        if not _on_processor(backbone):
            self.frozen.half()
        self.backbone: Any = backbone.float()
        self.rate, self.keep, self.grid = rate, keep, grid
        network = self.backbone.network
        learns = [*network._blocks[first_block:], network._conv_head, network._bn1]
        self.parameters = [p for part in learns for p in part.parameters()]
        for parameter in self.parameters:
            parameter.requires_grad_()
        self.average: Any = copy.deepcopy(self.backbone)
        """The backbone to judge with and to keep."""
        self.optimiser = AdamW(self.parameters, lr=rate, weight_decay=1e-4, fused=True)
        self._cells: Tensor | None = None
        self._leaf: Tensor | None = None
        self._held: Tensor | None = None

    def see(self, photographs: UInt8[Tensor, "items size size 3"]) -> Regions:
        """Cells of a batch, as a leaf that collects gradients until `step`."""
        device = photographs.device.type
        # a processor without products of sixteen bits is slower with them
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            grid = self.backbone(photographs)
        cells = pooled(grid, self.grid, self.backbone.identity).float()
        self._held = self.keep * self._divergence(cells, photographs) if self.keep else None
        self._cells, self._leaf = cells, cells.detach().requires_grad_()
        return whole(self._leaf, cell_boxes(self.grid)[None])

    def _divergence(
        self, cells: Float[Tensor, "items parts dim"], photographs: Tensor
    ) -> Float[Tensor, ""]:
        """How far the classes have moved from what the frozen backbone says of the same."""
        with torch.no_grad():
            before = pooled(self.frozen(photographs), self.grid, self.frozen.identity)
            wanted = softmax(self._classes(before.float()), -1)
        said = log_softmax(self._classes(cells), -1)
        return kl_div(said, wanted, reduction="batchmean")

    def _classes(self, cells: Float[Tensor, "items parts dim"]) -> Float[Tensor, "items names"]:
        classifier = self.backbone.network._fc
        return cells.mean(1) @ classifier.weight.float().T + classifier.bias.float()

    def step(self, share_of_rate: float, keep_average: float) -> None:
        """One step by what the leaf has collected; the average follows."""
        assert self._cells is not None and self._leaf is not None
        assert self._leaf.grad is not None
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * share_of_rate
        self.optimiser.zero_grad(set_to_none=True)
        roots, gradients = [self._cells], [self._leaf.grad]
        if self._held is not None:
            torch.autograd.backward([*roots, self._held], [*gradients, None])
        else:
            torch.autograd.backward(roots, gradients)
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimiser.step()
        self._cells = self._leaf = self._held = None
        with torch.no_grad():
            slow, quick = self.average.parameters(), self.backbone.parameters()
            for old, new in zip(slow, quick, strict=True):
                old.lerp_(new, 1 - keep_average)

    def settle(self, model: Model) -> None:
        """Have `model` carry the weights that were learnt."""
        settled = copy.deepcopy(self.average).cpu()
        model.tuned = settled.fused()
        settled.take(model.tuned)
        model.visual = {**model.visual, "identity": settled.identity}

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).state_dict() for name in _LEARNING}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in _LEARNING:
            getattr(self, name).load_state_dict(state[name])


PixelNetwork = Frozen | Tuning

_LEARNING = ("backbone", "average", "optimiser")


def _on_processor(backbone: Any) -> bool:
    return next(backbone.parameters()).device.type == "cpu"
