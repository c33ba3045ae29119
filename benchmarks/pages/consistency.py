"""The page that compares TCL's agreement with as many optimiser steps on the risk alone."""

import statistics

from benchmarks.pages import figures
from benchmarks.pages.figures import number, several

FILE = "papers/consistency"
WITHOUT = "+loss.agreement_steps=0"
STEPS = "+loss.risk_steps=4"
LONGER = "+train.epochs=36+train.decay_after=24"
METHODS = {"vse_infty": "VSE∞", "tcvse": "TcVSE"}
VARIANTS = {
    "tcl": ("TCL with agreement, as published", "1 + T"),
    f"tcl{WITHOUT}{STEPS}": ("TCL without agreement, all steps on the risk", "1 + T"),
    f"tcl{WITHOUT}": ("TCL without agreement", "1"),
    f"tcl{WITHOUT}{LONGER}": ("TCL without agreement, more epochs", "1"),
    f"hinge{STEPS}": ("hinge, several steps a batch", "1 + T"),
    "hinge": ("hinge", "1"),
    f"hinge{LONGER}": ("hinge, more epochs", "1"),
}


def render() -> str:
    epochs = figures.epochs("flickr8k/vse_infty_tcl")
    longer = LONGER.partition("epochs=")[2].partition("+")[0]
    return figures.page(
        "Results: agreement against equal numbers of steps",
        "TCL takes one optimiser step on the risk of a batch and then T steps on the agreement "
        "of its two views. Its gain over a loss of one step may come from the agreement, or "
        "from the number of steps. `loss.risk_steps` repeats the step on the risk instead.",
        "rSum on the Flickr8k test split, average of the views where there are two; mean ± "
        f"standard deviation. {epochs} epochs, in the rows with more epochs {longer}. "
        f"T is {agreement_steps()}.",
        table(),
        conclusion(),
        "One dataset, grid features, two methods and few seeds: other data may differ. With "
        "wrong pairs in training, see [wrong pairs](noise.md).",
        figures.command(
            "python -m benchmarks.quality.recipes papers/consistency --features DIR "
            f"flickr8k/vse_infty_tcl flickr8k/vse_infty_tcl{WITHOUT}{STEPS} ..."
        ),
        figures.source(FILE),
    )


def agreement_steps() -> int:
    """T of the recipes."""
    return figures.recipe("flickr8k/vse_infty_tcl")["loss"]["agreement_steps"]


def values(method: str, variant: str) -> list[float] | None:
    """rSum of every seed; None: not run."""
    entry = figures.load(FILE)["summary"].get(f"flickr8k/{method}_{variant}")
    if entry is None:
        return None
    return entry["both views" if "both views" in entry else "model"]["values"]


def cell(found: list[float] | None) -> str:
    return "" if found is None else f"{several(found)} ({len(found)} seeds)"


def table() -> str:
    rows = [
        [name, steps, *(cell(values(method, variant)) for method in METHODS)]
        for variant, (name, steps) in VARIANTS.items()
    ]
    return figures.table(["loss", "steps a batch", *METHODS.values()], rows)


def gain(method: str, first: str, second: str) -> float:
    one, other = values(method, first), values(method, second)
    assert one is not None and other is not None
    return statistics.fmean(one) - statistics.fmean(other)


def conclusion() -> str:
    sentences = []
    for method, name in METHODS.items():
        agreed = gain(method, "tcl", f"tcl{WITHOUT}")
        stepped = gain(method, f"tcl{WITHOUT}{STEPS}", f"tcl{WITHOUT}")
        sentences.append(
            f"{name}: agreement adds {number(agreed, 1)} to TCL without it; as many steps on "
            f"the risk alone add {number(stepped, 1)}."
        )
    return " ".join(sentences) + (
        " With these settings, as many steps on the risk alone bring VSE∞ further than "
        "agreement, and TcVSE as far within the spread of its seeds."
    )
