"""The page of Hama et al.'s claims: feature and posterior uncertainty of drawn models."""

import statistics
from collections.abc import Sequence

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number
from benchmarks.pages.verdicts import (
    VERDICT,
    Comparison,
    claims_table,
    equations_table,
    not_yet,
    published,
    to_run,
    told,
)

STUDY = "trust_flickr8k_vse_infty_tcl_dropout"
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
SHIFTS = ("shift_flickr8k-vse_infty_tcl-seed0", "shift_coco_grid-vse_infty_tcl-seed0")
COLDEST = f"{1 / 1000:g}"
"""The temperature of U_p where its name says none."""
LEVEL = 95 / 100
"""Of the recorded intervals."""
NOT_YET = not_yet("uncertainty", "Table 1")
SHIFTED = (
    "python -m benchmarks.quality.model_averaging flickr8k RUN RUN RUN --features DIR "
    "--scored DIR --data coco"
)


def drawn(recipe: str = VSEPP) -> list[Document]:
    """What models drawn by dropout gave, of every seed of a recipe."""
    if not figures.exists(DROPOUT):
        return []
    return [
        run["afterwards"]["averaging"]
        for run in figures.load(DROPOUT)["runs"]
        if run["recipe"] == recipe and "averaging" in run.get("afterwards", {})
    ]


def study(query: str) -> Document:
    return figures.load(STUDY)["summary"][query]


def area(query: str, measure: str, column: str, recipe: str = VSEPP) -> list[float] | None:
    """Area under the curve of rejection, of every seed; chance is that of no rejection.

    Of the paper's set-up where it was run, else of the one run with another dropout.
    """
    if seeds := drawn(recipe):
        rows = [
            seed[query]["areas"].get(measure) if measure else seed[query]["chance"]
            for seed in seeds
        ]
        return [row[column] for row in rows] if all(rows) else None
    if recipe != VSEPP:
        return None
    found = study(query)["measures"][measure]["area"] if measure else study(query)["chance"]
    return [found[column]["mean"]]


