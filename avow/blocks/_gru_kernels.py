"""Kernels for GRUs, where Triton is installed: gates of one step, or all steps of small ones.

Arrays lie as [grus, steps, items, numbers]. `far` is how many rows, of any width, lie
between one GRU and the next: the kernels of one step are given the slice of that step.
The three gates follow each other as torch has them: reset, update, new.

Import this module only where `triton` can be imported; `_kernels` hands its names on.
"""

# Triton reads its functions as source: see `_kernels`.

from typing import no_type_check

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
@no_type_check
def _tanh(x):
    # exp of what is not positive: nothing overflows
    small = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - small) / (1.0 + small)
    return tl.where(x < 0, -size, size)


@triton.jit(do_not_specialize=["items"])
@no_type_check
def gru_forth(
    given,  # [grus, items, 3 hidden]: what the inputs say, bias included
    product,  # [grus, items, 3 hidden]: of the state with the recurrent weights
    bias,  # [grus, 3 hidden]: of the recurrent weights
    state,  # [grus, items, hidden]
    after,  # [grus, items, hidden], written
    items,
    far,
    H: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One item of one GRU: its state after one step."""
    row, column = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    gru = (row // items).to(tl.int64)
    item = row % items
    inside = column < H
    wide = (gru * far + item) * 3 * H + column
    given += wide
    product += wide
    bias += gru * 3 * H + column
    # states have one step more, the one they begin with
    narrow = (gru * (far + items) + item) * H + column
    before = tl.load(state + narrow, mask=inside, other=0.0)
    reset = tl.load(given, mask=inside, other=0.0) + tl.load(product, mask=inside, other=0.0)
    reset = tl.sigmoid(reset + tl.load(bias, mask=inside, other=0.0))
    update = tl.load(given + H, mask=inside, other=0.0)
    update += tl.load(product + H, mask=inside, other=0.0)
    update = tl.sigmoid(update + tl.load(bias + H, mask=inside, other=0.0))
    heard = tl.load(product + 2 * H, mask=inside, other=0.0)
    heard += tl.load(bias + 2 * H, mask=inside, other=0.0)
    new = _tanh(tl.load(given + 2 * H, mask=inside, other=0.0) + reset * heard)
    tl.store(after + narrow, new + update * (before - new), mask=inside)


@triton.jit(do_not_specialize=["items"])
@no_type_check
def gru_back(
    given,  # [grus, items, 3 hidden]
    product,  # [grus, items, 3 hidden]
    bias,  # [grus, 3 hidden]
    state,  # [grus, items, hidden]: before the step
    slope,  # [grus, items, hidden]: of the state after it, from outside
    carry,  # [grus, items, hidden]: the same from later steps; written, without the product
    given_slope,  # [grus, items, 3 hidden], written
    product_slope,  # [grus, items, 3 hidden], written; summed up, it is also that of `bias`
    items,
    far,
    H: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One item of one GRU: the way back through the gates of one step."""
    row, column = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    gru = (row // items).to(tl.int64)
    item = row % items
    inside = column < H
    wide = (gru * far + item) * 3 * H + column
    given += wide
    product += wide
    given_slope += wide
    product_slope += wide
    bias += gru * 3 * H + column
    # states have one step more, the one they begin with
    narrow = (gru * (far + items) + item) * H + column
    before = tl.load(state + narrow, mask=inside, other=0.0)
    reset = tl.load(given, mask=inside, other=0.0) + tl.load(product, mask=inside, other=0.0)
    reset = tl.sigmoid(reset + tl.load(bias, mask=inside, other=0.0))
    update = tl.load(given + H, mask=inside, other=0.0)
    update += tl.load(product + H, mask=inside, other=0.0)
    update = tl.sigmoid(update + tl.load(bias + H, mask=inside, other=0.0))
    heard = tl.load(product + 2 * H, mask=inside, other=0.0)
    heard += tl.load(bias + 2 * H, mask=inside, other=0.0)
    new = _tanh(tl.load(given + 2 * H, mask=inside, other=0.0) + reset * heard)
    carry += row.to(tl.int64) * H + column
    down = tl.load(slope + (gru * far + item) * H + column, mask=inside, other=0.0)
    down += tl.load(carry, mask=inside, other=0.0)
    tl.store(carry, down * update, mask=inside)
    of_new = down * (1.0 - update) * (1.0 - new * new)
    of_reset = of_new * heard * reset * (1.0 - reset)
    of_update = down * (before - new) * update * (1.0 - update)
    tl.store(given_slope, of_reset, mask=inside)
    tl.store(given_slope + H, of_update, mask=inside)
    tl.store(given_slope + 2 * H, of_new, mask=inside)
    tl.store(product_slope, of_reset, mask=inside)
    tl.store(product_slope + H, of_update, mask=inside)
    tl.store(product_slope + 2 * H, of_new * reset, mask=inside)


@triton.jit(do_not_specialize=["items", "steps"])
@no_type_check
def small_gru_forth(
    given,  # [grus, steps, items, 3 hidden]: what the inputs say, bias included
    weights,  # [grus, 3 hidden, hidden]
    bias,  # [grus, 3 hidden]
    states,  # [grus, steps + 1, items, hidden], the first 0; the others are written
    items,
    steps,
    H: tl.constexpr,
    ROWS: tl.constexpr,
    KIND: tl.constexpr,
):
    """Some items of one GRU: all steps, its weights and the state on the chip."""
    gru, item = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, deep = tl.arange(0, H), tl.arange(0, H)
    inside = (item < items)[:, None]
    weights += gru * 3 * H * H + column[None, :] * H + deep[:, None]
    of_reset, of_update = tl.load(weights), tl.load(weights + H * H)
    of_new = tl.load(weights + 2 * H * H)
    bias += gru * 3 * H + column
    reset_bias, update_bias = tl.load(bias)[None, :], tl.load(bias + H)[None, :]
    new_bias = tl.load(bias + 2 * H)[None, :]
    given += gru * steps * items * 3 * H + item[:, None] * 3 * H + column[None, :]
    states += (gru * (steps + 1) + 1) * items * H + item[:, None] * H + column[None, :]
    state = tl.zeros([ROWS, H], tl.float32)
    for _ in range(steps):
        reset = tl.load(given, mask=inside, other=0.0) + reset_bias
        update = tl.load(given + H, mask=inside, other=0.0) + update_bias
        new = tl.load(given + 2 * H, mask=inside, other=0.0)
        reset = tl.sigmoid(tl.dot(state, of_reset, reset, input_precision=KIND))
        update = tl.sigmoid(tl.dot(state, of_update, update, input_precision=KIND))
        heard = tl.dot(state, of_new, input_precision=KIND) + new_bias
        new = _tanh(new + reset * heard)
        state = new + update * (state - new)
        tl.store(states, state, mask=inside)
        given += items * 3 * H
        states += items * H


@triton.jit(do_not_specialize=["items", "steps"])
@no_type_check
def small_gru_back(
    given,  # [grus, steps, items, 3 hidden]
    product,  # [grus, steps, items, 3 hidden]
    bias,  # [grus, 3 hidden]
    weights,  # [grus, 3 hidden, hidden]
    states,  # [grus, steps + 1, items, hidden]
    slope,  # [grus, steps, items, hidden]: of the state after each step, from outside
    given_slope,  # [grus, steps, items, 3 hidden], written
    product_slope,  # [grus, steps, items, 3 hidden], written
    items,
    steps,
    H: tl.constexpr,
    ROWS: tl.constexpr,
    KIND: tl.constexpr,
):
    """Some items of one GRU: the way back through all steps."""
    gru, item = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, deep = tl.arange(0, H), tl.arange(0, H)
    inside = (item < items)[:, None]
    weights += gru * 3 * H * H + deep[:, None] * H + column[None, :]
    reset_weights, update_weights = tl.load(weights), tl.load(weights + H * H)
    new_weights = tl.load(weights + 2 * H * H)
    last = (gru * steps + steps - 1) * items
    wide = last * 3 * H + item[:, None] * 3 * H + column[None, :]
    given += wide
    product += wide
    given_slope += wide
    product_slope += wide
    bias += gru * 3 * H + column
    reset_bias, update_bias = tl.load(bias)[None, :], tl.load(bias + H)[None, :]
    new_bias = tl.load(bias + 2 * H)[None, :]
    slope += last * H + item[:, None] * H + column[None, :]
    states += (gru * (steps + 1) + steps - 1) * items * H
    states += item[:, None] * H + column[None, :]
    carry = tl.zeros([ROWS, H], tl.float32)
    for _ in range(steps):
        reset = tl.load(given, mask=inside, other=0.0) + reset_bias
        reset = tl.sigmoid(reset + tl.load(product, mask=inside, other=0.0))
        update = tl.load(given + H, mask=inside, other=0.0) + update_bias
        update = tl.sigmoid(update + tl.load(product + H, mask=inside, other=0.0))
        heard = tl.load(product + 2 * H, mask=inside, other=0.0) + new_bias
        new = _tanh(tl.load(given + 2 * H, mask=inside, other=0.0) + reset * heard)
        down = carry + tl.load(slope, mask=inside, other=0.0)
        of_new = down * (1.0 - update) * (1.0 - new * new)
        of_heard = of_new * reset
        of_reset = of_new * heard * reset * (1.0 - reset)
        before = tl.load(states, mask=inside, other=0.0)
        of_update = down * (before - new) * update * (1.0 - update)
        tl.store(given_slope, of_reset, mask=inside)
        tl.store(given_slope + H, of_update, mask=inside)
        tl.store(given_slope + 2 * H, of_new, mask=inside)
        tl.store(product_slope, of_reset, mask=inside)
        tl.store(product_slope + H, of_update, mask=inside)
        tl.store(product_slope + 2 * H, of_heard, mask=inside)
        carry = tl.dot(of_reset, reset_weights, down * update, input_precision=KIND)
        carry = tl.dot(of_update, update_weights, carry, input_precision=KIND)
        carry = tl.dot(of_heard, new_weights, carry, input_precision=KIND)
        given -= items * 3 * H
        product -= items * 3 * H
        given_slope -= items * 3 * H
        product_slope -= items * 3 * H
        slope -= items * H
        states -= items * H
