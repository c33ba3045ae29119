"""Figures 4 and 5 of TCL, and its text encoders: sweeps, and u against corruption."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, several
from benchmarks.pages.verdicts import Comparison, not_yet, published, rsums, told

SWEEPS, MAIN, KL, TEXTS = FILES = (
    "papers/sweeps",
    "papers/main",
    "papers/uncertainty",
    "papers/texts",
)
TCL, HINGE = "flickr8k/vse_infty_tcl", "flickr8k/vse_infty_hinge"
SHORT = "+train.epochs=5+train.decay_after=4"
STEPS = (0, 1, 2, 3, 5)
EVIDENCE = ("exp", "relu", "softplus")
ENCODERS = {
    "Bi-GRU": "",
    "GloVe, Bi-GRU": (
        "+method.text=glove+method.text_source=glove.6B.50d.txt+method.word_dim=50"
    ),
    "MiniLM with low-rank changes": "+method.text=adapted",
}
ASKED = {"text": "text queries", "image": "image queries"}
HIGHER = "higher, in a figure"


# --- Fig. 4: steps, temperature, evidence --------------------------------------------------


def usual_tau() -> str:
    return str(figures.recipe(TCL)["loss"]["tau"])


def taus() -> list[str]:
    """Temperatures of the sweep, the recipe's own among them."""
    listed = published("items")["tcl"]["Fig. 4"]["recipes"]
    others = {found[1] for run in listed if (found := re.search(r"loss\.tau=([\d.]+)", run))}
    return sorted({*others, usual_tau()}, key=float)


def swept(*, steps: int = 1, tau: str = "", evidence: str = "exp") -> list[float] | None:
    """rSum of a sweep's run; all have equal epochs, and one agreement step where not said."""
    change = "" if tau in ("", usual_tau()) else f"+loss.tau={tau}"
    change += "" if evidence == "exp" else f"+loss.evidence={evidence}"
    recipe = f"{TCL}{change}+loss.agreement_steps={steps}{SHORT}"
    return rsums(recipe, "both views", SWEEPS)


def sweeps() -> str:
    rows = [["T", *(str(step) for step in STEPS)]]
    rows.append(["rSum", *(told(swept(steps=step)) for step in STEPS)])
    rows.append(["τ", *(fraction(float(tau), 2) for tau in taus())])
    rows.append(["rSum, T of 1", *(told(swept(tau=tau)) for tau in taus())])
    kinds = [f"{kind}: {told(swept(evidence=kind)) or 'not run'}" for kind in EVIDENCE]
    table = figures.table(rows[0], rows[1:])
    return f"{table}\n\nEvidence, T of 1: {'; '.join(kinds)}."


def sweep_claims() -> list[Comparison]:
    missing = not_yet("tcl", "Fig. 4")
    pairs = {
        "one agreement step is better than none": (swept(steps=1), swept(steps=0)),
        "three agreement steps are better than one": (swept(steps=3), swept(steps=1)),
    }
    usual = usual_tau()
    for tau in (taus()[0], *(one for one in taus() if float(one) > float(usual))):
        claim = f"τ of {fraction(float(usual), 2)} is better than {fraction(float(tau), 2)}"
        pairs[claim] = (swept(), swept(tau=tau))
    return [
        Comparison(claim, 1, better, worse, otherwise=missing, printed=HIGHER)
        for claim, (better, worse) in pairs.items()
    ]


# --- Fig. 5: u against corruption ----------------------------------------------------------


def corrupted(file: str, recipe: str) -> list[Document]:
    """What was found of every seed of a recipe that was asked with worse inputs."""
    return figures.afterwards(file, recipe, "corruption")


def studies(recipe: str = TCL) -> dict[str, list[Document]]:
    """By the largest weight of the divergence in training."""
    faster = f"{recipe}+loss.kl_rate=0.015"
    sources = ((MAIN, recipe), (KL, recipe), (KL, faster))
    found: dict[str, list[Document]] = {}
    for seeds in (corrupted(*source) for source in sources):
        if seeds:
            found[f"λ up to {fraction(seeds[0]['kl_last'], 2)}"] = seeds
    return found


