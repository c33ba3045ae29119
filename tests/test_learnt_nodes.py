"""The nodes of SAF and SGR with gradients, kernels included, against single operations."""

import pytest
import torch
from interpreting import interpret

from avow.blocks import fused
from avow.methods._learnt_nodes import Compared, learnt_nodes, unit_slopes


def plainly(given, local, whole, most):
    """All gaps at once, by operations that torch differentiates."""
    attended = given.weights @ given.regions
    words = (attended - given.words).square() @ local[0].T + local[1]
    gaps = given.image_gists[:, None] - given.text_gists
    gists = gaps.square() @ whole[0].T + whole[1]
    words = words.unflatten(1, (len(given.text_gists), -1))
    nodes = torch.cat([gists[:, :, None], words], 2)
    return nodes / (nodes.norm(dim=-1, keepdim=True) + 1e-8)


def sides(kind, dim=24, narrow=32):
    torch.manual_seed(0)
    images, texts, words, regions = 3, 2, 4, 5
    shapes = [(images, texts * words, regions), (images, regions, dim), (texts * words, dim)]
    shapes += [(images, dim), (texts, dim), (narrow, dim), (narrow,), (narrow, dim), (narrow,)]
    return [torch.randn(shape, dtype=kind, requires_grad=True) for shape in shapes]


def values_and_slopes(make, leaves, most=1):
    nodes = make(Compared(*leaves[:5]), tuple(leaves[5:7]), tuple(leaves[7:]), most)
    uneven = torch.linspace(-1, 2, nodes.numel()).view_as(nodes).to(nodes.dtype)
    slopes = torch.autograd.grad((nodes * uneven).sum(), leaves)
    return [nodes.detach(), *slopes]


@pytest.mark.parametrize("most", [1, 2**20])
def test_gradients_in_float64_are_those_of_autograd(most):
    leaves = sides(torch.float64)
    found = values_and_slopes(learnt_nodes, leaves, most)
    for one, other in zip(found, values_and_slopes(plainly, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_vector_of_zeros_gets_no_slope_that_is_not_finite():
    units, lengths = torch.zeros(2, 16), torch.zeros(2)
    assert unit_slopes(units, lengths, torch.ones(2, 16)).isfinite().all()


@pytest.fixture
def interpreted(monkeypatch):
    small = {"compare": {"ROWS": 16, "DEEP": 16}, "gap_back": {"COLUMNS": 16}}
    monkeypatch.setattr(fused, "is_possible", lambda like: not torch.is_grad_enabled())
    monkeypatch.setattr(fused, "can_learn", lambda like: True)
    return interpret(monkeypatch, small)


def test_kernels_make_the_same_nodes_and_slopes(interpreted):
    leaves = sides(torch.float32)
    found = values_and_slopes(learnt_nodes, leaves)
    assert interpreted == {"compare", "unit_back", "gap_back"} and not fused._failure
    for one, other in zip(found, values_and_slopes(plainly, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
