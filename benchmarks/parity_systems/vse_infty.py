"""VSE-infinity: one network with learnt pooling, and its hinge."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from parity_systems._claims import Claim, When, inputs
from parity_systems._oracle import Oracle
from parity_systems._steps import enrol, every_step, see, vectors

from avow.core.contracts import Method

PREFIXES = ("vseinfty_", "vsepp_", "rvsepp_")
LENGTHS = "gpo_varlen_lengths"
SYSTEMS = {"vseinfty": "vse_infty", "vsepp": "vsepp", "rvsepp": "rvsepp"}


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported(SYSTEMS[oracle.name.partition("_")[0]])
    (view,) = imported.views
    yield from after(oracle, view, "init", "start")
    decay = float(oracle.options.get("weight_decay", 0.01))
    options = oracle.options
    options = {**options, "learning_rate": options.get("lr", options["learning_rate"])}
    course = enrol(imported, options, optimiser(options), decay)
    yield from every_step(oracle, oracle.problem, course, partial(after, oracle, view))


def optimiser(options: dict[str, Any]) -> Any:
    """The system that says "adam" takes AdamW; the recorded settings say which it was."""
    return str(options.get("optimizer", "adamw")).lower()


def after(oracle: Oracle, view: Method, prefix: str, when: When) -> Iterator[Claim]:
    if f"{prefix}_sims" not in oracle.arrays:
        return
    seen = see(view, oracle.problem.visual, oracle.problem.text)
    for name, encoded in (("img_emb", seen.images), ("cap_emb", seen.texts)):
        array = f"{prefix}_{name}"
        if array in oracle.arrays:
            yield Claim(array, vectors(encoded, oracle.arrays[array]), when)
    yield Claim(f"{prefix}_sims", seen.similarity, when)
    if f"{prefix}_{LENGTHS}" in oracle.arrays:
        yield from pooling(oracle, view, prefix, when)


@torch.no_grad()
def pooling(oracle: Oracle, view: Any, prefix: str, when: When) -> Iterator[Claim]:
    """The learnt pooling of images that have fewer regions, and its weights."""
    lengths = f"{prefix}_{LENGTHS}"
    yield from inputs(lengths)
    features = oracle.problem.visual.features
    counts = torch.from_numpy(oracle.arrays[lengths]).long()
    present = torch.arange(features.shape[1])[None] < counts[:, None]
    parts = view.visual(features * present[..., None])
    pooled = view.visual_pool(parts, present)
    yield Claim(lengths.replace("lengths", "pooled"), pooled, when)
    table = view.visual_pool.weights(features.shape[1], torch.device("cpu"))
    yield Claim(lengths.replace("lengths", "weights"), table[counts - 1], when)
