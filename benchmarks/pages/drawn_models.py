"""What models drawn by dropout gave, and the claims of Hama et al. that it meets."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document
from benchmarks.pages.verdicts import Comparison, not_yet, published

DROPOUT = "papers/dropout"
"""Runs in the set-up of the paper, each with many drawn models."""
SHORT = "+train.epochs=18+train.decay_after=6+train.decay_every=6"
VSEPP, VSE0 = (f"flickr8k/{name}_hinge_dropout{SHORT}" for name in ("vsepp", "vse0"))
TRAINED = "flickr8k/vse_infty_tcl_dropout"
NEAREST = "(2) VSE++ with VGG19"
"""The case of Flickr30K, which ours are compared with."""
MEAN_OF_ALL = "(5) VSE0 with VGG19"
"""The only case of VSE0, on MS-COCO."""
WAYS = {"caption": "image", "image": "text"}
"""Caption retrieval has image queries, image retrieval has text queries."""
COLUMNS = ("r1", "r5", "r10", "median_rank")
MEASURES = {
    "chance level": "",
    "feature": "mc_dropout: feature uncertainty",
    "posterior": "mc_dropout: posterior uncertainty",
}
OTHERS = {
    "softmax, fitted temperature": "scores: probability",
    "u = K/S": "evidential: u",
    "calibrated trust": "calibrated trust",
}
COLDEST = f"{1 / 1000:g}"
"""The temperature of U_p where its name says none."""
NOT_YET = not_yet("uncertainty", "Table 1")


def drawn(recipe: str = VSEPP) -> list[Document]:
    """What models drawn by dropout gave, of every seed of a recipe."""
    return figures.afterwards(DROPOUT, recipe, "averaging")


def area(query: str, measure: str, column: str, recipe: str = VSEPP) -> list[float] | None:
    """Area under the curve of rejection, of every seed; chance is that of no rejection."""
    rows = [
        seed[query]["areas"].get(measure) if measure else seed[query]["chance"]
        for seed in drawn(recipe)
    ]
    return [row[column] for row in rows] if rows and all(rows) else None


PAIRS = {
    "U_p is better than U_f": ("posterior", "feature"),
    "U_p is better than chance": ("posterior", "chance level"),
    "U_f is worse than chance": ("chance level", "feature"),
}


def reliability(recipe: str = VSEPP, case: str = NEAREST, of: str = "") -> list[Comparison]:
    """Claims of Table 2 at R@1, R@5 and R@10, both directions."""
    there = published("uncertainty")["Table 2"]["cases"][case]["rows"]
    found = []
    for claim, (one, other) in PAIRS.items():
        for way, query in WAYS.items():
            for place, column in enumerate(COLUMNS[:3]):
                cut = column.upper().replace("R", "R@")
                theirs = there[one][way][place] - there[other][way][place]
                better, worse = (area(query, MEASURES[x], column, recipe) for x in (one, other))
                named = f"{of}{way} retrieval, {cut}: {claim}"
                found.append(
                    Comparison(
                        named,
                        theirs,
                        better,
                        worse,
                        otherwise=NOT_YET,
                        unit="area",
                    )
                )
    return found


def averaging(recipe: str = VSEPP, case: str = NEAREST, of: str = "") -> list[Comparison]:
    """Claims of Table 1."""
    there = published("uncertainty")["Table 1"]["cases"][case]["rows"]
    found = []
    for kind in ("feature", "posterior"):
        for way, query in WAYS.items():
            theirs = there[kind][way][0] - there["weight"][way][0]
            claim = f"{of}{way} retrieval, R@1: averaging over {kind} uncertainty helps"
            ours = (averaged(query, kind, recipe), averaged(query, "weight", recipe))
            found.append(Comparison(claim, theirs, *ours, otherwise=NOT_YET, unit="R@1"))
    return found


def averaged(
    query: str, kind: str, recipe: str = VSEPP, column: str = "r1", place: int = -1
) -> list[float] | None:
    """Recall of every seed with the most models, posteriors at the largest temperature."""
    values = []
    for seed in drawn(recipe):
        row = seed[query]["weight"] if kind == "weight" else seed[query]["averaged"][place]
        if kind == "posterior":
            row = row[kind][max(row[kind], key=float)]
        elif kind == "feature":
            row = row[kind]
        values.append(row[column])
    return values or None


def shifted() -> list[Comparison]:
    """Claims of Fig. 6: chances that a query of another dataset is doubted more."""
    told = {
        kind: [
            seed["image"][f"{kind} uncertainty"]["told apart"]
            for seed in figures.afterwards(DROPOUT, VSEPP, "shift")
        ]
        for kind in ("feature", "posterior")
    }
    even = [0.5] * len(told["posterior"])
    sides = {
        "U_p is larger for queries of another dataset": (told["posterior"], even),
        "U_p tells another dataset better than U_f": (told["posterior"], told["feature"]),
    }
    return [
        Comparison(
            f"caption retrieval: {claim}",
            1,
            *pair,
            otherwise=not_yet("uncertainty", "Table 1"),
            unit="chance",
            printed="higher, in a figure",
            digits=3,
        )
        for claim, pair in sides.items()
    ]


def claims() -> list[Comparison]:
    return [*averaging(), *reliability()]


def of_vse0() -> list[Comparison]:
    """The same claims of VSE0, at R@1."""
    prefix = "VSE0, "
    return [
        *averaging(VSE0, MEAN_OF_ALL, prefix),
        *at_first(reliability(VSE0, MEAN_OF_ALL, prefix)),
    ]


def of_another() -> list[Comparison]:
    """The claims of Table 2 at R@1, of a better network with another dropout."""
    return at_first(reliability(TRAINED, NEAREST, "VSE∞ and TCL, "))


def at_first(comparisons: list[Comparison]) -> list[Comparison]:
    return [one for one in comparisons if "R@1:" in one.claim]
