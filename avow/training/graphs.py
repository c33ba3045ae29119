"""Replay a comparison instead of launching it, kernel by kernel, again and again.

A recurrent text encoder is thousands of tiny kernels; launching them takes the host longer
than running them takes the device. A CUDA graph records the forward and the backward pass
of one batch shape once and replays each with a single launch. Captions are padded in steps
of `STEP` parts, so that a handful of shapes covers a dataset. A method that asks
the device something on the way cannot be recorded; it is launched as usual.
"""

import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.core.contracts import Regions, Tokens
from avow.training.compare import Comparison

STEP = 4
DEVICE = threading.Lock()
"""Held while a graph is recorded: no other thread may use the device meanwhile."""


class Graphed:
    """Called like the comparison it records; makes a recording for every new shape."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison
        self.recorded: dict[tuple[int | torch.Size, ...], Callable[..., Any]] = {}
        self.memory = torch.cuda.graph_pool_handle()
        """One for all shapes: they are never replayed at the same time, and never between
        the forward and the backward pass of another."""
        self.possible = True
        self.why_not = ""
        """What stopped the recording, where something did."""

    def train(self) -> None:
        self.comparison.train()

    def __call__(
        self, visual: Regions, text: Tokens, regularised: bool = True
    ) -> tuple[list[Float[Tensor, "images texts"]], Float[Tensor, ""]]:
        if not self.possible:
            return self.comparison(visual, text, regularised)
        text = rounded(text)
        inputs = [visual.features, visual.present, text.ids, text.present]
        optional = (visual.boxes, text.edges)
        inputs += [tensor.contiguous() for tensor in optional if tensor is not None]
        learning = sum(p.requires_grad for p in self.comparison.parameters())
        given = (visual.boxes is not None, text.edges is not None, regularised)
        shape = (learning, *given, *(tensor.shape for tensor in inputs))
        if shape not in self.recorded:
            try:
                self.recorded[shape] = self._record(tuple(inputs), given)
            except RuntimeError as error:
                self.possible, self.why_not = False, " ".join(str(error).split())
                logging.getLogger(__name__).warning(
                    "training goes on without CUDA graphs, more slowly: %s", error
                )
                return self.comparison(visual, text, regularised)
        *scores, extra = self.recorded[shape](*inputs)
        return scores, extra

    def _record(
        self, inputs: tuple[Tensor, ...], given: tuple[bool, bool, bool]
    ) -> Callable[..., Any]:
        """Recording runs the batch a few times; what that changes is put back."""
        with DEVICE:
            return self._record_alone(inputs, given)

    def _record_alone(
        self, inputs: tuple[Tensor, ...], given: tuple[bool, bool, bool]
    ) -> Callable[..., Any]:
        buffers = [buffer.clone() for buffer in self.comparison.buffers()]
        random = torch.cuda.get_rng_state()
        samples = tuple(tensor.clone() for tensor in inputs)
        try:
            with warnings.catch_warnings():
                # recording runs on a stream of its own, which autograd remarks upon
                warnings.simplefilter("ignore")
                return torch.cuda.make_graphed_callables(
                    _OnTensors(self.comparison, given),
                    samples,
                    allow_unused_input=True,
                    pool=self.memory,
                )
        finally:
            torch.cuda.set_rng_state(random)
            with torch.no_grad():
                for buffer, before in zip(self.comparison.buffers(), buffers, strict=True):
                    buffer.copy_(before)


class _OnTensors(nn.Module):
    """The comparison with plain tensors in and out, which is what can be recorded."""

    def __init__(self, comparison: Comparison, given: tuple[bool, bool, bool]):
        super().__init__()
        self.comparison = comparison
        self.given = given
        """Whether boxes, and whether edges, follow the inputs that are always there; and
        whether the methods add what they want to."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        features, present, ids, inside, *rest = inputs
        *optional, regularised = self.given
        boxes, edges = (rest.pop(0) if there else None for there in optional)
        visual, text = Regions(features, present, boxes), Tokens(ids, inside, edges)
        scores, extra = self.comparison(visual, text, regularised)
        return (*scores, extra)


def rounded(text: Tokens) -> Tokens:
    """The same captions with a little more padding.

    One part less than a multiple: methods put the gist of a caption before its words.
    """
    parts = text.ids.shape[1]
    return text.resized(parts + -(parts + 1) % STEP)