def error(query: str, column: str) -> float:
    """Standard error of a recall over redrawn images: of an area it is about the same."""
    way = "text_to_image" if query == "text" else "image_to_text"
    (run,) = [run for run in figures.load("flickr8k")["runs"] if run["recipe"] == TRAINED]
    low, high = run["rows"][-1]["intervals"][f"{way}.{column}"]
    return (high - low) / (2 * statistics.NormalDist().inv_cdf(1 - (1 - LEVEL) / 2))


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
                usual = None if drawn(recipe) else error(query, column) / 2**0.5
                named = f"{of}{way} retrieval, {cut}: {claim}"
                found.append(
                    Comparison(
                        named,
                        theirs,
                        better,
                        worse,
                        usual=usual,
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


def claims() -> list[Comparison]:
    return [*averaging(), *reliability()]


def of_vse0() -> list[Comparison]:
    """The same claims of VSE0, at R@1."""
    prefix = "VSE0, "
    areas = reliability(VSE0, MEAN_OF_ALL, prefix)
    return [
        *averaging(VSE0, MEAN_OF_ALL, prefix),
        *(one for one in areas if "R@1:" in one.claim),
    ]


def ours_of_table_1() -> str:
    """Table 1 as it is here."""
    lines = []
    for name, recipe in {"VSE++": VSEPP, "VSE0": VSE0}.items():
        for kind in ("weight", "feature", "posterior") if drawn(recipe) else ():
            cells = [
                figures.several(averaged(query, kind, recipe, column) or [])
                for query in WAYS.values()
                for column in COLUMNS
            ]
            lines.append([f"{name}, {kind}", *cells])
    return figures.table(["here", *heads()], lines) if lines else ""


def by_models() -> str:
    """Fig. 2: R@1 of averaged posteriors and features against the number of models."""
    seeds = drawn()
    if not seeds:
        return f"Fig. 2: {NOT_YET}."
    lines = []
    for way, query in WAYS.items():
        rows = [seed[query]["averaged"] for seed in seeds]
        for place, row in enumerate(rows[0]):
            heats = [
                figures.several([seed[place]["posterior"][heat]["r1"] for seed in rows])
                for heat in row["posterior"]
            ]
            feature = figures.several([seed[place]["feature"]["r1"] for seed in rows])
            lines.append([f"{way} retrieval", str(row["models"]), feature, *heats])
    heats = [f"posterior, T={heat}" for heat in rows[0][0]["posterior"]]
    return figures.table(["R@1", "models", "feature", *heats], lines)


def cases(table: str) -> str:
    """All five cases of a table as the paper printed them."""
    lines = []
    for name, case in published("uncertainty")[table]["cases"].items():
        for kind, row in case["rows"].items():
            data = f"{case['training']} → {case['testing']}"
            cells = [number(value, 1) for way in WAYS for value in row[way]]
            lines.append([name, data, kind, *cells])
    return figures.table(["paper", "data", "", *heads()], lines)


def heads() -> list[str]:
    columns = published("uncertainty")["Table 2"]["columns"]
    return [f"{way}: {column}" for way in ("captions", "images") for column in columns]


def areas() -> str:
    """Table 2 as it is here, with what the paper does not have."""
    lines = []
    for name, key in {**MEASURES, **OTHERS}.items():
        values = [area(query, key, column) for query in WAYS.values() for column in COLUMNS]
        if all(values):
            lines.append([name, *(figures.several(value or []) for value in values)])
    return figures.table(["here", *heads()], lines)


def by_temperature() -> str:
    """Fig. 3: the area at R@1 of posterior uncertainty at every temperature."""
    first, *_ = drawn() or [None]
    if first is None:
        return f"Fig. 3: {NOT_YET}."
    named = [key for key in first["image"]["areas"] if MEASURES["posterior"] in key]
    lines = [
        [key.partition("T=")[2] or COLDEST, *(told(area(q, key, "r1")) for q in WAYS.values())]
        for key in sorted(named, key=lambda key: float(key.partition("T=")[2] or COLDEST))
    ]
    return figures.table(["area at R@1, U_p at T", "captions", "images"], lines)


def separation() -> str:
    """The same in one number: AUROC of a right first answer, with an interval or a spread."""
    seeds = drawn()
    (recorded,) = figures.load(STUDY)["studies"]
    lines = []
    for name, key in {**MEASURES, **OTHERS}.items():
        cells = []
        for query in WAYS.values():
            rows = [seed[query]["areas"].get(key) for seed in seeds]
            if seeds and all(rows):
                cells.append(figures.several_fractions([row["auroc"] for row in rows if row]))
            elif not seeds and key:
                row = recorded[query]["measures"][key]
                low, high = (fraction(value) for value in row["interval"])
                cells.append(f"{fraction(row['auroc'])} ({low} to {high})")
        if cells:
            lines.append([name, *cells])
    how = "over seeds" if seeds else "95 % interval"
    return figures.table([f"AUROC, {how}", "captions", "images"], lines)


def softmax() -> str:
    """Ours to say: whether the softmax of one model is above both measures."""
    key = OTHERS["softmax, fitted temperature"]

    def mean(query: str, measure: str) -> float:
        return statistics.fmean(area(query, measure, "r1") or [])

    above = all(
        mean(query, key) > mean(query, MEASURES[kind])
        for query in WAYS.values()
        for kind in ("feature", "posterior")
    )
    verdict = "above both measures of drawn models" if above else "not always above them"
    return (
        "The paper does not compare with the softmax of one model, which needs no drawing. "
        f"Here it is {verdict} at R@1, in both directions."
    )


def ours() -> str:
    """Which runs the areas are of."""
    seeds = drawn()
    if not seeds:
        return (
            f"Ours are of one run, `{TRAINED}`: VSE∞ and TCL, another dropout than the "
            "paper's. How many models were drawn was not recorded."
        )
    return (
        f"Ours are of {len(seeds)} seeds of `{VSEPP}`, {seeds[0]['models']} models each: the "
        "paper's dropout, loss and optimiser, and its schedule shortened to 18 of 45 epochs."
    )


def scatter() -> str:
    """Fig. 4 in a number: whether both uncertainties doubt the same queries."""
    seeds = drawn()
    if not seeds:
        return NOT_YET
    cells = [
        f"{figures.several_fractions([seed[query]['rank correlation'] for seed in seeds])} for "
        f"{way} retrieval"
        for way, query in WAYS.items()
    ]
    return f"rank correlation of U_f and U_p: {', '.join(cells)}"


def shift() -> str:
    """Section 4.5 with the measures that were run: doubt of another dataset's queries."""
    lines = []
    for name in SHIFTS:
        document = figures.load(name)
        for query, row in document["rows"].items():
            told = row["told apart"]
            cells = [fraction(told[key]) for key in ("evidential: u", "scores: probability")]
            trusted = fraction(told["calibrated trust"])
            asked = f"`{document['run']}`, {document['other']}"
            lines.append([asked, f"{query} queries", *cells, trusted])
    head = ["run, other dataset", "", "u = K/S", "softmax", "calibrated trust"]
    return figures.table(head, lines)


def pictures() -> Sequence[Sequence[str]]:
    return [
        ["Fig. 1", "a drawing of the question", "nothing to test"],
        ["Fig. 2", "R@1 and R@10 against the number of models, by T", "below Table 1"],
        ["Fig. 3", "curves of rejection, by T", "areas below Table 2"],
        ["Fig. 4", "U_f against U_p of right and wrong answers", scatter()],
        [
            "Fig. 5",
            "pictures of small and large U_f",
            "cannot be tested here: examples, chosen by the authors",
        ],
        [
            "Fig. 6",
            "U_p is larger on Flickr30K than on MS-COCO and largest on RecipeQA, U_f is not",
            f"not run here yet for MS-COCO and Flickr8k: `{SHIFTED}`; RecipeQA cannot be "
            "tested here: it is not at hand",
        ],
    ]


def render() -> str:
    page = published("uncertainty")
    return figures.page(
        "Uncertainty measures (Hama et al.) on trial",
        f"{page['paper']}. VGG19 that learns, MS-COCO and Flickr30K there; frozen features of "
        "grid cells and Flickr8k here: levels cannot be compared, differences can. "
        f"{VERDICT} Where one seed was run, the standard error is that of the recall over "
        "redrawn images.",
        "## Equations",
        equations_table("uncertainty"),
        "## Table 1: recall by model averaging",
        f"{page['models']} models; posteriors at the largest temperature.",
        cases("Table 1"),
        *filter(None, [ours_of_table_1()]),
        claims_table(averaging()),
        by_models(),
        "Recipes with the paper's loss, optimiser, schedule and dropout: "
        "`flickr8k/vsepp_hinge_dropout`, `flickr8k/vse0_hinge_dropout`. Here VSE0 compares by "
        "the cosine and not by the inner product, which is no similarity between -1 and 1. "
        "Case (4), ResNet with drawn batch statistics, is `avow trust RUN --from-pixels`; it "
        "was not run.",
        figures.command(to_run("uncertainty", "Table 1")),
        "## Table 2: rejecting what is uncertain",
        "Area under the curve of a recall, or of the median rank, against the share of queries "
        "that is kept.",
        cases("Table 2"),
        ours(),
        areas(),
        separation(),
        f"Claims, with the paper's figures of case {NEAREST[:3]}:",
        claims_table(reliability()),
        "In cases (1), (3) and (4) the paper's U_f is above chance too, for captions.",
        softmax(),
        by_temperature(),
        *(
            ["VSE0, with the paper's figures of case (5):", claims_table(of_vse0())]
            if drawn(VSE0)
            else []
        ),
        figures.command(to_run("uncertainty", "Table 1")),
        "## Another dataset (last section of the paper)",
        "Chance that a query of the other dataset is doubted more than one of the run's own. "
        "U_f and U_p were not among the measures.",
        shift(),
        "## Figures",
        figures.table(["figure", "what", "here"], pictures()),
        figures.source(
            *((DROPOUT,) if drawn() else (STUDY, "flickr8k")),
            *SHIFTS,
        ),
    )
