"""GSMN: graphs of regions and of words, matched node by node."""

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from parity_systems._claims import Claim, When, inputs
from parity_systems._oracle import Oracle, Problem
from parity_systems._steps import enrol, every_step, see
from torch import Tensor

PREFIXES = ("gsmn_",)


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("gsmn", squash="none", faithful=True)
    (view,) = imported.views
    yield from inputs("dep_pairs")
    problem = joined(oracle)
    yield from after(oracle, problem, view, "init", "start")
    course = enrol(imported, oracle.options, "adam")
    yield from every_step(oracle, problem, course, partial(after, oracle, problem, view))


def joined(oracle: Oracle) -> Problem:
    """The inputs with the recorded pairs of words as edges."""
    text: Any = oracle.problem.text
    linked = edges(oracle.arrays["dep_pairs"], text.ids.shape[1])
    return dataclasses.replace(oracle.problem, text=dataclasses.replace(text, edges=linked))


def edges(pairs: np.ndarray, words: int) -> Tensor:
    """Which words are linked; the published system ignores the first pair of a caption."""
    out = torch.zeros(len(pairs), words, words, dtype=torch.bool)
    counted = pairs[:, 1:]
    caption, place = np.nonzero((counted >= 0).all(-1))
    ends = counted[caption, place]
    out[caption, ends[:, 0], ends[:, 1]] = True
    return out


@torch.no_grad()
def after(
    oracle: Oracle, problem: Problem, view: Any, prefix: str, when: When
) -> Iterator[Claim]:
    if f"{prefix}_sims" not in oracle.arrays:
        return
    seen = see(view, problem.visual, problem.text)
    by_regions, by_words = view.scores(seen.images, seen.texts)
    yield Claim(f"{prefix}_sims_i2t", by_regions, when)
    yield Claim(f"{prefix}_sims_t2i", by_words, when)
    yield Claim(f"{prefix}_sims", seen.score, when)
