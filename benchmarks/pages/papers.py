"""Pages that put the claims of a paper beside what runs here found.

What a paper printed is in `benchmarks/published/*.json`, what was found here in
`benchmarks/results`. A verdict is computed from both: it compares the signs of two
differences, and ours with the spread of its seeds.
"""

from avow.assembly.recipe import Recipe
from benchmarks.pages import (
    acmnet,
    decl,
    figures,
    plots,
    tcl_coco,
    tcl_figures,
    uncertainty,
    verdicts,
    videos,
)
from benchmarks.pages import tcvse as tcvse_parts
from benchmarks.pages.figures import Document, number, several

KINDS = ("agrees", "disagrees", "undecided", "no verdict", "not run")
VIEWS = ("image view", "text view", "both views")
ABLATION = "papers/consistency"
WITHOUT = "+loss.agreement_steps=0"
ROWS = {
    "#1": ("both views, with agreement", "_tcl", "both views"),
    "#2": ("both views, without", f"_tcl{WITHOUT}", "both views"),
    "#3": ("image view, with agreement", "_tcl", "image view"),
    "#4": ("image view, without", f"_tcl{WITHOUT}", "image view"),
    "#5": ("text view, with agreement", "_tcl", "text view"),
    "#6": ("text view, without", f"_tcl{WITHOUT}", "text view"),
    "#7": ("hinge, one network", "_hinge", "model"),
}
CLAIMS = {
    "agreement adds to both views": ("#1", "#2"),
    "agreement adds to the image view": ("#3", "#4"),
    "agreement adds to the text view": ("#5", "#6"),
    "two views together are better than the image view": ("#1", "#3"),
    "two views together are better than the text view": ("#1", "#5"),
    "without agreement a view is better than the hinge": ("#4", "#7"),
}
METHODS = {
    "VSE++": "vsepp",
    "VSRN": "vsrn",
    "IMRAM": "imram",
    "GSMN": "gsmn_dense",
    "VSE∞": "vse_infty",
    "SAF": "saf",
    "SGR": "sgr",
    "DivE": "dive",
    "RVSE++": "rvsepp",
}
"""Of Table V, by the names of their recipes."""
OWN = {
    "rvsepp_hinge": "flickr8k/vse_infty_selhn",
    "rvsepp_tcl": "flickr8k/vse_infty_tcl+method.bend_from=projection",
}
"""Runs whose names do not say the method: RVSE++ is VSE∞ with another projection."""


# --- with and without agreement ------------------------------------------------------------


def found(recipe: str, view: str) -> list[float] | None:
    """rSum of every seed in the file of ablations; None: not run."""
    entry = figures.load(ABLATION)["summary"].get(f"flickr8k/{recipe}")
    return entry[view]["values"] if entry and view in entry else None


def ablation(paper: str, table: str, method: str) -> tuple[str, list[verdicts.Comparison]]:
    """A paper's table #1 to #7 beside ours, and its claims."""
    rows = verdicts.published(paper)[table]["rows"]
    ours = {key: found(f"{method}{loss}", view) for key, (_, loss, view) in ROWS.items()}
    lines = [
        [
            key,
            name,
            number(rows[key]["rsum"], 1),
            f"{several(ours[key] or [])} ({len(ours[key] or [])})" if ours[key] else "",
        ]
        for key, (name, _, _) in ROWS.items()
    ]
    claims = [
        verdicts.Comparison(
            claim, rows[one]["rsum"] - rows[other]["rsum"], ours[one], ours[other]
        )
        for claim, (one, other) in CLAIMS.items()
    ]
    head = ["No.", "", f"paper: rSum, {verdicts.published(paper)[table]['data']}",
            "here: rSum, Flickr8k test (seeds)"]  # fmt: skip
    return figures.table(head, lines), claims


STEPS = (
    "T agreement steps also mean T more optimiser steps a batch. How much of the gain as many "
    "steps on the risk alone bring: [agreement against equal numbers of steps]"
    "(../results/consistency.md)."
)


# --- methods of Table V --------------------------------------------------------------------


Side = tuple[str, Document | None]
"""A run's name and its summary; None: not run."""


def sides(method: str) -> tuple[Side, Side]:
    """With the hinge and with TCL: both trained alike, else where most seeds are."""
    plain, wrapped = f"{method}_hinge", f"{method}_tcl"
    alike = trained_alike(plain), trained_alike(wrapped)
    if alike[0][1] and alike[1][1]:
        return alike
    usual = most_seeds(plain), most_seeds(wrapped)
    return usual if usual[0][1] and usual[1][1] else alike


def trained_alike(recipe: str) -> Side:
    item = verdicts.published("items")["tcl"]["Table V"]
    own = OWN.get(recipe, f"flickr8k/{recipe}")
    others = OWN.values()
    known = figures.load(item["file"])["summary"] if figures.exists(item["file"]) else {}
    for name in item["recipes"]:
        is_own = name == own or (name.partition("+")[0] == own and name not in others)
        if is_own and name in known:
            return name, known[name]
    return own, None