def u_of(seeds: Sequence[Document], query: str, ratio: float, size: str = "") -> list[float]:
    """Mean u of each seed, words and regions hidden; size: among K candidates."""
    values = []
    for seed in seeds:
        entries = seed["directions"][query]["kinds"]["both"]
        (entry,) = [one for one in entries if one["ratio"] == ratio]
        values.append(entry["u among K"][size] if size else entry["u"])
    return values


def corruption(recipe: str = TCL, method: str = "VSE∞") -> str:
    lines, ratios = [], []
    for name, seeds in studies(recipe).items():
        ratios = seeds[0]["ratios"]
        sizes = list(seeds[0]["directions"]["text"]["kinds"]["both"][0]["u among K"])
        for query, asked in ASKED.items():
            for size in [*sizes, ""]:
                cells = [several(u_of(seeds, query, ratio, size), 3) for ratio in ratios]
                lines.append([name, asked, size or "all", *cells])
    if not lines:
        return f"Not on this page yet, {not_yet('tcl', 'Fig. 5')}."
    heads = [fraction(ratio, 1) if ratio else "0" for ratio in ratios]
    return figures.table([method, "asked", "K", *(f"u at {one}" for one in heads)], lines)


def what_decides(recipe: str = TCL) -> str:
    """The same change of u among as few candidates as a batch of training has."""
    listed, turned = [], []
    for name, seeds in studies(recipe).items():
        size = min(seeds[0]["directions"]["text"]["kinds"]["both"][0]["u among K"], key=int)
        for query, asked in ASKED.items():
            few, every = (
                Comparison("", 1, u_of(seeds, query, 0.3, k), u_of(seeds, query, 0.0, k))
                for k in (size, "")
            )
            listed.append(
                f"{asked}, {name}: {replace(few, digits=3).told} among {size}, "
                f"{replace(every, digits=3).told} among all"
            )
            if few.verdict.startswith("agrees") and every.verdict.startswith("disagrees"):
                turned.append(f"{asked}, {name}")
    if not listed:
        return ""
    verdict = (
        "Beyond two standard errors of the seeds it rises in galleries of the size of a "
        f"training batch and falls in the whole one for: {'; '.join(turned) or 'none'}."
    )
    return f"Change of u from the first to the third column: {'; '.join(listed)}. {verdict}"


def corruption_claims(recipe: str = TCL) -> Iterator[Comparison]:
    found = studies(recipe) or {"λ of the recipe": []}
    missing = not_yet("tcl", "Fig. 5")
    for name, seeds in found.items():
        for query, asked in ASKED.items():
            for low, high in ((0.0, 0.3), (0.3, 0.6)):
                yield Comparison(
                    f"{name}, {asked}: u rises from {low:g} to {high:g} of the input hidden",
                    1,
                    u_of(seeds, query, high) or None,
                    u_of(seeds, query, low) or None,
                    otherwise=missing,
                    unit="u",
                    printed=HIGHER,
                    digits=3,
                )


# --- text encoders -------------------------------------------------------------------------


def encoder(loss: str, change: str) -> list[float] | None:
    view = "both views" if loss == TCL else "model"
    return rsums(f"{loss}{change}", view, TEXTS, MAIN)


def encoders() -> str:
    rows = [
        [name, told(encoder(HINGE, change)), told(encoder(TCL, change))]
        for name, change in ENCODERS.items()
    ]
    return figures.table(["VSE∞ on the same features", "hinge", "TCL, both views"], rows)


def encoder_claims() -> list[Comparison]:
    missing = not_yet("tcl", "Tables I and II, text encoders")
    listed = []
    for name, change in ENCODERS.items():
        sides = encoder(TCL, change), encoder(HINGE, change)
        listed.append(
            Comparison(f"TCL adds with {name}", 1, *sides, otherwise=missing, printed="higher")
        )
    return listed
