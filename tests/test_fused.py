"""The fused kernels against operation by operation, in Triton's own interpreter.

It runs kernels on the processor, number by number; `test_gpu` runs them as they are meant.

    TRITON_INTERPRET=1 pytest tests/test_fused.py
"""

import importlib
import os

import pytest
import torch
from plain_sgraf import plain_scores
from samples import SIZES, regions, tokens

from avow.blocks import fused
from avow.methods import saf, sgr


@pytest.fixture
def interpreted(monkeypatch):
    """Kernels that run here and now, and calls of each of them counted."""
    pytest.importorskip("triton", reason="Triton is not installed")
    if os.environ.get("TRITON_INTERPRET") != "1":  # Triton reads it when it is imported
        pytest.skip("TRITON_INTERPRET is not 1")
    kernels = importlib.import_module("avow.blocks._kernels")
    calls = []
    for name in ("word_weights", "word_nodes", "graph_step"):
        monkeypatch.setattr(fused, name, counted(name, getattr(fused, name), calls))
    monkeypatch.setattr(fused, "_kernels", lambda: kernels)
    monkeypatch.setattr(fused, "_failed", False)
    monkeypatch.setattr(fused, "_ROWS", 16)
    monkeypatch.setattr(fused, "_DEEP", 16)
    monkeypatch.setattr(fused, "is_possible", lambda like: not torch.is_grad_enabled())
    return calls


def counted(name, function, calls):
    def run(*given):
        answer = function(*given)
        calls.append((name, answer is not None and answer is not False))
        return answer

    return run


@pytest.mark.parametrize("build", [saf.build, sgr.build])
@pytest.mark.parametrize("texts", [[7, 4, 1], [3, 3], [19, 2, 7]])
@torch.no_grad()
def test_fused_scores_are_those_of_a_plain_loop(interpreted, build, texts):
    torch.manual_seed(0)
    sizes = SIZES | {"dim": 24, "similarity_dim": 32, "regions": 5}
    method = build(**sizes).eval()
    visual = method.encode_visual(regions([5, 3, 1, 4]))
    text = method.encode_text(tokens(texts, parts=max(texts)))
    found = method.score(visual, text)
    assert interpreted and all(ran for _, ran in interpreted)
    wanted = {"word_weights", "word_nodes"} | ({"graph_step"} if build is sgr.build else set())
    assert {name for name, _ in interpreted} == wanted
    torch.testing.assert_close(found, plain_scores(method, visual, text), rtol=2e-4, atol=2e-5)


def test_a_kernel_that_fails_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(fused, "_failed", False)
    monkeypatch.setattr(fused, "_kernels", lambda: fused)
    tried = []

    def refuse(kernels):
        tried.append(kernels)
        raise ValueError("no such instruction")

    assert not fused._done(refuse)
    assert fused._failed and len(tried) == 1
    assert not fused.is_possible(torch.zeros(1, dtype=torch.bfloat16))


def test_gradients_and_full_precision_go_operation_by_operation():
    assert not fused.is_possible(torch.zeros(1))
    with torch.no_grad():
        assert not fused.is_possible(torch.zeros(1, dtype=torch.bfloat16))
