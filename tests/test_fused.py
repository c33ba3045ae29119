"""The fused kernels against operation by operation, in Triton's own interpreter.

It runs kernels on the processor, number by number; `test_gpu` runs them as they are meant.

    TRITON_INTERPRET=1 pytest tests/test_fused.py
"""

from collections import defaultdict
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from interpreting import interpret
from plain_sgraf import plain_scores
from samples import SIZES, regions, tokens

from avow.assembly import scores
from avow.blocks import fused, pooling, rank_pooling
from avow.methods import saf, sgr


@pytest.fixture
def interpreted(monkeypatch):
    """Kernels that run here and now, and calls of each of them counted."""
    small = {"attend": {"ROWS": 32}, "compare": {"ROWS": 16, "DEEP": 16}}
    small["reason"] = {"ROWS": 64, "WIDE": 16}
    monkeypatch.setattr(fused, "is_possible", lambda like: not torch.is_grad_enabled())
    return interpret(monkeypatch, small)


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
    heads = {"reason", "hear"} if build is sgr.build else {"gate"}
    assert interpreted == {"attend", "compare"} | heads
    assert not fused._failure
    torch.testing.assert_close(found, plain_scores(method, visual, text), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("build", [saf.build, sgr.build])
@torch.no_grad()
def test_fused_rounding_costs_as_little_as_that_of_single_operations(
    interpreted, build, monkeypatch
):
    torch.manual_seed(0)
    method = build(**SIZES | {"dim": 24, "similarity_dim": 32, "regions": 5}).eval()
    sides = method.encode_visual(regions([5, 3, 1, 4])), method.encode_text(tokens([7, 4, 1]))
    exact = plain_scores(method, *sides)
    # in place of bfloat16, which the interpreter takes for whole numbers
    rounded = [replace(side, parts=side.parts.half()) for side in sides]
    found = method.score(*rounded)
    assert "compare" in interpreted and not fused._failure
    monkeypatch.setattr(fused, "is_possible", lambda like: False)
    plain = method.score(*rounded)
    assert not torch.equal(found, plain)
    assert (found - exact).abs().mean() < 1.5 * (plain - exact).abs().mean()


@pytest.mark.parametrize("build", [saf.build, sgr.build])
@torch.no_grad()
def test_where_a_kernel_fails_scores_are_the_same_and_it_is_told_once(
    build, monkeypatch, caplog
):
    class Refusing(ModuleType):
        def __getattr__(self, name):
            raise ValueError(f"no room for {name}")

    monkeypatch.setattr(fused, "_failure", "")
    monkeypatch.setattr(fused, "ran", set())
    monkeypatch.setattr(fused, "_kernels", lambda: Refusing("refusing"))
    monkeypatch.setattr(fused, "is_possible", lambda like: True)
    torch.manual_seed(0)
    method = build(**SIZES, similarity_dim=32).eval()
    visual, text = method.encode_visual(regions([5, 3])), method.encode_text(tokens([7, 4]))
    found = method.score(visual, text)
    torch.testing.assert_close(found, plain_scores(method, visual, text), rtol=2e-4, atol=2e-5)
    assert not fused.ran
    (told,) = [record.getMessage() for record in caplog.records]
    assert "ValueError in 'attend': no room for attend" in told


def test_after_a_failure_nothing_is_tried_again(monkeypatch):
    monkeypatch.setattr(fused, "_failure", "")
    monkeypatch.setattr(fused, "_kernels", lambda: fused)
    tried = []

    def refuse(kernels):
        tried.append(kernels)
        raise ValueError("no such instruction")

    for _ in range(2):
        assert not fused.done("compare", torch.zeros(1), refuse)
    assert len(tried) == 1
    assert fused._failure == "ValueError in 'compare': no such instruction"


def test_gradients_and_full_precision_go_operation_by_operation():
    assert fused.why_not(torch.zeros(1, dtype=torch.bfloat16)) == "no CUDA device"
    assert not fused.is_possible(torch.zeros(1))
    with torch.no_grad():
        assert not fused.is_possible(torch.zeros(1, dtype=torch.bfloat16))


@torch.no_grad()
def test_what_float16_cannot_hold_is_scored_again_in_float32(monkeypatch):
    torch.manual_seed(0)
    method = sgr.build(**SIZES, similarity_dim=32).eval()
    visual, text = method.encode_visual(regions([5, 3])), method.encode_text(tokens([7, 4]))
    monkeypatch.setattr(scores, "_kind", lambda *given: torch.float16)
    near = scores.similarity(method, visual, text, "fp16")
    exact = method.similarity(visual, text)
    torch.testing.assert_close(near, exact, rtol=0, atol=2e-3)
    assert not torch.equal(near, exact)
    method.head.steps[0].update.bias.data.fill_(1e6)
    again = scores.similarity(method, visual, text, "fp16")
    assert torch.equal(again, method.similarity(visual, text))


def ranked_kernels(monkeypatch):
    """Pooling by rank on the processor; its columns are few, so that there are tiles."""
    monkeypatch.setattr(rank_pooling, "_is_possible", lambda parts: True)
    for name in ("rank", "rank_back"):
        monkeypatch.setitem(fused.CHOICES, name, fused.CHOICES[name] | {"COLUMNS": 16})


def slopes_of(pool, parts, present):
    parts = parts.clone().requires_grad_()
    pool.zero_grad()
    pooled = pool(parts, present)
    (pooled * torch.linspace(-1, 1, pooled.numel()).view_as(pooled)).sum().backward()
    assert parts.grad is not None
    return [pooled.detach(), parts.grad, *(p.grad.clone() for p in pool.parameters())]


@pytest.mark.parametrize("counts", [[7, 4, 1], [19, 2, 30], [1]])
def test_pooling_by_rank_is_pooling_of_sorted_parts(interpreted, monkeypatch, counts):
    torch.manual_seed(0)
    pool, present = pooling.LearntPool(), tokens(counts, parts=max(counts)).present
    parts = torch.randn(len(counts), max(counts), 40)
    expected = slopes_of(pool, parts, present)
    ranked_kernels(monkeypatch)
    found = slopes_of(pool, parts, present)
    assert interpreted == {"rank", "rank_back"} and not fused._failure
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_equal_parts_have_places_of_their_own(interpreted, monkeypatch):
    """Values that are the same, as behind a relu, still use every weight once."""
    torch.manual_seed(0)
    pool, present = pooling.LearntPool(), tokens([9, 5], parts=9).present
    parts = torch.randn(2, 9, 20).relu()
    expected = slopes_of(pool, parts, present)
    ranked_kernels(monkeypatch)
    found = slopes_of(pool, parts, present)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    # which of equal parts gets which slope is nobody's business; their sum is not
    torch.testing.assert_close(found[1].sum(1), expected[1].sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fails", ["rank", "rank_back"])
def test_where_pooling_by_rank_fails_parts_are_sorted(monkeypatch, caplog, fails):
    class Kernels(ModuleType):
        def __getattr__(self, name):
            if name == fails:
                raise RuntimeError("no such instruction")
            return defaultdict(lambda: lambda *given, **how: None)

    torch.manual_seed(0)
    pool, present = pooling.LearntPool(), tokens([9, 5], parts=9).present
    parts = torch.randn(2, 9, 20)
    expected = slopes_of(pool, parts, present)
    ranked_kernels(monkeypatch)
    monkeypatch.setattr(fused, "_kernels", lambda: Kernels("kernels"))
    monkeypatch.setattr(fused, "_failure", "")
    found = slopes_of(pool, parts, present)
    # where the way forth ran, what it would have written was never written here
    for one, other in list(zip(found, expected, strict=True))[fails == "rank_back" :]:
        torch.testing.assert_close(one, other)
    assert "no such instruction" in caplog.text
