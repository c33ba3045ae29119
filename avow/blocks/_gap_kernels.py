"""Kernels for the way back through similarity vectors, where Triton is installed.

Import this module only where `triton` can be imported; `_kernels` hands its names on.
"""

# Triton reads its functions as source: see `_kernels`.

from typing import no_type_check

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit(do_not_specialize=["count"])
@no_type_check
def unit_back(
    units,  # [rows, dim]: x / (|x| + eps)
    lengths,  # [rows], float32: |x|
    slope,  # [rows, dim]: of the units
    out,  # [rows, dim], written: the slope of x
    count,
    eps,
    S: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some rows: the way back through the division by their lengths."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, S)
    inside = row < count
    at = row[:, None] * S + column[None, :]
    unit = tl.load(units + at, mask=inside[:, None], other=0.0).to(tl.float32)
    down = tl.load(slope + at, mask=inside[:, None], other=0.0).to(tl.float32)
    length = tl.load(lengths + row, mask=inside, other=1.0)
    # at a length of 0 the units are 0, and so is what is taken away
    along = tl.sum(unit * down, 1) * (length + eps) / tl.maximum(length, 1e-30)
    value = (down - unit * along[:, None]) / (length + eps)[:, None]
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit(do_not_specialize=["queries"])
@no_type_check
def gap_back(
    attended,  # [images, queries, dim]; the squared gap is written over it
    query,  # [queries, dim]
    pull,  # [images, queries, dim]; becomes the product with the gap
    queries,
    D: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One query with one image: its gap, squared, and times what pulls at it."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < D
    at = row * D + column
    own = tl.load(query + row % queries * D + column, mask=inside, other=0.0).to(tl.float32)
    gap = tl.load(attended + at, mask=inside, other=0.0).to(tl.float32) - own
    force = tl.load(pull + at, mask=inside, other=0.0).to(tl.float32) * gap
    tl.store(attended + at, (gap * gap).to(attended.dtype.element_ty), mask=inside)
    tl.store(pull + at, force.to(pull.dtype.element_ty), mask=inside)
