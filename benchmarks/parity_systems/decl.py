"""DECL: the evidence of SAF or SGR; its own losses are not in Avow yet.

Without the loss nothing can be trained here, so what was recorded after training is checked
on the recorded weights, where there are any.
"""

import re
from collections.abc import Iterator

import torch

from avow.assembly.published import Imported
from avow.core.opinion import Opinion
from parity_systems._claims import Claim, When, inputs, not_yet
from parity_systems._oracle import Oracle
from parity_systems._ranking import of_ranks
from parity_systems._steps import Seen, see

PREFIXES = ("decl_",)


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("decl", squash="tanh")
    later = [name for name in oracle.arrays if name.startswith(("mse_", "rdh_", "train_log_"))]
    yield from not_yet(later, "the losses of DECL")
    yield from inputs("train_preds")
    yield from evaluated(oracle, imported, "init")
    yield from batch(oracle, imported)
    trained = sorted(name for name in oracle.arrays if re.match(r"after\d+_", name))
    for step in sorted({re.findall(r"\d+", name)[0] for name in trained}):
        name = f"after_step{step}.pt"
        if name not in oracle.states:
            found = [name for name in trained if name.startswith(f"after{step}_")]
            yield from not_yet(found, "the losses of DECL")
            continue
        theirs = oracle.imported("decl", oracle.states[name], squash="tanh")
        yield from evaluated(oracle, theirs, f"after{step}")
        seen = see(theirs.views[0], oracle.problem.visual, oracle.problem.text)
        recorded = oracle.arrays[f"after{step}_sims_sigmoid"]
        yield Claim(name, seen.score.sigmoid(), expected=recorded, note="its sims_sigmoid")


def opinions(imported: Imported, seen: Seen) -> tuple[Opinion, Opinion]:
    tau = imported.recipe.loss["tau"]
    both = seen.similarity, seen.similarity.T
    return Opinion.from_similarity(both[0], tau), Opinion.from_similarity(both[1], tau)


def evaluated(oracle: Oracle, imported: Imported, prefix: str) -> Iterator[Claim]:
    """Everything of the whole set, no step of ours between weights and numbers."""
    when: When = "start"
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
    share = both_ways / both_ways.sum(1, keepdim=True)
    clean = share.argmax(1) == torch.arange(len(share))
    found = {
        "alpha_i2t": to_text.alpha,
        "alpha_t2i": to_image.alpha,
        "norm_e": share,
        "tanh": seen.similarity,
        "sigmoid": seen.score.sigmoid(),
        "pred_label": clean,
        "uncertainty": to_text.uncertainty + to_image.uncertainty,
    }
    for name, value in found.items():
        yield Claim(f"batch_{name}", value)
