"""Parts of TcVSE's page beside its ablation: other methods, and recall against time."""

from statistics import fmean

from benchmarks.pages import figures, plots, tcl_figures
from benchmarks.pages.figures import number
from benchmarks.pages.verdicts import (
    Comparison,
    claims_table,
    published,
    rsums,
    told,
    unequal_training,
)

FILES = (
    "papers/main",
    "papers/methods",
    "papers/consistency",
    "papers/decl",
    "papers/uncertainty",
    "papers/sweeps",
    "flickr8k",
    "flickr8k_methods",
)
TIMES = "speed_cpu_two"
TCVSE = "flickr8k/tcvse_tcl"
SWEEP = tcl_figures.OF_TCVSE
OURS = {
    "SCAN": ("flickr8k/scan_i2t_hinge", "model"),
    "VSRN": ("flickr8k/vsrn_hinge", "model"),
    "IMRAM": ("flickr8k/imram_hinge", "model"),
    "GSMN": ("flickr8k/gsmn_dense_hinge", "model"),
    "SGRAF": ("flickr8k/sgraf_hinge", "model"),
    "VSE++": ("flickr8k/vsepp_hinge", "model"),
    "VSE∞": ("flickr8k/vse_infty_hinge", "model"),
    "TcVSE, image view": ("flickr8k/tcvse_tcl", "image view"),
    "TcVSE, text view": ("flickr8k/tcvse_tcl", "text view"),
    "TcVSE, both views": ("flickr8k/tcvse_tcl", "both views"),
}
"""Rows of Table 1 that have a run here: its recipe, and which row of its results."""
CLAIMS = {
    "the image view of TcVSE is better than VSE∞": ("TcVSE, image view", "VSE∞"),
    "both views of TcVSE are better than VSE∞": ("TcVSE, both views", "VSE∞"),
    "both views of TcVSE are better than VSE++": ("TcVSE, both views", "VSE++"),
    "VSE∞ is better than VSE++": ("VSE∞", "VSE++"),
}
TIMED = {
    "VSE++": "vsepp",
    "VSE∞": "vse_infty",
    "VSRN": "vsrn",
    "SCAN": "scan_i2t",
    "GSMN": "gsmn",
    "IMRAM": "imram",
}
"""Methods of Fig. 1 whose comparison was timed, by their names in the file of times."""


def ours(name: str) -> list[float] | None:
    recipe, view = OURS[name]
    return rsums(recipe, view, *FILES)


def others() -> str:
    """Table 1 and what of Table 2 adds to it, beside runs here."""
    whole = published("tcvse")["Table 2"]["first and tenth"]
    lines = [
        [
            name,
            *(number(row[data]["rsum"], 1) for data in ("flickr30k", "coco_1k")),
            *([number(value, 1) for value in whole[name]] if name in whole else [""] * 4),
            told(ours(name)) if name in OURS else "",
        ]
        for name, row in published("tcvse")["Table 1"]["methods"].items()
    ]
    head = ["", "paper: rSum, Flickr30K", "MS-COCO 1K", "5K: i2t R@1", "R@10", "t2i R@1"]
    return figures.table([*head, "R@10", "here: rSum, Flickr8k (seeds)"], lines)


def claims() -> list[Comparison]:
    rows = published("tcvse")["Table 1"]["methods"]
    return [
        Comparison(
            claim,
            rows[better]["flickr30k"]["rsum"] - rows[worse]["flickr30k"]["rsum"],
            ours(better),
            ours(worse),
            barred=unequal_training(OURS[better][0], OURS[worse][0]),
        )
        for claim, (better, worse) in CLAIMS.items()
    ]


def first_recall(name: str) -> float | None:
    """Mean R@1 of both directions over all seeds here."""
    recipe, view = OURS[name]
    found = [
        [
            fmean(row[way]["r1"] for way in ("image_to_text", "text_to_image"))
            for run in figures.load(file)["runs"]
            if run["recipe"] == recipe
            for row in run["rows"]
            if row["name"] == view
        ]
        for file in FILES
        if figures.exists(file)
    ]
    most = max(found, key=len)
    return fmean(most) if most else None


def against_time() -> str:
    """Fig. 1: mean R@1 of both directions, and the time of comparing all with all."""
    document = figures.load(TIMES)
    base = document["methods"]["vse_infty"]["resident"]
    lines = [
        [name, number(recall, 1), f"{number(took / base, 1)} times"]
        for name, method in TIMED.items()
        if (recall := first_recall(name)) is not None
        for took in [document["methods"][method]["resident"]]
    ]
    both = first_recall("TcVSE, both views")
    if both is not None:
        lines.append(["TcVSE, both views", number(both, 1), "twice the product of VSE∞"])
    return figures.table(
        ["", "here: mean R@1, Flickr8k", "time of comparing, of that of VSE∞"], lines
    )


def sections() -> list[str]:
    size = figures.load(TIMES)["setting"]
    return [
        "## Tables 1 and 2: beside other methods",
        "Rows of others are quoted there. Methods with a run here stand in the last column; "
        "NCR is on the page of [DECL](decl.md), text encoders on that of [TCL](tcl.md).",
        others(),
        claims_table(claims()),
        "## Fig. 1: recall against time",
        f"Encoded items compared with each other, {size['images']} images with "
        f"{size['captions']} captions on two processor cores; a method that attends from "
        "words to regions compares every pair anew, one that embeds needs a product of "
        "vectors.",
        against_time(),
        "## Fig. 3: u against corruption",
        "Mean u of the view that learnt the direction, words and regions hidden in the same "
        "share; K candidates of the test split, the match among them. VSE∞ under the same "
        "loss: [Fig. 5](tcl.md#fig-5-u-against-corruption) of TCL.",
        tcl_figures.corruption(TCVSE, "TcVSE"),
        tcl_figures.what_decides(TCVSE),
        claims_table(corruption_claims()),
        "## Fig. 6: temperature and agreement steps",
        "rSum of both views averaged (seeds), TcVSE; few and equal epochs, one agreement step "
        "where temperatures are compared. VSE∞ under the same loss, with kinds of evidence: "
        "[Fig. 4](tcl.md#fig-4-agreement-steps-temperature-and-evidence) of TCL.",
        SWEEP.table(),
        plots.steps(SWEEP).shown(),
        plots.temperatures(SWEEP).shown(),
        claims_table(SWEEP.claims()),
    ]


def corruption_claims() -> list[Comparison]:
    return list(tcl_figures.corruption_claims(TCVSE, "TcVSE"))
