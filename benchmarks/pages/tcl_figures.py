"""Figures of TCL and TcVSE, and text encoders: sweeps, and u against corruption."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
SGR = "flickr8k/sgr_tcl"
EQUAL = "+train.epochs=8+train.batch=128+train.decay_after=6"
SGR_HINGE, SGR_TCL = f"flickr8k/sgr_hinge{EQUAL}", f"{SGR}{EQUAL}"
"""With equal epochs and batches."""
METHODS = "papers/methods"
SHORT = "+train.epochs=5+train.decay_after=4"
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


@dataclass(frozen=True)
class Sweep:
    """Runs of one recipe, at few and equal epochs, that differ in one setting."""

    recipe: str
    paper: str
    item: str

    def name(self) -> str:
        """Of its pictures, such as tcl-fig4."""
        return f"{self.paper}-{self.item.lower().replace('. ', '')}"

    def usual_tau(self) -> str:
        return str(figures.recipe(self.recipe)["loss"]["tau"])

    def listed(self, setting: str) -> set[str]:
        """Values of a setting among the runs of the item."""
        runs = published("items")[self.paper][self.item]["recipes"]
        return {found[1] for run in runs if (found := re.search(rf"{setting}=(\w[\w.]*)", run))}

    def taus(self) -> list[str]:
        """The recipe's own among them."""
        return sorted({*self.listed(r"loss\.tau"), self.usual_tau()}, key=float)

    def steps(self) -> list[int]:
        return sorted(int(one) for one in self.listed(r"loss\.agreement_steps"))

    def kinds(self) -> list[str]:
        """Of evidence, the usual one first."""
        return ["exp", *sorted(self.listed(r"loss\.evidence"))]

    def swept(self, *, steps: int = 1, tau: str = "", kind: str = "exp") -> list[float] | None:
        """rSum of every seed; one agreement step where not said."""
        change = "" if tau in ("", self.usual_tau()) else f"+loss.tau={tau}"
        change += "" if kind == "exp" else f"+loss.evidence={kind}"
        run = f"{self.recipe}{change}+loss.agreement_steps={steps}{SHORT}"
        return rsums(run, "both views", SWEEPS)

    def table(self) -> str:
        steps, taus, kinds = self.steps(), self.taus(), self.kinds()
        parts = [
            ("T", [str(step) for step in steps], [self.swept(steps=step) for step in steps]),
            ("τ", [fraction(float(one), 2) for one in taus], [self.swept(tau=t) for t in taus]),
            ("evidence", kinds, [self.swept(kind=kind) for kind in kinds]),
        ]
        return "\n\n".join(
            figures.table([name, *values], [["rSum", *map(told, seeds)]])
            for name, values, seeds in parts
            if len(values) > 1
        )

    def claims(self) -> list[Comparison]:
        pairs = {
            "one agreement step is better than none": (
                self.swept(steps=1),
                self.swept(steps=0),
            ),
            "three agreement steps are better than one": (
                self.swept(steps=3),
                self.swept(steps=1),
            ),
        }
        usual, taus = self.usual_tau(), self.taus()
        for tau in (taus[0], *(tau for tau in taus if float(tau) > float(usual))):
            claim = f"τ of {fraction(float(usual), 2)} is better than {fraction(float(tau), 2)}"
            pairs[claim] = (self.swept(), self.swept(tau=tau))
        missing = not_yet(self.paper, self.item)
        return [
            Comparison(claim, 1, better, worse, otherwise=missing, printed=HIGHER)
            for claim, (better, worse) in pairs.items()
        ]


OF_TCL = Sweep(TCL, "tcl", "Fig. 4")
OF_TCVSE = Sweep("flickr8k/tcvse_tcl", "tcvse", "Fig. 6")


# --- Fig. 5: u against corruption ----------------------------------------------------------


def corrupted(file: str, recipe: str) -> list[Document]:
    """What was found of every seed of a recipe that was asked with worse inputs."""
    return figures.afterwards(file, recipe, "corruption")


def studies(recipe: str = TCL) -> dict[str, list[Document]]:
    """By the largest weight of the divergence in training."""
    listed = figures.load(KL)["runs"] if figures.exists(KL) else []
    others = {run["recipe"] for run in listed if is_only_kl(run["recipe"], recipe)}
    sources = ((MAIN, recipe), (KL, recipe), *((KL, other) for other in sorted(others)))
    found: dict[str, list[Document]] = {}
    for seeds in (corrupted(*source) for source in sources):
        if seeds:
            found[f"λ up to {fraction(seeds[0]['kl_last'], 2)}"] = seeds
    return found


def is_only_kl(changed: str, recipe: str) -> bool:
    """Whether a run differs from the recipe in the weight of the divergence alone."""
    before, _, rate = changed.partition("+loss.kl_rate=")
    return before == recipe and bool(rate) and "+" not in rate


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


def corruption_claims(recipe: str = TCL, method: str = "VSE∞") -> Iterator[Comparison]:
    found = studies(recipe) or {"λ of the recipe": []}
    missing = not_yet("tcl", "Fig. 5")
    for name, seeds in found.items():
        for query, asked in ASKED.items():
            for low, high in ((0.0, 0.3), (0.3, 0.6)):
                yield Comparison(
                    f"{method}, {name}, {asked}: u rises from {low:g} to {high:g} of the input "
                    "hidden",
                    1,
                    u_of(seeds, query, high) or None,
                    u_of(seeds, query, low) or None,
                    otherwise=missing,
                    unit="u",
                    printed=HIGHER,
                    digits=3,
                )


def all_corruption_claims() -> list[Comparison]:
    return [*corruption_claims(), *corruption_claims(SGR, "SGR")]


# --- text encoders -------------------------------------------------------------------------


def encoder(loss: str, change: str) -> list[float] | None:
    view = "both views" if loss in (TCL, SGR_TCL) else "model"
    return rsums(f"{loss}{change}", view, TEXTS, MAIN, METHODS)


def compared() -> dict[str, tuple[str, str]]:
    """Hinge and TCL of the methods that were trained with other text encoders."""
    both = {"VSE∞": (HINGE, TCL), "SGR": (SGR_HINGE, SGR_TCL)}
    others = [change for change in ENCODERS.values() if change]
    return {
        method: losses
        for method, losses in both.items()
        if any(encoder(loss, change) for loss in losses for change in others)
    }


def encoders() -> str:
    tables = []
    for method, (hinge, tcl) in compared().items():
        rows = [
            [name, told(encoder(hinge, change)), told(encoder(tcl, change))]
            for name, change in ENCODERS.items()
        ]
        head = [f"{method} on the same features", "hinge", "TCL, both views"]
        tables.append(figures.table(head, rows))
    return "\n\n".join(tables)


def encoder_claims() -> list[Comparison]:
    missing = not_yet("tcl", "Tables I and II, text encoders")
    return [
        Comparison(
            f"TCL adds to {method} with {name}",
            1,
            encoder(tcl, change),
            encoder(hinge, change),
            otherwise=missing,
            printed="higher",
        )
        for method, (hinge, tcl) in compared().items()
        for name, change in ENCODERS.items()
    ]
