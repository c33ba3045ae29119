"""IMRAM's memory that forgets its gates against the one whose gates autograd keeps."""

import pytest
import torch
from interpreting import interpret
from samples import SIZES, regions, tokens

from avow.blocks import fused
from avow.methods import imram


def slopes_of(method, sides, uneven):
    leaves = [side.parts.detach().clone().requires_grad_() for side in sides]
    there = [type(side)(leaf, side.present) for side, leaf in zip(sides, leaves, strict=True)]
    scores = method.score(*there)
    inputs = [*leaves, *method.pairing.parameters()]
    return [scores.detach(), *torch.autograd.grad((scores * uneven).sum(), inputs)]


@pytest.mark.parametrize("more", [{}, {"memory_norm": True}, {"mode": "text"}, {"steps": 2}])
def test_gradients_in_float64_are_those_of_autograd(monkeypatch, more):
    torch.manual_seed(0)
    method = imram.build(**SIZES, **more)
    sides = method.encode_visual(regions([5, 3, 1, 4])), method.encode_text(tokens([7, 4, 1]))
    method.double()
    sides = [type(side)(side.parts.double(), side.present) for side in sides]
    uneven = torch.linspace(-1, 2, 12, dtype=torch.float64).view(4, 3)
    monkeypatch.setattr(imram.Memory, "forgets_gates", lambda *given: True)
    found = slopes_of(method, sides, uneven)
    monkeypatch.setattr(imram.Memory, "forgets_gates", lambda *given: False)
    for one, other in zip(found, slopes_of(method, sides, uneven), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_what_is_kept_for_the_gradient_is_one_state_a_step(monkeypatch):
    torch.manual_seed(0)
    method = imram.build(**SIZES | {"dim": 256}, mode="image")
    sides = method.encode_visual(regions([5] * 6)), method.encode_text(tokens([7] * 6))
    sizes = []
    for forgets in (True, False):
        monkeypatch.setattr(imram.Memory, "forgets_gates", lambda *given, own=forgets: own)
        kept: dict[int, int] = {}

        def keep(tensor, kept=kept):
            if tensor.shape == (6, 30, 256):  # a number per text, region and channel
                kept[tensor.untyped_storage().data_ptr()] = 1
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            scores = method.score(*sides)
        sizes.append(sum(kept.values()))
        del scores
    assert sizes[0] == 2 < sizes[1]  # after two looks; the third is not remembered


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_rounded_memory_scores_nearly_the_same():
    torch.manual_seed(0)
    sizes = SIZES | {"dim": 64}
    torch.manual_seed(0)
    exact = imram.build(**sizes)
    torch.manual_seed(0)
    rounded = imram.build(**sizes, memory_bf16=True)
    sides = exact.encode_visual(regions([5, 3])), exact.encode_text(tokens([7, 4]))
    near, expected = rounded.score(*sides), exact.score(*sides)
    assert not torch.equal(near, expected)
    torch.testing.assert_close(near, expected, rtol=0, atol=0.05)
    near.sum().backward()
    assert all(p.grad.isfinite().all() for p in rounded.pairing.parameters())


@pytest.fixture
def interpreted(monkeypatch):
    small = {"COLUMNS": 16}
    return interpret(monkeypatch, {"remember": small, "remember_back": small})


def test_kernels_remember_as_operations_do(interpreted, monkeypatch):
    torch.manual_seed(0)
    method = imram.build(**SIZES | {"dim": 24})
    sides = method.encode_visual(regions([5, 3, 1, 4])), method.encode_text(tokens([7, 4, 1]))
    uneven = torch.linspace(-1, 2, 12).view(4, 3)
    expected = slopes_of(method, sides, uneven)
    assert not interpreted
    monkeypatch.setattr(fused, "can_learn", lambda like: True)
    found = slopes_of(method, sides, uneven)
    assert interpreted == {"remember", "remember_back"} and not fused._failure
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
