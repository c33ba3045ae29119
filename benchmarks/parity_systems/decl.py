"""DECL: the evidence of SAF or SGR, its losses, and two steps of training."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from parity_systems._claims import Claim, When, inputs, note, stepwise
from parity_systems._oracle import Oracle
from parity_systems._ranking import of_ranks
from parity_systems._steps import Course, Seen, enrol, see

from avow.assembly.published import Imported
from avow.core.opinion import Opinion, kl_to_uniform, squared_risk
from avow.losses.decl import believed, softened_hinge
from avow.training.batches import Batch

PREFIXES = ("decl_",)


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("decl", squash="tanh")
    yield from inputs("train_preds")
    yield from evaluated(oracle, imported, "init", "start")
    yield from batch(oracle, imported)
    course = enrol(imported, oracle.options, "adam")
    log: dict[str, list[float]] = {}
    for step in range(1, len(oracle.arrays["train_log_Loss"]) + 1):
        learn(course, oracle, step, log)
        yield from evaluated(oracle, imported, f"after{step}", "after")
        yield from recorded_state(oracle, imported, step)
    for name, values in log.items():
        yield from stepwise(f"train_log_{name}", values)


def opinions(imported: Imported, seen: Seen) -> tuple[Opinion, Opinion]:
    tau = imported.recipe.loss["tau"]
    both = seen.similarity, seen.similarity.T
    return Opinion.from_similarity(both[0], tau), Opinion.from_similarity(both[1], tau)


def evaluated(oracle: Oracle, imported: Imported, prefix: str, when: When) -> Iterator[Claim]:
    """Everything that is recorded of the whole set."""
    if not any(name.startswith(f"{prefix}_") for name in oracle.arrays):
        return
    seen = see(imported.views[0], oracle.problem.visual, oracle.problem.text)
    to_text, to_image = opinions(imported, seen)
    evidence = to_text.log_evidence.exp()
    yield Claim(f"{prefix}_sims_sigmoid", seen.score.sigmoid(), when)
    yield Claim(f"{prefix}_evidence", evidence, when)
    yield Claim(f"{prefix}_u_i2t", to_text.uncertainty, when)
    yield Claim(f"{prefix}_u_t2i", to_image.uncertainty, when)
    name = f"{prefix}_{{}}_evidence"
    yield from of_ranks(oracle, evidence, f"{prefix}_evidence", name, when)


def batch(oracle: Oracle, imported: Imported) -> Iterator[Claim]:
    """The training batch in evaluation mode: evidence both ways, and what follows from it."""
    given = oracle.problem.batch()
    seen = see(imported.views[0], given.visual, given.text)
    to_text, to_image = opinions(imported, seen)
    evidence = to_text.log_evidence.exp()
    both_ways = evidence + evidence.T
    loss: Any = imported.recipe.build_loss()
    found = {
        "alpha_i2t": to_text.alpha,
        "alpha_t2i": to_image.alpha,
        "norm_e": both_ways / both_ways.sum(1, keepdim=True),
        "tanh": seen.similarity,
        "sigmoid": seen.score.sigmoid(),
        "pred_label": loss.glance([seen.similarity], given.lesson.match)[0],
        "uncertainty": to_text.uncertainty + to_image.uncertainty,
    }
    for name, value in found.items():
        yield Claim(f"batch_{name}", value)
    yield from losses(oracle, seen, given, {"i2t": to_text, "t2i": to_image})


def losses(
    oracle: Oracle, seen: Seen, given: Batch, sides: dict[str, Opinion]
) -> Iterator[Claim]:
    """The loss of every query, for whichever settings the names of the arrays tell."""
    match, margin = given.lesson.match, float(oracle.options["margin"])
    for array in oracle.arrays:
        if told := re.fullmatch(r"rdh_n(\d+)", array):
            yield Claim(array, softened_hinge(seen.similarity, match, margin, int(told[1])))
        if told := re.fullmatch(r"mse_(i2t|t2i)(?:_noisy(\d+))?_lam([\d.]+)", array):
            trust = torch.ones(len(match))
            trust[[int(digit) for digit in told[2] or ""]] = 0
            opinion, target = sides[told[1]], believed(match, trust)
            value = squared_risk(opinion, target)
            unlike = kl_to_uniform(opinion.discounted(target))
            yield Claim(array, value + float(told[3]) * unlike)


def learn(course: Course, oracle: Oracle, step: int, log: dict[str, list[float]]) -> None:
    """One published step: everybody is believed in the first, `train_preds` in the others."""
    loss: Any = course.loss.loss
    given = oracle.problem.batch(step - 1)
    lesson = given.lesson
    if step > 1:
        trust = torch.from_numpy(oracle.arrays["train_preds"].astype(np.float32))
        lesson = replace(lesson, trust=trust[None])
    total = course.learn(replace(given, lesson=lesson))
    (scores,) = course.loss.scores
    found = {
        "Step": step,
        "H_n": loss.negatives(len(scores), lesson.step),
        "Lr": course.learner.optimiser.param_groups[0]["lr"],
        "Loss_edl": float(loss.evidential(scores, lesson)),
        "Loss_rdh": float(loss.hinged(scores, lesson)),
        "Loss": total,
    }
    note(log, **found)


def recorded_state(oracle: Oracle, imported: Imported, step: int) -> Iterator[Claim]:
    """Published weights after `step` steps: what they compute, beside what ours do."""
    if (found := oracle.imported_after("decl", step)) is None:
        return
    (name, theirs), problem = found, oracle.problem
    ours, recorded = (
        see(one.views[0], problem.visual, problem.text).score.sigmoid()
        for one in (imported, theirs)
    )
    yield Claim(name, ours, "after", expected=recorded)
    # no step of ours between: as exact as at the start
    expected = oracle.arrays[f"after{step}_sims_sigmoid"]
    yield Claim(name, recorded, "start", expected=expected, note="its sims_sigmoid")
