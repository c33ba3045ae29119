"""Kernels for IMRAM's memory, where Triton is installed: all that is done number by number.

Import this module only where `triton` can be imported; `_kernels` hands its names on.
"""

# Triton reads its functions as source: see `_kernels`.

from typing import no_type_check

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from avow.blocks._gru_kernels import _tanh


@triton.jit(do_not_specialize=["shared"])
@no_type_check
def remember(
    own,  # [shared, 2 dim]: what queries say to gate and fresh content
    heard,  # [rows, 2 dim]: what they attend to says
    query,  # [shared, dim]
    state,  # [rows, dim], written
    shared,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One row: the new state; rows share their queries, which come again and again."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < D
    asks = row % shared
    own += asks * 2 * D + column
    heard += row * 2 * D + column
    gate = tl.load(own, mask=inside, other=0.0).to(tl.float32)
    gate = tl.sigmoid(gate + tl.load(heard, mask=inside, other=0.0).to(tl.float32))
    fresh = tl.load(own + D, mask=inside, other=0.0).to(tl.float32)
    fresh = _tanh(fresh + tl.load(heard + D, mask=inside, other=0.0).to(tl.float32))
    before = tl.load(query + asks * D + column, mask=inside, other=0.0).to(tl.float32)
    new = fresh + gate * (before - fresh)
    tl.store(state + row * D + column, new.to(state.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["shared"])
@no_type_check
def remember_back(
    own,  # [shared, 2 dim]
    heard,  # [rows, 2 dim]; the slope of both halves is written over it
    query,  # [shared, dim]
    slope,  # [rows, dim]: of the new state
    passed,  # [rows, dim], written: the slope of the query, but for its part in `own`
    shared,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One row: the way back."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < D
    asks = row % shared
    own += asks * 2 * D + column
    heard += row * 2 * D + column
    gate = tl.load(own, mask=inside, other=0.0).to(tl.float32)
    gate = tl.sigmoid(gate + tl.load(heard, mask=inside, other=0.0).to(tl.float32))
    fresh = tl.load(own + D, mask=inside, other=0.0).to(tl.float32)
    fresh = _tanh(fresh + tl.load(heard + D, mask=inside, other=0.0).to(tl.float32))
    before = tl.load(query + asks * D + column, mask=inside, other=0.0).to(tl.float32)
    down = tl.load(slope + row * D + column, mask=inside, other=0.0).to(tl.float32)
    of_gate = down * (before - fresh) * gate * (1.0 - gate)
    of_fresh = down * (1.0 - gate) * (1.0 - fresh * fresh)
    tl.store(heard, of_gate.to(heard.dtype.element_ty), mask=inside)
    tl.store(heard + D, of_fresh.to(heard.dtype.element_ty), mask=inside)
    out = (down * gate).to(passed.dtype.element_ty)
    tl.store(passed + row * D + column, out, mask=inside)
