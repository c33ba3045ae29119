"""SCAN and IMRAM: regions and words that look at each other."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from parity_systems._claims import Claim, When
from parity_systems._oracle import Oracle
from parity_systems._steps import enrol, every_step, gradient_norm, see, vectors

from avow.core.contracts import Method

PREFIXES = ("scan_", "imram_")


def recompute(oracle: Oracle) -> Iterator[Claim]:
    # the published margin is for scores as they are
    imported = oracle.imported(oracle.name.partition("_")[0], squash="none")
    (view,) = imported.views
    yield from after(oracle, view, "init", "start")
    yield Claim("train_gradnorm", gradient_norm(imported, oracle.problem.batch()))
    course = enrol(imported, oracle.options, "adam")
    yield from every_step(oracle, oracle.problem, course, partial(after, oracle, view))


@torch.no_grad()
def after(oracle: Oracle, view: Method, prefix: str, when: When) -> Iterator[Claim]:
    if f"{prefix}_sims" not in oracle.arrays:
        return
    seen = see(view, oracle.problem.visual, oracle.problem.text)
    yield Claim(f"{prefix}_sims", seen.score, when)
    if prefix == "init":
        for name, encoded in (("img_emb", seen.images), ("cap_emb", seen.texts)):
            if name in oracle.arrays:
                yield Claim(name, vectors(encoded, oracle.arrays[name]))
    pairing: Any = getattr(view, "pairing", None)
    if f"{prefix}_steps_t2i" in oracle.arrays:
        steps = pairing.each_step(seen.texts, seen.images, pairing.words)
        yield Claim(f"{prefix}_steps_t2i", steps, when)
    if f"{prefix}_steps_i2t" in oracle.arrays:
        steps = pairing.each_step(seen.images, seen.texts, pairing.regions)
        yield Claim(f"{prefix}_steps_i2t", steps.mT, when)
