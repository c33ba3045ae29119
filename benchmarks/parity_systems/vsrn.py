"""VSRN: regions that reason in a graph, and the captions it tells while it learns."""

from collections.abc import Iterator
from typing import Any

import torch
from parity_systems._claims import Claim, When, inputs, note, stepwise
from parity_systems._oracle import Oracle
from parity_systems._steps import enrol, see, vectors

PREFIXES = ("vsrn_",)


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("vsrn")
    (view,) = imported.views
    yield from inputs("caption_labels", "caption_masks")
    yield from after(oracle, view, "init", "start")
    course = enrol(imported, oracle.options, "adam")
    log: dict[str, list[float]] = {}
    for step in range(1, oracle.arrays["train_log_Le"].size + 1):
        total = course.learn(oracle.problem.batch(step - 1))
        found = {
            "Eit": step,
            "lr": course.learner.optimiser.param_groups[0]["lr"],
            "Le_retrieval": course.loss.values[0],
            "Le_caption": total - course.loss.values[0],
            "Le": total,
        }
        note(log, **found)
        yield from after(oracle, view, f"after{step}", "after")
    for name, values in log.items():
        yield from stepwise(f"train_log_{name}", values)


@torch.no_grad()
def after(oracle: Oracle, view: Any, prefix: str, when: When) -> Iterator[Claim]:
    if f"{prefix}_sims" not in oracle.arrays:
        return
    problem = oracle.problem
    seen = see(view, problem.visual, problem.text)
    for name, encoded in (("img_emb", seen.images), ("cap_emb", seen.texts)):
        array = f"{prefix}_{name}"
        if array in oracle.arrays:
            yield Claim(array, vectors(encoded, oracle.arrays[array]), when)
    yield Claim(f"{prefix}_gcn_emb", view.reason(problem.visual), when)
    yield Claim(f"{prefix}_sims", seen.similarity, when)
