"""Optimisers, learning rates and averages of recipes, against what their names promise."""

import math

import pytest
import torch
from samples import SIZES

from avow import methods
from avow.assembly.recipe import Training
from avow.core import folder
from avow.training.averaging import AveragedViews, share_kept
from avow.training.optim import build_optimiser, set_rates, share_of_rate


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


def test_the_rate_warms_up_and_falls_batch_by_batch():
    train = Training(lr=0.1, epochs=2, schedule="cosine_batches", warm_up=4)
    optimiser = build_optimiser([folder.build(methods, "vsepp", **SIZES)], train)
    found = [set_rates(optimiser, train, step // 5, step % 5, 5) for step in range(10)]
    cosine = [0.1 * (1 + math.cos(math.pi * step / 10)) / 2 for step in range(10)]
    warm = [0.25, 0.5, 0.75, *[1] * 7]
    assert found == pytest.approx([w * rate for w, rate in zip(warm, cosine, strict=True)])
    step = Training(lr=0.1, warm_up=4, decay_after=0)
    assert share_of_rate(step, 0, 1, 5) == pytest.approx(0.5 * 0.1)


def test_the_average_follows_the_weights():
    torch.manual_seed(0)
    view = folder.build(methods, "vsepp", **SIZES)
    average = AveragedViews([view], averaged=True)
    before = next(view.parameters()).detach().clone()
    with torch.no_grad():
        next(view.parameters()).add_(1)
    average.follow(0.75)
    torch.testing.assert_close(next(average.views[0].parameters()).detach(), before + 0.25)
    assert AveragedViews([view], averaged=False).views == [view]
    young, old = share_kept(0.998, 0), share_kept(0.998, 10**6)
    assert (young, old, share_kept(0.0, 7)) == (pytest.approx(1 / 50), 0.998, 0.0)


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
