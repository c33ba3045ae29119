"""Encode, compare and train imported networks the way their published runs did."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from parity_systems._claims import Claim, When, stepwise
from parity_systems._oracle import Oracle, Problem
from torch import Tensor

from avow.assembly.published import Imported
from avow.assembly.recipe import Training
from avow.core.contracts import Encoded, Lesson, Loss, Method, Regions, Similarities, Tokens
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.loop import Learner
from avow.training.optim import build_optimiser


@dataclass(frozen=True)
class Seen:
    """Images and texts through one network in evaluation."""

    images: Encoded
    texts: Encoded
    score: Tensor
    similarity: Tensor


@torch.no_grad()
def see(view: Method, visual: Regions, text: Tokens) -> Seen:
    view.eval()
    images, texts = view.encode_visual(visual), view.encode_text(text)
    return Seen(images, texts, view.score(images, texts), view.similarity(images, texts))


def vectors(encoded: Encoded, like: np.ndarray) -> np.ndarray:
    """What was encoded, in the shape it was recorded in.

    A single part is the item; one part more than recorded is the whole before its parts.
    """
    parts = encoded.parts.numpy()
    if like.ndim == 2:
        return parts[:, 0]
    return parts[:, parts.shape[1] - like.shape[1] :]


# --- training ---------------------------------------------------------------------------


class Watched(Loss):
    """A loss that remembers what it yielded last, and on which similarities first."""

    def __init__(self, loss: Loss):
        self.loss, self.views = loss, loss.views
        self.values: list[float] = []
        self.scores: list[Tensor] = []

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Tensor]:
        self.values, self.scores = [], []

        def remembered() -> Sequence[Tensor]:
            scores = list(similarities())
            self.scores = self.scores or [score.detach() for score in scores]
            return scores

        for value in self.loss.steps(remembered, lesson):
            self.values.append(float(value.detach()))
            yield value


@dataclass(frozen=True)
class Course:
    """Imported networks with an optimiser, as their published training has it."""

    learner: Learner
    loss: Watched

    def learn(self, batch: Batch) -> float:
        """One published training step; the first value, the method's own part included."""
        return float(self.learner.learn(batch))


def enrol(
    imported: Imported,
    options: dict[str, Any],
    optimiser: Literal["adam", "adamw"],
    weight_decay: float = 0.0,
) -> Course:
    settings = Training(
        precision="fp32",
        optimiser=optimiser,
        weight_decay=weight_decay,
        lr=float(options["learning_rate"]),
        clip=float(options["grad_clip"]),
        pretrained_from=0,
    )
    views = imported.views
    loss = Watched(imported.recipe.build_loss())
    made = build_optimiser(views, settings)
    learner = Learner(Accelerator(cpu=True), Comparison(views), views, loss, made, settings)
    return Course(learner, loss)


def every_step(
    oracle: Oracle,
    problem: Problem,
    course: Course,
    after: Callable[[str, When], Iterator[Claim]],
) -> Iterator[Claim]:
    """Train as often as was recorded: what `after` claims of each step, and all losses."""
    values = []
    for step in range(1, oracle.arrays["train_loss"].size + 1):
        values.append(course.learn(problem.batch(step - 1)))
        yield from after(f"after{step}", "after")
    yield from stepwise("train_loss", values)


def gradient_norm(imported: Imported, batch: Batch) -> float:
    """Of the first value of the loss, before anything is clipped; nothing is changed."""
    views = [copy.deepcopy(view).train() for view in imported.views]
    comparison = Comparison(views)
    extra: list[Tensor] = []

    def similarities() -> list[Tensor]:
        scores, added = comparison(batch.visual, batch.text)
        extra.append(added)
        return scores

    value = next(iter(imported.recipe.build_loss().steps(similarities, batch.lesson)))
    (value + extra[0]).backward()
    squares = [
        p.grad.square().sum() for v in views for p in v.parameters() if p.grad is not None
    ]
    return float(torch.stack(squares).sum().sqrt())
