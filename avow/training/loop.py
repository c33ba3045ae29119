"""The training loop, whole: one optimiser step per value the loss yields.

    for each epoch:  sift the pairs where the loss wants it
      for each batch:  set the learning rate
        for each value of Loss.steps:  backward, clip, step
        an average of the weights follows, and a pixel network learns, where wanted
      evaluate on dev; keep the best; save where to go on

Kill it at any time: `resume=True` goes on from the last saved state to the same weights
as a run that was never stopped.
"""

import copy
import logging
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from avow.assembly.evaluate import evaluate, score_views
from avow.assembly.model import Model
from avow.assembly.recipe import Training
from avow.assembly.scores import Blocks
from avow.blocks import fused
from avow.core.contracts import Loss, Method, SiftingLoss
from avow.core.device import most_memory, multiplies_bf16
from avow.core.errors import WrongCheckpoint
from avow.core.seeds import mix
from avow.training.averaging import AveragedViews, share_kept
from avow.training.batches import Batch, Batches
from avow.training.caption_agreement import CaptionAgreement
from avow.training.compare import Comparison
from avow.training.graphs import Graphed
from avow.training.log import Log
from avow.training.optim import (
    build_optimiser,
    clip,
    hold_back,
    let_rest,
    set_rates,
    share_of_rate,
)
from avow.training.pixel_setup import PixelCourse
from avow.training.setup import Course, DevSets
from avow.training.sifting import Sifted, sift
from avow.training.state import Learns, Progress, load_state, save_best, save_state
from avow.training.trained_pairs import note_pairs
from avow.training.tuning import Tuning
from avow.training.whole_batch import WholeBatches

SAVE_EVERY = 600.0  # seconds between states inside an epoch


def train(
    model: Model,
    course: Course | PixelCourse,
    run: Path,
    *,
    resume: bool = False,
    progress: bool = True,
    device: str | None = None,
) -> Progress:
    """Train every view of `model`; the best checkpoint by dev rSum lies in `run`."""
    settings = model.recipe.train
    accelerator = Accelerator(cpu=device == "cpu")
    note_pairs(run, course.train, writes=accelerator.is_main_process)
    _multiply(exactly=settings.precision == "fp32")
    loss = model.recipe.build_loss()
    model.to(str(accelerator.device))
    optimiser = build_optimiser(model.views, settings)
    network = course.pixel_network(accelerator.device)
    average = AveragedViews(model.views, averaged=settings.average > 0)
    beside: dict[str, Learns] = {"average": average} if average.averaged else {}
    if isinstance(network, Tuning):
        beside["pixels"] = network
    reached, sifted = Progress(), None
    if resume:
        reached, sifted = load_state(run, model.views, optimiser, beside)
        _check_same_trust(sifted, course, settings.trust, run)
    bf16 = settings.precision == "bf16"
    if bf16 and not multiplies_bf16(accelerator.device):
        bf16 = False
        logging.getLogger(__name__).warning(
            "This processor has no products of bfloat16; the recipe's bf16 is float32 here."
        )
    fused.use_for_learning(settings.kernels)
    comparison, optimiser = accelerator.prepare(
        Comparison(model.views, settings.gather, bf16), optimiser
    )
    alone = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    recorded = alone and settings.graphs and not isinstance(network, Tuning)
    if recorded and not settings.whole_batches:
        comparison = Graphed(comparison)  # which gives no gradients of its inputs
    batches = course.batches(model, accelerator, network)
    if isinstance(batches, Batches) and course.trust is not None:
        batches.trust = course.trust.expand(len(model.views), -1)
        sifted = Sifted(reached.epoch, batches.trust)
    if isinstance(batches, Batches) and loss.needs_fits:
        said = (course.train.captions, course.train.image_of)
        batches.agreement = CaptionAgreement.of(*said, accelerator.device)
    learner = Learner(accelerator, comparison, model.views, loss, optimiser, settings)
    learn = learner.learn
    if recorded and settings.whole_batches:
        learn = WholeBatches(learner).learn
    log = Log(run, reached, enabled=accelerator.is_main_process)
    total = settings.epochs * len(batches)
    bar = tqdm(
        total=total,
        initial=reached.epoch * len(batches) + reached.batch,
        desc="training",
        unit="batch",
        disable=not progress or not accelerator.is_main_process,
        smoothing=0.05,
    )
    while reached.epoch < settings.epochs and not reached.is_over(settings.patience):
        rate = set_rates(optimiser, settings, reached.epoch, reached.batch, len(batches))
        if accelerator.num_processes == 1:
            let_rest(model.views, reached.epoch < settings.pretrained_from)
        started = saved = time.monotonic()
        if isinstance(batches, Batches) and isinstance(loss, SiftingLoss):
            sifted = sift(loss, model.views, batches, reached.epoch, sifted, bf16)
            batches.trust = sifted.trust
        values = _Mean(accelerator.device)
        for batch in batches.epoch(reached.epoch, reached.batch):
            now = (settings, reached.epoch, reached.batch, len(batches))
            rate = set_rates(optimiser, *now)
            values.add(learn(batch))
            keep = share_kept(settings.average, batch.lesson.step)
            average.follow(keep)
            if network is not None:
                network.step(share_of_rate(*now), keep)
            reached = reached.after_batch()
            bar.update()
            if time.monotonic() - saved > SAVE_EVERY and accelerator.is_main_process:
                save_state(run, model.views, optimiser, reached, sifted, beside)
                saved = time.monotonic()
        took = time.monotonic() - started
        kept = copy.copy(model)
        kept.views = average.views
        result = _judge(kept, course.dev_sets(network), accelerator.device)
        reached = reached.after_epoch(result["rsum"])
        log.epoch(
            epoch=reached.epoch,
            loss=values.read(),
            lr=rate,
            seconds=round(took, 3),
            batches=len(batches),
            most_memory=most_memory(accelerator.device),
            dev=result,
            **({} if sifted is None else {"sifted": sifted.told(course.wrong)}),
        )
        bar.set_postfix(dev_rsum=f"{result['rsum']:.1f}", best=f"{reached.best:.1f}")
        if accelerator.is_main_process:
            if reached.best_epoch == reached.epoch:
                model.history |= {"dev": result, "epoch": reached.epoch}
                if network is not None:
                    network.settle(kept)
                save_best(run, kept, reached, half=settings.save_half)
            save_state(run, model.views, optimiser, reached, sifted, beside)
        accelerator.wait_for_everyone()
    let_rest(model.views, False)
    bar.close()
    log.close()
    return reached


