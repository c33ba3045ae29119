"""Several GRUs at once against `nn.GRU`, one at a time."""

import pytest
import torch
from interpreting import interpret
from samples import SIZES, regions, tokens
from tiers import long
from torch import nn

from avow import methods
from avow.blocks import fused, joint_gru
from avow.blocks.joint_gru import are_alike, read_together
from avow.blocks.recurrent import TwoWayGru, ways_together
from avow.core import folder
from avow.training.compare import Comparison

METHODS = ["vse_infty", "vsepp", "sgr", "saf", "gsmn", "imram", "scan", "acmnet"]


@pytest.fixture
def anywhere(monkeypatch):
    """As if the GRUs could be read together here; without kernels, by torch's operations."""
    monkeypatch.setattr(joint_gru, "is_possible", lambda like: True)
    monkeypatch.setattr(fused, "done", lambda name, like, launch: False)


@pytest.fixture
def interpreted(monkeypatch):
    small = {"COLUMNS": 16}
    ran = interpret(monkeypatch, {"gru_forth": small, "gru_back": small})
    monkeypatch.setattr(joint_gru, "is_possible", lambda like: True)
    torch.set_float32_matmul_precision("highest")
    return ran


def one_by_one(grus, steps):
    return torch.stack([gru(own)[0] for gru, own in zip(grus, steps, strict=True)])


def values_and_slopes(read, grus, steps):
    """States, and the slopes of inputs and weights of an uneven sum of them."""
    steps = steps.clone().requires_grad_()
    states = read(grus, steps)
    uneven = torch.linspace(-1, 2, states.numel(), dtype=states.dtype).view_as(states)
    inputs = [steps, *(p for gru in grus for p in gru.parameters())]
    return [states.detach(), *torch.autograd.grad((states * uneven).sum(), inputs)]


@pytest.mark.parametrize("sizes", [(4, 7, 5, 6, 9), (1, 1, 1, 3, 4), (2, 12, 3, 8, 32)])
def test_gradients_in_float64_are_those_of_single_grus(anywhere, sizes):
    count, length, items, inside, hidden = sizes
    torch.manual_seed(0)
    grus = [nn.GRU(inside, hidden).double() for _ in range(count)]
    steps = torch.randn(count, length, items, inside, dtype=torch.float64)
    found = values_and_slopes(read_together, grus, steps)
    expected = values_and_slopes(one_by_one, grus, steps)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((4, 5, 3, 6, 48), {"gru_forth", "gru_back"}),
        ((3, 4, 2, 6, 9), {"gru_forth", "gru_back"}),
        ((2, 6, 21, 4, 16), {"small_gru_forth", "small_gru_back"}),
        ((4, 3, 5, 4, 32), {"small_gru_forth", "small_gru_back"}),
    ],
)
def test_kernels_read_as_single_grus_do(interpreted, sizes, expected):
    count, length, items, inside, hidden = sizes
    torch.manual_seed(0)
    grus = [nn.GRU(inside, hidden) for _ in range(count)]
    steps = torch.randn(count, length, items, inside)
    found = values_and_slopes(read_together, grus, steps)
    assert interpreted == expected and not fused._failure
    for one, other in zip(found, values_and_slopes(one_by_one, grus, steps), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("views", [long(1), 2])
def test_views_compared_together_are_views_compared_one_by_one(anywhere, name, views):
    torch.manual_seed(0)
    still = {"dropout_word": 0.0, "dropout_image": 0.0, "dropout_head": 0.0}
    built = [folder.build(methods, name, **SIZES, **still) for _ in range(views)]
    visual, text = regions([5, 3, 1, 4]), tokens([7, 4, 2, 1])
    results = []
    for together in (True, False):
        comparison = Comparison(built, together=together)
        comparison.train()
        scores, _ = comparison(visual, text)
        value = sum((score * torch.linspace(-1, 2, 4)).sum() for score in scores)
        slopes = torch.autograd.grad(value, list(comparison.parameters()), allow_unused=True)
        results.append([*scores, *(slope for slope in slopes if slope is not None)])
    assert len(results[0]) == len(results[1])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_was_read_together_is_forgotten(anywhere):
    view = folder.build(methods, "vse_infty", **SIZES)
    Comparison([view])(regions([5, 3]), tokens([7, 4]))
    assert view.text.read_ahead is None and view.text_pool.made_ahead is None


def test_words_are_read_once(anywhere, monkeypatch):
    """Reading ahead replaces the GRU; it does not come on top of it."""
    view, seen = folder.build(methods, "vse_infty", **SIZES), []
    monkeypatch.setattr(view.text.gru, "_ways", lambda *given: seen.append(given))
    monkeypatch.setattr(view.text_pool.gru, "_ways", lambda *given: seen.append(given))
    monkeypatch.setattr(view.visual_pool.gru, "_ways", lambda *given: seen.append(given))
    Comparison([view])(regions([5, 3]), tokens([7, 4]))
    assert not seen


def test_grus_of_other_shapes_are_left_alone():
    assert are_alike([nn.GRU(3, 4), nn.GRU(3, 4)])
    assert not are_alike([nn.GRU(3, 4), nn.GRU(3, 5)])
    assert not are_alike([nn.GRU(3, 4, num_layers=2)] * 2)
    assert not are_alike([nn.GRU(3, 4, bidirectional=True)] * 2)
    assert not are_alike([nn.GRU(3, 4, bias=False)] * 2)


@pytest.mark.parametrize("lengths", [[7, 4, 1], [3, 3], [1, 9, 5, 2]])
def test_ways_read_together_are_those_of_each_gru_in_float64(anywhere, lengths):
    """Every direction at every real step, in float64, with captions of any length."""
    torch.manual_seed(0)
    present = tokens(lengths, parts=max(lengths)).present
    grus = [TwoWayGru(5, 6).double() for _ in range(2)]
    steps = [torch.randn(*present.shape, 5).double().requires_grad_() for _ in grus]
    inputs = [*steps, *(p for gru in grus for p in gru.parameters())]
    results = []
    for ways in (
        ways_together(grus, steps, present),
        [gru._ways(own, present) for gru, own in zip(grus, steps, strict=True)],
    ):
        states = torch.stack([way for both in ways for way in both]) * present[..., None]
        uneven = torch.linspace(-1, 2, states.numel()).double().view_as(states)
        results.append([states, *torch.autograd.grad((states * uneven).sum(), inputs)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


class OnADevice(torch.Tensor):
    is_cuda = True


def test_on_a_processor_and_unless_asked_for_nothing_is_read_together(monkeypatch):
    assert not joint_gru.is_possible(torch.zeros(1))
    on_a_device = torch.zeros(1).as_subclass(OnADevice)
    monkeypatch.setattr(fused, "is_ready", lambda: True)
    assert not joint_gru.is_possible(on_a_device)
    monkeypatch.setattr(fused, "_learning", False)
    fused.use_for_learning(True)
    assert joint_gru.is_possible(on_a_device)
    assert not joint_gru.is_possible(on_a_device.double())
