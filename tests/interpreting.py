"""Triton kernels that run here and now, by its interpreter."""

import importlib
import os
from collections.abc import Mapping

import pytest

from avow.blocks import fused


def interpret(patch: pytest.MonkeyPatch, choices: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Have kernels interpreted, with small sizes for some; the names of those that run.

    Skips the test where Triton is not there, or is not told to interpret.
    """
    pytest.importorskip("triton", reason="Triton is not installed")
    if os.environ.get("TRITON_INTERPRET") != "1":  # Triton reads it when it is imported
        pytest.skip("TRITON_INTERPRET is not 1")
    kernels = importlib.import_module("avow.blocks._kernels")
    ran: set[str] = set()
    patch.setattr(fused, "_kernels", lambda: kernels)
    patch.setattr(fused, "_failure", "")
    patch.setattr(fused, "ran", ran)
    for name, sizes in choices.items():
        patch.setitem(fused.CHOICES, name, {**fused.CHOICES[name], **sizes})
    return ran