class Learner:
    """One batch at a time: as many optimiser steps as the loss yields values."""

    def __init__(
        self,
        accelerator: Accelerator,
        comparison: Comparison | Graphed,
        views: list[Method],
        loss: Loss,
        optimiser: torch.optim.Optimizer,
        settings: Training,
    ):
        self.accelerator, self.comparison, self.views = accelerator, comparison, views
        # what accelerate puts around an optimiser searches for packages at every step
        unwrapped = getattr(optimiser, "optimizer", optimiser)
        self.loss, self.optimiser, self.settings = loss, unwrapped, settings
        adds = any(type(view).regulariser is not Method.regulariser for view in views)
        # what a method adds counts once per batch; several processes must agree which
        # parameters have a gradient, and one that adds nothing is recorded but once
        self.always_regularised = accelerator.num_processes > 1 or not adds

    def learn(self, batch: Batch) -> Float[Tensor, ""]:
        """Return the first value the loss yielded, before any step was taken."""
        self.begin(batch.lesson.step)
        return self.steps(batch)

    def begin(self, step: int) -> None:
        """Dropout, too, depends on the step alone."""
        torch.manual_seed(mix(self.settings.seed, "step", step, self.accelerator.process_index))
        self.comparison.train()

    def steps(self, batch: Batch) -> Float[Tensor, ""]:
        """All steps of a batch; nothing in here waits for the device or draws a seed."""
        lesson = batch.lesson
        extra: list[Tensor] = []

        def similarities() -> list[Tensor]:
            regularised = not extra or self.always_regularised
            scores, added = self.comparison(batch.visual, batch.text, regularised)
            extra.append(added)
            return scores

        first: Tensor | None = None
        for value in self.loss.steps(similarities, lesson):
            if first is None:
                value = value + extra[0]
                first = value.detach()
            elif self.always_regularised and extra[-1].requires_grad:
                value = value + 0 * extra[-1]
            self._step(value, lesson.epoch)
        assert first is not None, "a loss yields at least one value"
        return first

    def _step(self, value: Float[Tensor, ""], epoch: int) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self.accelerator.backward(value)
        if epoch < self.settings.pretrained_from:
            hold_back(self.views)
        clip(self.views, self.settings.clip)
        self.optimiser.step()


def _check_same_trust(
    saved: Sifted | None, course: Course | PixelCourse, audit: str, run: Path
) -> None:
    """An audit done anew in between would lead to other weights than promised."""
    if saved is None or saved.trust is None or course.trust is None:
        return
    if not torch.equal(saved.trust, course.trust.expand(len(saved.trust), -1)):
        raise WrongCheckpoint(
            f"The audit {audit!r} says something else of the pairs than when the run in "
            f"{str(run)!r} was started. Expected the same to resume it; put that audit back, "
            "or choose another --out to start anew."
        )


class _Mean:
    """A running mean that stays on the device until it is read."""

    def __init__(self, device: torch.device):
        self.sum = torch.zeros((), device=device)
        self.count = 0

    def add(self, value: Float[Tensor, ""]) -> None:
        self.sum += value
        self.count += 1

    def read(self) -> float:
        return float(self.sum) / max(self.count, 1)


def _judge(model: Model, sets: DevSets, device: torch.device) -> dict[str, float]:
    """Recall of the averaged views on dev; ten binary digits tell epochs apart.

    Of several dev sets the rSums add up.
    """
    blocks = Blocks(precision="fp32" if model.recipe.train.precision == "fp32" else "fp16")
    total, parts = 0.0, {}
    for name, (split, table) in sets.items():
        scores = score_views(model.views, split, table, device, blocks)
        rows = evaluate(scores, split.image_of, draws=0).rows
        total += rows[-1].recall.rsum
        if name:
            parts[f"rsum_{name}"] = rows[-1].recall.rsum
        else:
            parts |= {
                f"rsum_{row.name.replace(' ', '_')}": row.recall.rsum for row in rows[:-1]
            }
    return {"rsum": total, **parts}


def _multiply(exactly: bool) -> None:
    """Whether float32 products may be rounded to tf32 where the device can."""
    torch.set_float32_matmul_precision("highest" if exactly else "high")
