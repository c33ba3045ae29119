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
    published,
    to_run,
)

STUDY = "trust_flickr8k_vse_infty_tcl_dropout"
AVERAGING = "averaging_flickr8k"
TRAINED = "flickr8k/vse_infty_tcl_dropout"
NEAREST = "(2) VSE++ with VGG19"
"""The case of Flickr30K, which ours are compared with."""
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
LEVEL = 95 / 100
"""Of the recorded intervals."""
COMMANDS = (
    "python -m benchmarks.quality.model_averaging flickr8k RUN RUN RUN "
    "--features DIR --scored DIR",
    "python -m benchmarks.quality.trust flickr8k_vsepp_dropout RUN RUN RUN "
    "--features DIR --scored DIR",
)
NOT_YET = f"not run here yet: `{COMMANDS[0]}`"


def study(query: str) -> Document:
    return figures.load(STUDY)["summary"][query]


def area(query: str, measure: str, column: str) -> float:
    """Area under the curve of rejection; chance is what is left of no rejection."""
    found = study(query)["measures"][measure]["area"] if measure else study(query)["chance"]
    return found[column]["mean"]


def error(query: str, column: str) -> float:
    """Standard error of a recall over redrawn images: of an area it is about the same."""
    way = "text_to_image" if query == "text" else "image_to_text"
    (run,) = [run for run in figures.load("flickr8k")["runs"] if run["recipe"] == TRAINED]
    low, high = run["rows"][-1]["intervals"][f"{way}.{column}"]
    return (high - low) / (2 * statistics.NormalDist().inv_cdf(1 - (1 - LEVEL) / 2))


def reliability() -> list[Comparison]:
    """Claims of Table 2 at R@1, R@5 and R@10, both directions."""
    there = published("uncertainty")["Table 2"]["cases"][NEAREST]["rows"]
    pairs = {
        "U_p is better than U_f": ("posterior", "feature"),
        "U_p is better than chance": ("posterior", "chance level"),
        "U_f is worse than chance": ("chance level", "feature"),
    }
    found = []
    for claim, (one, other) in pairs.items():
        for way, query in WAYS.items():
            for place, column in enumerate(COLUMNS[:3]):
                cut = column.upper().replace("R", "R@")
                theirs = there[one][way][place] - there[other][way][place]
                better, worse = ([area(query, MEASURES[x], column)] for x in (one, other))
                usual = error(query, column) / 2**0.5
                told = f"{way} retrieval, {cut}: {claim}"
                found.append(Comparison(told, theirs, better, worse, usual=usual, unit="area"))
    return found


def averaging() -> list[Comparison]:
    """Claims of Table 1, of whatever was run."""
    there = published("uncertainty")["Table 1"]["cases"][NEAREST]["rows"]
    found = []
    for kind in ("feature", "posterior"):
        for way, query in WAYS.items():
            theirs = there[kind][way][0] - there["weight"][way][0]
            claim = f"{way} retrieval, R@1: averaging over {kind} uncertainty helps"
            ours = (averaged(query, kind), averaged(query, "weight"))
            found.append(Comparison(claim, theirs, *ours, otherwise=NOT_YET, unit="R@1"))
    return found


def averaged(query: str, kind: str) -> list[float] | None:
    """R@1 of every run with the most models, posteriors at the paper's temperature."""
    if not figures.exists(AVERAGING):
        return None
    document = figures.load(AVERAGING)
    hottest = f"{max(document['temperatures']):g}"
    values = []
    for run in document["runs"]:
        row = run[query]["weight"] if kind == "weight" else run[query]["averaged"][-1][kind]
        values.append(row[hottest]["r1"] if kind == "posterior" else row["r1"])
    return values


def claims() -> list[Comparison]:
    return [*averaging(), *reliability()]


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
    listed = {**MEASURES, **OTHERS}
    lines = [
        [name, *(number(area(q, key, c), 1) for q in WAYS.values() for c in COLUMNS)]
        for name, key in listed.items()
    ]
    return figures.table(["here", *heads()], lines)


def separation() -> str:
    """The same in one number with an interval: AUROC of a right first answer."""
    (recorded,) = figures.load(STUDY)["studies"]
    lines = []
    for name, key in {**MEASURES, **OTHERS}.items():
        if not key:
            continue
        cells = []
        for query in WAYS.values():
            row = recorded[query]["measures"][key]
            low, high = (fraction(value) for value in row["interval"])
            cells.append(f"{fraction(row['auroc'])} ({low} to {high})")
        lines.append([name, *cells])
    return figures.table(["AUROC, 95 % interval", "captions", "images"], lines)


def softmax() -> str:
    """Ours to say: whether the softmax of one model is above both measures."""
    key = OTHERS["softmax, fitted temperature"]
    above = all(
        area(query, key, "r1") > area(query, MEASURES[kind], "r1")
        for query in WAYS.values()
        for kind in ("feature", "posterior")
    )
    verdict = "above both measures of drawn models" if above else "not always above them"
    return (
        "The paper does not compare with the softmax of one model, which needs no drawing. "
        f"Here it is {verdict} at R@1, in both directions."
    )


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
    models = published("uncertainty")["models"]
    scatter = f"not run here yet: `avow trust RUN --passes {models}`, a run with dropout"
    return [
        ["Fig. 1", "a drawing of the question", "nothing to test"],
        ["Fig. 2", "R@1 and R@10 against the number of models, by T", NOT_YET],
        ["Fig. 3", "curves of rejection, by T", f"{NOT_YET}, then `{COMMANDS[1]}`"],
        ["Fig. 4", "U_f against U_p of right and wrong answers", scatter],
        [
            "Fig. 5",
            "pictures of small and large U_f",
            "cannot be tested here: examples, chosen by the authors",
        ],
        [
            "Fig. 6",
            "U_p is larger on Flickr30K than on MS-COCO and largest on RecipeQA, U_f is not",
            f"not run here yet for MS-COCO and Flickr8k: `{COMMANDS[0]} --data coco`; RecipeQA "
            "cannot be tested here: it is not at hand",
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
        claims_table(averaging()),
        "Recipes with the paper's loss, optimiser, schedule and dropout: "
        "`flickr8k/vsepp_hinge_dropout`, `flickr8k/vse0_hinge_dropout`. VSE0 compares by the "
        "cosine there and not by the inner product, which is no similarity between -1 and 1. "
        "Case (4), ResNet with drawn batch statistics, is `avow trust RUN --from-pixels`; it "
        "was not run.",
        figures.command(to_run("uncertainty", "Table 1"), *COMMANDS),
        "## Table 2: rejecting what is uncertain",
        "Area under the curve of a recall, or of the median rank, against the share of queries "
        "that is kept.",
        cases("Table 2"),
        f"Ours are of one run, `{TRAINED}`: VSE∞ and TCL, another dropout than the paper's. "
        "How many models were drawn was not recorded.",
        areas(),
        separation(),
        f"Claims, with the paper's figures of case {NEAREST[:3]}:",
        claims_table(reliability()),
        "In cases (1), (3) and (4) the paper's U_f is above chance too, for captions.",
        softmax(),
        figures.command(*COMMANDS),
        "## Another dataset (last section of the paper)",
        "Chance that a query of the other dataset is doubted more than one of the run's own. "
        "U_f and U_p were not among the measures.",
        shift(),
        "## Figures",
        figures.table(["figure", "what", "here"], pictures()),
        figures.source(
            *((AVERAGING,) if figures.exists(AVERAGING) else ()), STUDY, "flickr8k", *SHIFTS
        ),
    )
