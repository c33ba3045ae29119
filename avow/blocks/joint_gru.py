"""Several GRUs of equal shape, step by step at once: both directions, and all networks.

A GRU of a caption is a chain of small products: 128 captions with 1,024 x 3,072 weights take
one H200 15 us, three quarters of it idle, and every product waits for the one before. Four
GRUs (two directions of two networks) are four chains, which cuDNN goes through one after the
other. Here a step of all of them is one batched product and one kernel for the gates, so a
chain is gone through once. Per training step of two networks at 27 words:

                                    cuDNN, one GRU at a time   here
    products forth, one by one                108               27
    products back, one by one                 108               27
    kernels for gates                         216               54
    weights' gradients                          8                2

cuDNN's GRUs recorded side by side on four streams would need no kernel of ours, but each of
their small products fills three quarters of the device, so they would still queue; a batched
product of four reads its weights once (50 MB a step, 12 us at the rate of the memory) and
is as long as one of them. The numbers are those of `nn.GRU`, which does the work wherever this
is not possible: on a processor, without Triton, in another precision than float32.

GRUs of few hidden numbers (the weights of a learnt pool have 32) go through all steps in one
kernel, with weights and state on the chip.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks import fused

_MOST_SMALL = 64  # hidden numbers of a GRU that is gone through by one kernel


def is_possible(like: Tensor) -> bool:
    """Whether kernels can take several GRUs that read numbers such as these."""
    return like.dtype == torch.float32 and fused.can_learn(like)


def are_alike(grus: Sequence[nn.GRU]) -> bool:
    """Whether these are plain GRUs of one shape, which can be read together."""
    shapes = {(gru.input_size, gru.hidden_size) for gru in grus}
    return len(shapes) == 1 and all(
        gru.num_layers == 1 and gru.bias and not gru.bidirectional and not gru.proj_size
        for gru in grus
    )


def read_together(
    grus: Sequence[nn.GRU], steps: Float[Tensor, "grus steps items inside"]
) -> Float[Tensor, "grus steps items hidden"]:
    """The states of every GRU after each of its steps, beginning with 0."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    stacked = (torch.stack([getattr(gru, name) for gru in grus]) for name in names)
    read, weights, read_bias, bias = stacked
    given = torch.baddbmm(read_bias[:, None], steps.flatten(1, 2), read.mT)
    given = given.unflatten(1, steps.shape[1:3])
    return _Recurrence.apply(given, weights, bias)  # type: ignore[return-value]