def most_seeds(recipe: str) -> Side:
    own = OWN.get(recipe, f"flickr8k/{recipe}")
    files = ("papers/main", "flickr8k", "flickr8k_methods", "flickr8k_tcvse_hinge", ABLATION)
    entries = [figures.load(name)["summary"].get(own) for name in files if figures.exists(name)]
    known = [entry for entry in entries if entry]
    return own, max(known, key=lambda entry: len(entry["seeds"])) if known else None


def values(side: Side, view: str) -> list[float] | None:
    _, entry = side
    return entry[view]["values"] if entry and view in entry else None


def gains() -> tuple[str, list[verdicts.Comparison]]:
    lines, claims = [], []
    for name, method in METHODS.items():
        rows = verdicts.published("tcl")["Table V"]["methods"][name]
        hinge, wrapped = sides(method)
        plain, both = values(hinge, "model"), values(wrapped, "both views")
        trained = [training(side) for side in (hinge, wrapped)]
        lines.append([
            name,
            number(rows["published"]["rsum"], 1),
            *(number(rows[view]["rsum"], 1) for view in VIEWS),
            several(plain) if plain else "",
            *(cell(wrapped, view) for view in VIEWS),
            " and ".join(dict.fromkeys(trained)),
        ])  # fmt: skip
        theirs = rows["both views"]["rsum"] - rows["published"]["rsum"]
        unequal = trained[0] != trained[1]
        missing = verdicts.not_yet("tcl", "Table V")
        claims.append(
            verdicts.Comparison(
                f"TCL adds to {name}", theirs, both, plain, unequal, otherwise=missing
            )
        )
    views = [f"TCL, {view}" for view in VIEWS]
    head = ["", "paper: as published", *views, "here: hinge", *views, "epochs of batches"]
    return figures.table(head, lines), claims


def cell(side: Side, view: str) -> str:
    known = values(side, view)
    return several(known) if known else ""


def training(side: Side) -> str:
    """Epochs and pairs of a batch of a run that the table shows."""
    train = Recipe.open(*verdicts.split_changes(side[0])).train
    return f"{train.epochs} of {train.batch}"


# --- the pages -----------------------------------------------------------------------------


def tcl() -> str:
    table, claims = ablation("tcl", "Table IV", "vse_infty")
    methods, adds = gains()
    return figures.page(
        "TCL on trial",
        f"{verdicts.published('tcl')['paper']}. {verdicts.SETTING} {verdicts.VERDICT}",
        "## Equations",
        verdicts.equations_table("tcl"),
        *videos.section(),
        "## Table IV: what agreement adds, VSE∞",
        table,
        verdicts.claims_table(claims),
        STEPS,
        figures.command(
            f"python -m benchmarks.quality.recipes {ABLATION} flickr8k/vse_infty_tcl "
            f"flickr8k/vse_infty_tcl{WITHOUT} flickr8k/vse_infty_hinge --features DIR"
        ),
        "## Table V: nine methods with and without TCL",
        "The paper's row VSE++ has BERT as text encoder and ours a GRU. Its rSum of IMRAM and "
        "SAF as published is not the sum of its recalls.",
        methods,
        verdicts.claims_table(adds),
        "Where a method learnt for more epochs or in other batches with one loss than with the "
        "other (the hinge is named first), the verdict says so.",
        "## Tables I and II: other text encoders",
        tcl_figures.encoders(),
        verdicts.claims_table(tcl_figures.encoder_claims()),
        *tcl_coco.section(),
        verdicts.claims_table(tcl_coco.claims()),
        "## Fig. 4: agreement steps, temperature and evidence",
        "rSum of both views averaged (seeds), VSE∞; few and equal epochs, one agreement step "
        "where temperatures and kinds of evidence are compared.",
        tcl_figures.OF_TCL.table(),
        plots.steps(tcl_figures.OF_TCL).shown(),
        plots.temperatures(tcl_figures.OF_TCL).shown(),
        verdicts.claims_table(tcl_figures.OF_TCL.claims()),
        "## Fig. 5: u against corruption",
        "Mean u of the view that learnt the direction, words and regions hidden in the same "
        "share; K candidates of the test split, the match among them.",
        tcl_figures.corruption(),
        *filter(None, [tcl_figures.what_decides()]),
        *(plots.corruption(query).shown() for query in tcl_figures.ASKED),
        tcl_figures.corruption(tcl_figures.SGR, "SGR"),
        tcl_figures.what_decides(tcl_figures.SGR),
        verdicts.claims_table(tcl_figures.all_corruption_claims()),
        figures.source(
            "flickr8k",
            "flickr8k_methods",
            tcl_coco.FILE,
            ABLATION,
            *filter(figures.exists, tcl_figures.FILES),
        ),
    )


