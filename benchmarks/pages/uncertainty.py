"""The page of Hama et al.'s claims: feature and posterior uncertainty of drawn models."""

import statistics
from collections.abc import Sequence

from benchmarks.pages import figures
from benchmarks.pages.drawn_models import (
    COLDEST,
    COLUMNS,
    DROPOUT,
    MEASURES,
    NEAREST,
    OTHERS,
    TRAINED,
    VSE0,
    VSEPP,
    WAYS,
    area,
    averaged,
    averaging,
    drawn,
    of_another,
    of_vse0,
    reliability,
    shifted,
)
from benchmarks.pages.figures import fraction, number
from benchmarks.pages.verdicts import (
    VERDICT,
    claims_table,
    equations_table,
    published,
    to_run,
    told,
)

SHIFTS = ("shift_flickr8k-vse_infty_tcl-seed0", "shift_coco_grid-vse_infty_tcl-seed0")


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
    return figures.table(["here", *heads()], lines)


def by_models() -> str:
    """Fig. 2: R@1 of averaged posteriors and features against the number of models."""
    seeds, lines = drawn(), []
    for way, query in WAYS.items():
        rows = [seed[query]["averaged"] for seed in seeds]
        for place, row in enumerate(rows[0]):
            heats = [
                figures.several([seed[place]["posterior"][heat]["r1"] for seed in rows])
                for heat in row["posterior"]
            ]
            feature = figures.several([seed[place]["feature"]["r1"] for seed in rows])
            lines.append([f"{way} retrieval", str(row["models"]), feature, *heats])
    first = seeds[0]["text"]["averaged"][0]
    heats = [f"posterior, T={heat}" for heat in first["posterior"]]
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


def areas(recipe: str = VSEPP) -> str:
    """Table 2 as it is here, with what the paper does not have."""
    lines = []
    for name, key in {**MEASURES, **OTHERS}.items():
        values = [
            area(query, key, column, recipe) for query in WAYS.values() for column in COLUMNS
        ]
        if all(values):
            lines.append([name, *(figures.several(value or []) for value in values)])
    return figures.table(["here", *heads()], lines)


def by_temperature() -> str:
    """Fig. 3: the area at R@1 of posterior uncertainty at every temperature."""
    named = [key for key in drawn()[0]["image"]["areas"] if MEASURES["posterior"] in key]
    lines = [
        [key.partition("T=")[2] or COLDEST, *(told(area(q, key, "r1")) for q in WAYS.values())]
        for key in sorted(named, key=lambda key: float(key.partition("T=")[2] or COLDEST))
    ]
    return figures.table(["area at R@1, U_p at T", "captions", "images"], lines)


def separation(recipe: str = VSEPP) -> str:
    """The same in one number: AUROC of a right first answer."""
    lines = []
    for name, key in {**MEASURES, **OTHERS}.items():
        cells = []
        for query in WAYS.values():
            rows = [seed[query]["areas"].get(key) for seed in drawn(recipe)]
            if rows and all(rows):
                cells.append(figures.several_fractions([row["auroc"] for row in rows]))
        if cells:
            lines.append([name, *cells])
    return figures.table(["AUROC", "captions", "images"], lines)


def weaker() -> str:
    """How good the networks are whose doubts are judged."""
    there = published("uncertainty")["Table 1"]["cases"][NEAREST]["rows"]["weight"]
    ours = [figures.several(averaged(query, "weight") or []) for query in WAYS.values()]
    theirs = [number(there[way][0], 1) for way in WAYS]
    counted = figures.load(DROPOUT)["summary"][VSEPP]["model"]
    return (
        f"These networks are weak: R@1 of {ours[0]} and {ours[1]} where the paper's have "
        f"{theirs[0]} and {theirs[1]}, rSum {number(counted['rsum'], 1)}. A verdict about them "
        "may be one about little training, so runs with a better network, and another "
        "dropout than the paper's, stand beside them. Differences of averaging are a few "
        "queries of the test split; the spread of seeds does not have that error in it."
    )


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
    return (
        f"Ours are of {len(seeds)} seeds of `{VSEPP}`, {seeds[0]['models']} models each: the "
        "paper's dropout, loss and optimiser, and its schedule shortened to 18 of 45 epochs. "
        f"{weaker()}"
    )


def scatter() -> str:
    """Fig. 4 in a number: whether both uncertainties doubt the same queries."""
    seeds = drawn()
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
            "queries of MS-COCO asked of networks that learnt Flickr8k: below; RecipeQA cannot "
            "be tested here: it is not at hand",
        ],
    ]


def render() -> str:
    page = published("uncertainty")
    return figures.page(
        "Uncertainty measures (Hama et al.) on trial",
        f"{page['paper']}. VGG19 that learns, MS-COCO and Flickr30K there; frozen features of "
        "grid cells and Flickr8k here: levels cannot be compared, differences can. "
        f"{VERDICT}",
        "## Equations",
        equations_table("uncertainty"),
        "## Table 1: recall by model averaging",
        f"{page['models']} models; posteriors at the largest temperature.",
        cases("Table 1"),
        ours_of_table_1(),
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
        f"{len(drawn(TRAINED))} seeds of `{TRAINED}`, with TCL and another dropout:",
        areas(TRAINED),
        separation(TRAINED),
        f"Claims, with the paper's figures of case {NEAREST[:3]}:",
        claims_table([*reliability(), *of_another()]),
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
        "Fig. 6: the chance that a query of MS-COCO is doubted more than one of Flickr8k. As "
        "in the paper, a thousand queries of each, and one target for each query.",
        claims_table(shifted()),
        figures.source(DROPOUT, *SHIFTS),
    )
