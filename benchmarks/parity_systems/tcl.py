"""TCL: two networks and their evidence, over VSE, VSE-infinity, SAF or SGR."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from parity_systems._claims import Claim, When, inputs, note, stepwise
from parity_systems._oracle import Oracle
from parity_systems._ranking import hinges, of_ranks
from parity_systems._steps import Course, Seen, enrol, see, vectors
from torch import Tensor

from avow.assembly.published import Imported
from avow.core.opinion import Opinion, dirichlet_risk, disagreement, kl_to_uniform

PREFIXES = ("tcl_",)
ABLATION_WEIGHT = 0.005  # of the KL term in the recorded MAE and log losses


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("tcl", squash="tanh")
    yield from inputs("grad_note")
    yield from after(oracle, imported, "init", "start")
    yield from batch_losses(oracle, imported)
    course = enrol(imported, oracle.options, "adamw", weight_decay=0.01)
    log: dict[str, list[float]] = {}
    for step in range(1, len(oracle.arrays["train_log_loss"]) + 1):
        learn(course, oracle, step, log)
        yield from after(oracle, imported, f"after{step}", "after")
        yield from recorded_state(oracle, imported, step)
    # agreement begins with the second step, so all of it comes after one
    yield Claim("train_log_loss_c", np.array(log.pop("loss_c")), "after")
    for name, values in log.items():
        yield from stepwise(f"train_log_{name}", values)


def opinions(imported: Imported, similarity: Tensor) -> tuple[Opinion, Opinion]:
    """Of the image queries, and of the text queries."""
    loss = imported.recipe.loss
    tau, kind = loss["tau"], loss["evidence"]
    return (
        Opinion.from_similarity(similarity, tau, kind),
        Opinion.from_similarity(similarity.T, tau, kind),
    )


def ranked(oracle: Oracle, seen: Seen) -> Tensor:
    """What the published system ranks by."""
    local = oracle.options["method"].startswith(("SAF", "SGR"))
    return seen.score.sigmoid() if local else seen.similarity


def after(oracle: Oracle, imported: Imported, prefix: str, when: When) -> Iterator[Claim]:
    """Everything that is recorded in evaluation, for every network and their sum."""
    if not any(name.startswith(f"{prefix}_") for name in oracle.arrays):
        return
    problem, sums = oracle.problem, []
    for number, view in enumerate(imported.views):
        seen = see(view, problem.visual, problem.text)
        scores = ranked(oracle, seen)
        sums.append(scores)
        yield from of_view(oracle, imported, seen, scores, prefix, number, when)
    total = torch.stack(sums).sum(0)
    yield Claim(f"{prefix}_sims_sum", total, when)
    yield from of_ranks(oracle, total, f"{prefix}_sims_sum", f"{prefix}_{{}}_ens", when)


def of_view(
    oracle: Oracle,
    imported: Imported,
    seen: Seen,
    scores: Tensor,
    prefix: str,
    number: int,
    when: When,
) -> Iterator[Claim]:
    to_text, to_image = opinions(imported, seen.similarity)
    for name, encoded in (("img_emb", seen.images), ("cap_emb", seen.texts)):
        array = f"{prefix}_{name}_{number}"
        if array in oracle.arrays:
            yield Claim(array, vectors(encoded, oracle.arrays[array]), when)
    found = {
        "sims": scores,
        "tanh": seen.similarity,
        "evidence": to_text.log_evidence.exp(),
        "u_i2t": to_text.uncertainty,
        "u_t2i": to_image.uncertainty,
    }
    for name, value in found.items():
        yield Claim(f"{prefix}_{name}_{number}", value, when)
    recorded, ranks = f"{prefix}_sims_{number}", f"{prefix}_{{}}_{number}"
    yield from of_ranks(oracle, scores, recorded, ranks, when)


def batch_losses(oracle: Oracle, imported: Imported) -> Iterator[Claim]:
    """Losses of the training batch before any step, in evaluation mode."""
    batch = oracle.problem.batch()
    match = batch.lesson.match
    seen = [see(view, batch.visual, batch.text) for view in imported.views]
    both = [opinions(imported, one.similarity) for one in seen]
    for number, (to_text, to_image) in enumerate(both):
        yield Claim(f"evalmode_batch_evidence_{number}", to_text.log_evidence.exp())
        for side, opinion in (("i2t", to_text), ("t2i", to_image)):
            yield from of_risk(oracle, f"evalmode_ce_{side}_{number}_lam", opinion, match)
        unlike = kl_to_uniform(to_text.without(match))
        yield Claim(f"evalmode_KL_i2t_{number}", unlike)
        gap = (to_text.probability - match.float()).abs().mean()
        yield Claim(f"evalmode_MAE_{number}", gap + ABLATION_WEIGHT * unlike)
        log = ((to_text.log_strength - to_text.log_alpha) * match).sum(-1)
        # the published code adds a row to a column, which gives a matrix
        yield Claim(f"evalmode_log_{number}", log[None] + ABLATION_WEIGHT * unlike[:, None])
    for place, name in enumerate(("v2t", "t2v")):
        gap = disagreement(both[1][place], both[0][place])
        yield Claim(f"evalmode_consistency_{name}", gap)
    for name, value in hinges(ranked(oracle, seen[0])).items():
        yield Claim(f"evalmode_{name}", value)


def of_risk(oracle: Oracle, name: str, opinion: Opinion, match: Tensor) -> Iterator[Claim]:
    """The loss of every query, for every weight of the KL term that is recorded."""
    risk, unlike = dirichlet_risk(opinion, match), kl_to_uniform(opinion.without(match))
    for array in oracle.arrays:
        if weight := re.fullmatch(rf"{name}([\d.]+)", array):
            yield Claim(array, risk + float(weight[1]) * unlike)


def learn(course: Course, oracle: Oracle, step: int, log: dict[str, list[float]]) -> None:
    """One published step: the evidential loss and, but for the first, agreement."""
    epoch = step - 1
    loss: Any = course.loss.loss
    batch = oracle.problem.batch(epoch, views=2)
    total = course.learn(batch)
    weight = min(loss.kl_most, loss.kl_rate * epoch)
    match = batch.lesson.match
    sides = []
    for number, scores in enumerate(course.loss.scores):
        opinion = Opinion.from_similarity(
            scores.T if number else scores, loss.tau, loss.evidence
        )
        risk = dirichlet_risk(opinion, match)
        sides.append(float((risk + weight * kl_to_uniform(opinion.without(match))).mean()))
    agreement = course.loss.values[1:]
    rate = course.learner.optimiser.param_groups[0]["lr"]
    found = {
        "step": [float(step)],
        "lambda1": [weight],
        "lr": [rate] * len(course.loss.values),
        "loss_i2t": [sides[0]],
        "loss_t2i": [sides[1]],
        "loss": [total],
        "loss_c": [float(sum(agreement))] if agreement else [],
    }
    note(log, **found)


def recorded_state(oracle: Oracle, imported: Imported, step: int) -> Iterator[Claim]:
    """Published weights after `step` steps: what they compute, beside what ours do."""
    if (found := oracle.imported_after("tcl", step)) is None:
        return
    (name, theirs), problem = found, oracle.problem
    for number, (our, their) in enumerate(zip(imported.views, theirs.views, strict=True)):
        both = [
            ranked(oracle, see(view, problem.visual, problem.text)) for view in (our, their)
        ]
        yield Claim(name, both[0], "after", expected=both[1])
        array = f"after{step}_sims_{number}"
        if array in oracle.arrays:  # no step of ours between: as exact as at the start
            yield Claim(name, both[1], "start", expected=oracle.arrays[array])
