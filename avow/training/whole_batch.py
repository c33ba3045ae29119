"""Record all steps of a batch, the optimiser's included, and replay them by one launch.

`graphs` records a comparison and its way back. What lies between (the loss, about 480 small
kernels for TCL with three steps of agreement, 280 copies of gradients, clipping, the
optimiser) is still asked for kernel by kernel, which takes a busy processor longer than a fast
device takes for all of it. Here nothing is asked for but the whole.

What is fixed in a recording: the shapes of the batch, and its epoch, which decides the weights
inside a loss and what may learn. So every epoch records each of its shapes anew. What is not:
what the batch holds, the learning rates, and the seed of dropout.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from avow.core.contracts import Method, Regions, Tokens
from avow.training.batches import Batch
from avow.training.graphs import DEVICE, rounded

Record = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Runs a function, and returns how to repeat it and where its result lies then."""
_WARM_UPS = 2


@runtime_checkable
class BatchLearner(Protocol):
    """What is recorded: `learn` is `begin` and `steps`."""

    views: list[Method]
    optimiser: torch.optim.Optimizer

    def learn(self, batch: Batch) -> Float[Tensor, ""]: ...

    def begin(self, step: int) -> None: ...

    def steps(self, batch: Batch) -> Float[Tensor, ""]: ...


class WholeBatches:
    """Learns a batch as its learner does, by a recording for every new shape."""

    def __init__(self, learner: BatchLearner, record: Record | None = None):
        """learner: with a comparison that is not recorded by itself."""
        self.learner, self.record = learner, record or Recorder()
        self.recorded: dict[Any, tuple[Callable[[], None], Tensor, list[Tensor]]] = {}
        self.epoch = -1
        self.why_not = ""
        """What stopped the recording, where something did."""
        if not all("fused" in group for group in learner.optimiser.param_groups):
            self.why_not = "the optimiser has no kernel of its own"
        device = next(learner.views[0].parameters()).device
        groups = learner.optimiser.param_groups
        self.rates = [torch.zeros((), device=device) for _ in groups]

    def learn(self, batch: Batch) -> Float[Tensor, ""]:
        if self.why_not:
            return self.learner.learn(batch)
        if batch.lesson.epoch != self.epoch:
            self.recorded.clear()
            self.epoch = batch.lesson.epoch
        batch = replace(batch, text=rounded(batch.text))
        given = _tensors(batch)
        shape = tuple(None if one is None else one.shape for one in given)
        for rate, group in zip(self.rates, self.learner.optimiser.param_groups, strict=True):
            rate.fill_(group["lr"])
        if shape not in self.recorded:
            try:
                self.recorded[shape] = self._recorded(batch)
            except RuntimeError as error:
                self.why_not = " ".join(str(error).split())
                logging.getLogger(__name__).warning(
                    "batches are not recorded as a whole, training is slower: %s", error
                )
                return self.learner.learn(batch)
        repeat, value, inside = self.recorded[shape]
        for held, one in zip(inside, (one for one in given if one is not None), strict=True):
            held.copy_(one)
        self.learner.begin(batch.lesson.step)
        repeat()
        return value.clone()

    def _recorded(self, batch: Batch) -> tuple[Callable[[], None], Tensor, list[Tensor]]:
        """Recording learns the batch a few times; what that changes is put back."""
        own = [None if one is None else one.clone() for one in _tensors(batch)]
        held = _batch(batch, own)
        before = self._snapshot()
        groups = self.learner.optimiser.param_groups
        kept = [(group["lr"], group.get("capturable", False)) for group in groups]
        try:
            for rate, group in zip(self.rates, groups, strict=True):
                group.update(lr=rate, capturable=rate.is_cuda)
            repeat, value = self.record(lambda: self.learner.steps(held))
        finally:
            for (rate, capturable), group in zip(kept, groups, strict=True):
                group.update(lr=rate, capturable=capturable)
            self._put_back(before)
        return repeat, value, [one for one in own if one is not None]

    def _snapshot(self) -> dict[int, Tensor]:
        return {id(one): one.detach().clone() for one in self._changing()}

    def _put_back(self, before: dict[int, Tensor]) -> None:
        """As it was; what the optimiser has begun to remember since begins with 0."""
        with torch.no_grad():
            for one in self._changing():
                if id(one) in before:
                    one.copy_(before[id(one)])
                else:
                    one.zero_()

    def _changing(self) -> list[Tensor]:
        state = self.learner.optimiser.state.values()
        remembered = [one for own in state for one in own.values() if isinstance(one, Tensor)]
        views = self.learner.views
        weights = [one for view in views for one in (*view.parameters(), *view.buffers())]
        return [*weights, *remembered]


def _tensors(batch: Batch) -> list[Tensor | None]:
    visual, text, lesson = batch.visual, batch.text, batch.lesson
    sides = [visual.features, visual.present, visual.boxes, text.ids, text.present, text.edges]
    return [*sides, lesson.pairs, lesson.match, lesson.trust, lesson.fits]


def _batch(like: Batch, given: list[Tensor | None]) -> Batch:
    features, present, boxes, ids, inside, edges, pairs, match, trust, fits = given
    assert features is not None and present is not None and ids is not None
    assert inside is not None and pairs is not None and match is not None and trust is not None
    lesson = replace(like.lesson, pairs=pairs, match=match, trust=trust, fits=fits)
    return replace(
        like,
        visual=Regions(features, present, boxes),
        text=Tokens(ids, inside, edges),
        lesson=lesson,
    )


class Recorder:
    """Records as a CUDA graph; no other thread may use the device meanwhile."""

    def __init__(self) -> None:
        self.memory: Any = None
        """One pool for all shapes, which are never replayed at the same time."""

    def __call__(self, steps: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        with DEVICE:
            self.memory = self.memory or torch.cuda.graph_pool_handle()
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(_WARM_UPS):
                    steps()
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.memory):
                value = steps()
        return graph.replay, value