class _Recurrence(torch.autograd.Function):
    """From what inputs say at every step to states; the way back is written out.

    Products are kept, and gates are made of them once more on the way back.
    """

    @staticmethod
    def forward(ctx: Any, given: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        grus, steps, items, _ = given.shape
        states = given.new_empty(grus, steps + 1, items, weights.shape[2])
        states[:, 0].zero_()
        product = None
        if not _small_forth(given, weights, bias, states):
            product = torch.empty_like(given)
            for step in range(steps):
                torch.bmm(states[:, step], weights.mT, out=product[:, step])
                _step_forth(given, product, bias, states, step)
        ctx.save_for_backward(given, product, weights, bias, states)
        return states[:, 1:]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        given, product, weights, bias, states = ctx.saved_tensors
        before, slope = states[:, :-1].flatten(1, 2), slopes[0].contiguous()
        if product is None:  # all steps were gone through by one kernel
            product = torch.bmm(before, weights.mT).view_as(given)
        way = _WayBack(given, product, bias, states, slope)
        if not way.small(weights):
            way.step_by_step(weights)
        rows = way.product_slope.flatten(1, 2)
        return way.given_slope, torch.bmm(rows.mT, before), rows.sum(1)


class _WayBack:
    """What the gradients of all steps are made of, and where they are written."""

    def __init__(
        self, given: Tensor, product: Tensor, bias: Tensor, states: Tensor, slope: Tensor
    ):
        self.given, self.product, self.bias, self.states = given, product, bias, states
        self.slope = slope
        """Of the state after each step, from outside."""
        self.given_slope, self.product_slope = torch.empty_like(given), torch.empty_like(given)

    def step_by_step(self, weights: Tensor) -> None:
        carry = torch.zeros_like(self.slope[:, 0])
        for step in range(self.given.shape[1] - 1, -1, -1):
            self._step(step, carry)
            if step:
                carry.baddbmm_(self.product_slope[:, step], weights)

    def _step(self, step: int, carry: Tensor) -> None:
        """carry: the slope from later steps; becomes that from this one, less a product."""
        (grus, steps, items, hidden), how = self.slope.shape, fused.CHOICES["gru_back"]

        def launch(kernels: ModuleType) -> None:
            kernels.gru_back[(grus * items, fused.tiles(hidden, how["COLUMNS"]))](
                *(tensor[:, step] for tensor in (self.given, self.product)),
                self.bias,
                *(tensor[:, step] for tensor in (self.states, self.slope)),
                carry,
                *(tensor[:, step] for tensor in (self.given_slope, self.product_slope)),
                items,
                steps * items,
                H=hidden,
                **how,
            )

        if not (is_possible(carry) and fused.done("gru_back", carry, launch)):
            self._step_plainly(step, carry)

    def _step_plainly(self, step: int, carry: Tensor) -> None:
        reset, update, heard, new = _gates(self.given, self.product, self.bias, step)
        down = self.slope[:, step] + carry
        of_new = down * (1 - update) * (1 - new.square())
        of_reset = of_new * heard * reset * (1 - reset)
        of_update = down * (self.states[:, step] - new) * update * (1 - update)
        torch.cat([of_reset, of_update, of_new], -1, out=self.given_slope[:, step])
        torch.cat([of_reset, of_update, of_new * reset], -1, out=self.product_slope[:, step])
        torch.mul(down, update, out=carry)

    def small(self, weights: Tensor) -> bool:
        """Whether one kernel went back through all steps."""
        (grus, steps, items, hidden), how = self.slope.shape, fused.CHOICES["small_gru_back"]

        def launch(kernels: ModuleType) -> None:
            kernels.small_gru_back[(grus, fused.tiles(items, how["ROWS"]))](
                self.given,
                self.product,
                self.bias,
                weights.contiguous(),
                self.states,
                self.slope,
                self.given_slope,
                self.product_slope,
                items,
                steps,
                H=hidden,
                KIND=_exactness(),
                **how,
            )

        return _is_small(self.slope, hidden) and fused.done(
            "small_gru_back", self.slope, launch
        )


def _step_forth(
    given: Tensor, product: Tensor, bias: Tensor, states: Tensor, step: int
) -> None:
    """Write the states after `step`."""
    (grus, steps, items, _), hidden = given.shape, states.shape[3]
    how = fused.CHOICES["gru_forth"]

    def launch(kernels: ModuleType) -> None:
        kernels.gru_forth[(grus * items, fused.tiles(hidden, how["COLUMNS"]))](
            given[:, step],
            product[:, step],
            bias,
            states[:, step],
            states[:, step + 1],
            items,
            steps * items,
            H=hidden,
            **how,
        )

    if is_possible(given) and fused.done("gru_forth", given, launch):
        return
    _, update, _, new = _gates(given, product, bias, step)
    torch.lerp(new, states[:, step], update, out=states[:, step + 1])


def _gates(
    given: Tensor, product: Tensor, bias: Tensor, step: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reset, update, what the new content hears of the state, and the new content."""
    read, update, new = given[:, step].chunk(3, -1)
    product_parts = (product[:, step] + bias[:, None]).chunk(3, -1)
    reset = (read + product_parts[0]).sigmoid()
    heard = product_parts[2]
    return reset, (update + product_parts[1]).sigmoid(), heard, (new + reset * heard).tanh()


def _small_forth(given: Tensor, weights: Tensor, bias: Tensor, states: Tensor) -> bool:
    """Whether one kernel wrote the states of all steps."""
    (grus, steps, items, _), hidden = given.shape, states.shape[3]
    how = fused.CHOICES["small_gru_forth"]

    def launch(kernels: ModuleType) -> None:
        kernels.small_gru_forth[(grus, fused.tiles(items, how["ROWS"]))](
            given.contiguous(),
            weights.contiguous(),
            bias.contiguous(),
            states,
            items,
            steps,
            H=hidden,
            KIND=_exactness(),
            **how,
        )

    return _is_small(given, hidden) and fused.done("small_gru_forth", given, launch)


def _is_small(like: Tensor, hidden: int) -> bool:
    return hidden <= _MOST_SMALL and fused.power(hidden) == hidden and is_possible(like)


def _exactness() -> str:
    """Of products inside a kernel: as exact as those outside it."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
