"""Optimisers and learning rates of recipes, against what their names promise."""

import math

import pytest
import torch
from samples import SIZES

from avow import methods
from avow.assembly.recipe import Training
from avow.core import folder
from avow.training.optim import build_optimiser, set_rates


@pytest.mark.parametrize(
    "schedule, rates",
    [
        ("step", [0.01, 0.01, 0.005, 0.005]),
        ("exponential", [0.01, 0.005, 0.0025, 0.00125]),
        ("cosine", [0.01 * (1 + math.cos(math.pi * n / 4)) / 2 for n in range(4)]),
    ],
)
def test_learning_rates_over_epochs(schedule, rates):
    train = Training(lr=0.01, epochs=4, decay=0.5, decay_after=2, schedule=schedule)
    optimiser = build_optimiser([folder.build(methods, "vsepp", **SIZES)], train)
    found = [set_rates(optimiser, train, epoch) for epoch in range(4)]
    assert found == pytest.approx(rates)
    assert optimiser.param_groups[0]["lr"] == pytest.approx(rates[-1])


def test_the_rate_may_be_cut_again_and_again():
    train = Training(lr=1.0, epochs=8, decay=0.1, decay_after=2, decay_every=3)
    optimiser = build_optimiser([folder.build(methods, "vsepp", **SIZES)], train)
    found = [set_rates(optimiser, train, epoch) for epoch in range(8)]
    assert found == pytest.approx([1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01])


def test_radam_begins_with_momentum_and_takes_weights_down_apart():
    """Its first steps divide by no variance: they are the gradient, and decay besides."""
    torch.manual_seed(0)
    view = folder.build(methods, "vsepp", **SIZES)
    train = Training(lr=0.1, optimiser="radam", weight_decay=0.5)
    optimiser = build_optimiser([view], train)
    weight = next(view.parameters())
    before = weight.detach().clone()
    for parameter in view.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    optimiser.step()
    torch.testing.assert_close(weight.detach(), before * (1 - 0.1 * 0.5) - 0.1 * 2.0)