def tcvse() -> str:
    table, claims = ablation("tcvse", "Table 3", "tcvse")
    return figures.page(
        "TcVSE on trial",
        f"{verdicts.published('tcvse')['paper']}. {verdicts.SETTING} {verdicts.VERDICT}",
        "## Equations",
        verdicts.equations_table("tcvse"),
        "## Table 3: what agreement adds",
        table,
        verdicts.claims_table(claims),
        STEPS,
        *tcvse_parts.sections(),
        figures.source(
            ABLATION,
            *(name for name in tcvse_parts.FILES if name != ABLATION and figures.exists(name)),
            tcvse_parts.TIMES,
        ),
    )


def everything() -> dict[str, list[verdicts.Comparison]]:
    """Every claim of every page, by paper and table."""
    return {
        "[TCL](tcl.md), Table III": videos.claims(),
        "[TCL](tcl.md), Table IV": ablation("tcl", "Table IV", "vse_infty")[1],
        "[TCL](tcl.md), Table V": gains()[1],
        "[TCL](tcl.md), Tables I and II": [
            *tcl_figures.encoder_claims(),
            *tcl_coco.claims(),
        ],
        "[TCL](tcl.md), Fig. 4": tcl_figures.OF_TCL.claims(),
        "[TCL](tcl.md), Fig. 5": tcl_figures.all_corruption_claims(),
        "[TcVSE](tcvse.md), Table 3": ablation("tcvse", "Table 3", "tcvse")[1],
        "[TcVSE](tcvse.md), Table 1": tcvse_parts.claims(),
        "[TcVSE](tcvse.md), Fig. 3": tcvse_parts.corruption_claims(),
        "[TcVSE](tcvse.md), Fig. 6": tcvse_parts.SWEEP.claims(),
        "[ACMNet](acmnet.md), Table 4": [*acmnet.gates(), *acmnet.factors()],
        "[ACMNet](acmnet.md), Tables 1 and 5": acmnet.elsewhere(),
        "[DECL](decl.md), Table 2": decl.without_noise(),
        "[DECL](decl.md), Table 3": decl.squared_errors(),
        "[Uncertainty](uncertainty.md), Table 1": uncertainty.averaging(),
        "[Uncertainty](uncertainty.md), Table 2": [
            *uncertainty.reliability(),
            *uncertainty.of_another(),
        ],
        "[Uncertainty](uncertainty.md), case (5)": uncertainty.of_vse0(),
        "[Uncertainty](uncertainty.md), Fig. 6": uncertainty.shifted(),
    }


def is_main(where: str, claim: str) -> bool:
    """What the summary shows of the pages with many claims."""
    if "ACMNet" in where:
        return "gate" in claim or "hardest" in claim or "GT is better" in claim
    if "DECL" in where:
        return "adds to the hinge" in claim or "wrong" in claim or "SGRAF is" in claim
    return "Uncertainty" not in where or ("R@1:" in claim and "case" not in where)


def gpu_time() -> str:
    """Of every run in the files of results; runs that shared a GPU share its time."""
    runs = [
        run
        for path in sorted(figures.RESULTS.rglob("*.json"))
        for document in [figures.load(str(path.relative_to(figures.RESULTS).with_suffix("")))]
        if "runs" in document and document["machine"]["gpu"] != "none"
        for run in document["runs"]
        if "seconds" in run
    ]
    hours = sum(run["seconds"] / (run.get("side_by_side") or 1) for run in runs) / 3600
    return (
        f"GPU time of the {len(runs)} runs that the results list, papers, noise and COCO "
        f"together: {number(hours, 1)} hours, where runs side by side share their time."
    )


def summary() -> str:
    listed = everything()
    said = [one.verdict for claims in listed.values() for one in claims]
    counts = ", ".join(
        f"{kind} {sum(text.startswith(kind) for text in said)}" for kind in KINDS
    )
    rows = [
        [where, one.claim, one.told_there, one.told, one.verdict.partition(": `")[0]]
        for where, claims in listed.items()
        for one in claims
        if is_main(where, one.claim)
    ]
    return figures.page(
        "Claims of the papers, and what was found here",
        "Differences of rSum; of R@1 in percent and of areas under curves of R@K in the last "
        f"paper. {verdicts.VERDICT} Commands of what was not run are on the pages.",
        f"Of {len(said)} claims on the pages: {counts}. The main ones:",
        figures.table(["where", "claim", "paper", "here", "verdict"], rows),
        gpu_time(),
        "Wrong pairs in training: [noise](../results/noise.md). All measures of doubt beside "
        "each other: [trust](../results/trust.md).",
    )


PAPERS = {
    "README": summary,
    "tcl": tcl,
    "tcvse": tcvse,
    "acmnet": acmnet.render,
    "decl": decl.render,
    "uncertainty": uncertainty.render,
}
