"""Shapes in annotations, for the modules that a search loads: jaxtyping's names, at no cost.

    Float32[np.ndarray, "queries dim"]      checked by the tests, np.ndarray in use

Shapes are checked only where jaxtyping was imported before Avow, as the tests do it. Its
import takes as long as a search, for it brings asyncio and unittest along, so that a module
which `avow search` needs imports these names from here.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import (
        Bool,
        Float,
        Float32,
        Float64,
        Int,
        Int8,
        Int64,
        Num,
        Shaped,
        UInt8,
        UInt64,
    )
else:

    class _Unchecked:
        """`Float[np.ndarray, "n"]` is `np.ndarray`."""

        def __class_getitem__(cls, annotation: tuple[Any, str]) -> Any:
            return annotation[0]

    Bool = Float = Float32 = Float64 = Int = Int8 = Int64 = _Unchecked
    Num = Shaped = UInt8 = UInt64 = _Unchecked

__all__ = [
    "Bool",
    "Float",
    "Float32",
    "Float64",
    "Int",
    "Int8",
    "Int64",
    "Num",
    "Shaped",
    "UInt8",
    "UInt64",
]
