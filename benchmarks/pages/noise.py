"""The page of training with wrong pairs: rSum by loss and by share of wrong pairs."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, number

RATES = ("0", "0.2", "0.4", "0.6", "0.8")
LOSSES = {
    "hinge": "hinge",
    "ncr": "NCR, two networks",
    "decl": "DECL",
    "tcl": "TCL, both views",
    "tcl_decl": "TCL + DECL, both views",
    "strangers": "TCL judged by strangers (`losses/strangers`, ours)",
}
BY_AUDIT = "flickr8k/vse_infty_tcl+train.trust=audits/NOISE"


def render() -> str:
    return figures.page(
        "Results: wrong pairs in training",
        "A share of the training images get the captions of other images. The table gives "
        "rSum (the sum of R@1, R@5 and R@10 in both directions) on the Flickr8k test split. "
        "Mean ± standard deviation where several seeds were run, otherwise seed 0.",
        *trained(),
        *graphs(),
        *light(),
        "How to choose a loss for data with wrong pairs: "
        "[find wrong pairs, or learn in spite of them](../how-to/wrong-pairs.md). "
        "How the losses were developed: [notes](../notes/README.md).",
    )


def trained() -> list[str]:
    rows = {f"flickr8k/vse_infty_{loss}": name for loss, name in LOSSES.items()}
    rows["flickr8k/vse_infty_decl+loss.easing=0.025"] = "DECL with `loss.easing=0.025`"
    rows[BY_AUDIT] = "TCL, pairs weighted by an audit (`train.trust`, ours)"
    alone = {
        "flickr8k/vse_infty_hinge+noise.left_out=true": "*hinge on the right pairs alone*",
        "flickr8k/vse_infty_tcl+noise.left_out=true": "*TCL on the right pairs alone*",
    }
    epochs = figures.epochs("flickr8k/vse_infty_tcl")
    return [
        "## VSE∞ on grid features",
        f"{epochs} epochs. Rows in italics leave the wrong pairs out and are for "
        "comparison only: "
        "nobody knows the wrong pairs of real data.",
        by_rate("noise", rows, alone),
        "The audit is `avow audit flickr8k --recipe audit/strangers --folds 2` over the same "
        f"wrong pairs. Seeds of one loss differ by up to {number(seed_range())}, but alike for "
        "all losses, so differences are given seed by seed, smallest to largest:",
        by_seed(),
        figures.command("python -m benchmarks.quality.noise --features DIR"),
        figures.source("noise"),
    ]


def graphs() -> list[str]:
    rows = {f"flickr8k/sgr_{loss}": name for loss, name in LOSSES.items()}
    return [
        "## SGR on grid features",
        f"{figures.epochs('flickr8k/sgr_tcl')} epochs with TCL and DECL, "
        f"{figures.epochs('flickr8k/sgr_hinge')} with the hinge and NCR. "
        "An empty cell was not run.",
        by_rate("noise", rows, {}, rates=("0", "0.4", "0.8")),
        figures.command("python -m benchmarks.quality.noise --recipes flickr8k/sgr_hinge ..."),
    ]


def light() -> list[str]:
    rows = {f"flickr8k/light_{loss}": name for loss, name in LOSSES.items()}
    alone = {
        "flickr8k/light_tcl+noise.left_out=true": "*TCL on the right pairs alone*",
    }
    small = figures.recipe("flickr8k/light_hinge")["train"]["batch"]
    large = figures.recipe("flickr8k/light_tcl")["train"]["batch"]
    return [
        "## Small heads over frozen networks",
        f"{figures.epochs('flickr8k/light_tcl')} epochs, batches of {large} pairs ({small} for "
        "the hinge, NCR and DECL, which suits them better). These run on a processor.",
        by_rate("noise_light", rows, alone),
        figures.command(
            "python -m benchmarks.quality.noise --here --name noise_light --recipes "
            "flickr8k/light_hinge ..."
        ),
        figures.source("noise_light"),
    ]


def by_rate(
    name: str, rows: dict[str, str], alone: dict[str, str], rates: tuple[str, ...] = RATES
) -> str:
    summary = figures.load(name)["summary"]
    cells, values = [], []
    for key, label in rows.items():
        cells.append([label, *(cell(summary, key, rate) for rate in rates)])
        values.append([best(summary, key, rate) for rate in rates])
    figures.bold_largest(cells, values)
    cells += [
        [label, *(cell(summary, key, rate) for rate in rates)] for key, label in alone.items()
    ]
    return figures.table(["rSum", *(figures.percent(float(rate)) for rate in rates)], cells)


def best(summary: Document, key: str, rate: str) -> float | None:
    return summary[key][rate]["best"]["rsum"] if rate in summary[key] else None


def cell(summary: Document, key: str, rate: str) -> str:
    if rate not in summary[key]:
        return ""
    recorded = summary[key][rate]["best"]
    mean = number(recorded["rsum"], 1)
    spread = recorded["spread"]
    return mean if spread is None else f"{mean} ± {number(spread, 1)}"


def by_seed() -> str:
    """Differences between losses, seed by seed; the same seeds stand in the same order."""
    summary = figures.load("noise")["summary"]
    stem = "flickr8k/vse_infty"
    pairs = {
        "audit above strangers": (BY_AUDIT, f"{stem}_strangers"),
        "strangers above TCL": (f"{stem}_strangers", f"{stem}_tcl"),
        "audit above NCR": (BY_AUDIT, f"{stem}_ncr"),
        "audit above DECL": (BY_AUDIT, f"{stem}_decl"),
    }
    rows = []
    for label, (first, second) in pairs.items():
        rows.append([label, *(between(summary, first, second, rate) for rate in RATES[1:])])
    return figures.table(["rSum", *(figures.percent(float(r)) for r in RATES[1:])], rows)


def seed_range() -> float:
    """The largest difference between two seeds of one loss at one rate."""
    summary = figures.load("noise")["summary"]
    values = [rate["best"]["values"] for recipe in summary.values() for rate in recipe.values()]
    return max(max(of_seeds) - min(of_seeds) for of_seeds in values)


def between(summary: Document, first: str, second: str, rate: str) -> str:
    one, other = summary[first][rate], summary[second][rate]
    shared = [seed for seed in one["seeds"] if seed in other["seeds"]]
    gains = [value(one, seed) - value(other, seed) for seed in shared]
    return (
        f"{number(min(gains), 1)} to {number(max(gains), 1)}"
        if len(gains) > 1
        else f"{number(gains[0], 1)}"
    )


def value(entry: Document, seed: int) -> float:
    return entry["best"]["values"][entry["seeds"].index(seed)]
