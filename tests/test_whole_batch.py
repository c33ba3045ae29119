"""A batch recorded as a whole learns as one that is launched; `test_gpu_learning` replays."""

import copy
from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from samples import SIZES, regions, tokens

from avow import losses, methods
from avow.assembly.recipe import Training
from avow.core import folder
from avow.core.contracts import Lesson
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.loop import Learner
from avow.training.optim import build_optimiser, set_rates
from avow.training.whole_batch import WholeBatches

COUNTS = [[7, 4, 2], [7, 5, 1], [11, 6, 6], [6, 3, 3]]


def made(name="vse_infty", kind="adamw"):
    torch.manual_seed(0)
    # before batch normalisation a bias has no gradient, of whose rounding Adam makes steps
    chosen = SIZES | {"bend": False, "dropout_image": 0.3}
    views = [folder.build(methods, name, **chosen) for _ in range(2)]
    settings = Training(optimiser=kind)
    optimiser = build_optimiser(views, settings)
    loss = folder.build(losses, "tcl", agreement_steps=1)
    return Learner(Accelerator(cpu=True), Comparison(views), views, loss, optimiser, settings)


def batch_of(step, epoch=2):
    lesson = replace(Lesson.paired(3, epoch=epoch, step=step, views=2))
    counts = COUNTS[step % len(COUNTS)]
    text = tokens(counts, parts=max(counts), seed=step)
    return Batch(regions([5, 3, 1], seed=step), text, lesson)


def run_twice(steps):
    """Stands for a recording: runs once when it is made, and again to repeat it."""
    value = steps().clone()
    return lambda: value.copy_(steps()), value


def same_weights(one, other):
    for mine, theirs in zip(one.views, other.views, strict=True):
        for key, tensor in mine.state_dict().items():
            torch.testing.assert_close(theirs.state_dict()[key], tensor, rtol=1e-4, atol=1e-6)


def test_recording_changes_nothing_and_replays_learn_every_batch():
    """Shapes, epochs and rates change; what a recording held before does not come back."""
    plain, whole = made(), made()
    recorded = WholeBatches(whole, run_twice)
    for step in range(8):
        for learner in (plain, whole):
            set_rates(learner.optimiser, learner.settings, epoch=15 * (step > 4))
        batch = batch_of(step, epoch=2 + step // 4)
        torch.testing.assert_close(recorded.learn(batch), plain.learn(batch))
        same_weights(plain, whole)
    assert len(recorded.recorded) == 2  # shapes of the last epoch: of 7 and of 11 words


def test_what_cannot_be_recorded_is_learnt_as_usual(caplog):
    plain, whole = made(), made()

    def refuse(steps):
        steps()
        raise RuntimeError("operation not permitted when stream is capturing")

    recorded = WholeBatches(whole, refuse)
    for step in range(3):
        torch.testing.assert_close(recorded.learn(batch_of(step)), plain.learn(batch_of(step)))
    same_weights(plain, whole)
    assert [record.getMessage() for record in caplog.records] == [
        "batches are not recorded as a whole, training is slower: operation not permitted "
        "when stream is capturing"
    ]


def test_an_optimiser_without_kernels_is_not_recorded():
    whole = made(kind="radam")
    assert "no kernel" in WholeBatches(whole, run_twice).why_not


def test_rates_are_numbers_again_after_recording():
    """Saved states and schedules read them."""
    whole = made()
    before = copy.deepcopy(whole.optimiser.param_groups[0]["lr"])
    WholeBatches(whole, run_twice).learn(batch_of(0))
    group = whole.optimiser.param_groups[0]
    assert isinstance(group["lr"], float) and group["lr"] == before
    assert not group["capturable"]


@pytest.mark.parametrize("kind", ["adamw", "adam"])
def test_recorded_steps_use_the_rate_they_are_given(kind):
    """Inside a recording the rate is a tensor, which every batch fills anew."""
    whole, seen = made(kind=kind), []

    def watch(steps):
        seen.extend(group["lr"] for group in whole.optimiser.param_groups)
        return run_twice(steps)

    recorded = WholeBatches(whole, watch)
    recorded.learn(batch_of(0))
    whole.optimiser.param_groups[0]["lr"] = 0.125
    recorded.learn(batch_of(1))
    assert [float(rate) for rate in seen] == [0.125]
