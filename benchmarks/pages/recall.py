"""The page of recall: the shipped model, every trained method, reranking and MS-COCO."""

import statistics
from collections.abc import Sequence

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, number, several

WAYS = ("image_to_text", "text_to_image")
CUTS = ("r1", "r5", "r10")
HEAD = ["i2t R@1", "R@5", "R@10", "t2i R@1", "R@5", "R@10"]
VIEWS = ("image view", "text view", "both views")
MAIN, BEFORE = "papers/main", "flickr8k"
FILES = (MAIN, BEFORE, "flickr8k_tcvse_hinge", "flickr8k_methods")

# label, recipes with the hinge and with TCL, name in the file of training times
METHODS = [
    ("VSE++", "vsepp_hinge", "vsepp_tcl", "vsepp"),
    ("VSE∞", "vse_infty_hinge", "vse_infty_tcl", "vse_infty"),
    ("RVSE++ (VSE∞ with SelHN)", "vse_infty_selhn", "", ""),
    ("TcVSE", "tcvse_hinge", "tcvse_tcl", ""),
    ("VSRN", "vsrn_hinge", "vsrn_tcl", "vsrn"),
    ("DivE", "dive_hinge", "dive_tcl", "dive"),
    ("SCAN, regions attend to words", "scan_i2t_hinge", "scan_i2t_tcl", "scan_i2t"),
    ("SCAN, words attend to regions", "scan_t2i_hinge", "scan_t2i_tcl", "scan_t2i"),
    ("ACMNet-GT", "acmnet_gt_hinge", "acmnet_gt_tcl", "acmnet_gt"),
    ("ACMNet-GI", "acmnet_gi_hinge", "acmnet_gi_tcl", "acmnet_gi"),
    ("GSMN, dense graphs", "gsmn_dense_hinge", "gsmn_dense_tcl", "gsmn"),
    ("IMRAM", "imram_hinge", "imram_tcl", "imram"),
    ("SAF", "saf_hinge", "saf_tcl", "saf"),
    ("SGR", "sgr_hinge", "sgr_tcl", "sgr"),
]
UNSORTED = "+train.pool=1+train.precision=tf32"


def render() -> str:
    return figures.page(
        "Results: recall",
        *shipped(),
        *losses(),
        *methods(),
        *variations(),
        *reranked(),
        *coco(),
        "Published figures beside these, and why they are not comparable in level: "
        "[notes](../notes/training.md). Numbers of published systems that were recomputed: "
        "`benchmarks/parity.py`.",
    )


# --- the shipped model ---------------------------------------------------------------


def shipped() -> list[str]:
    rows = figures.load("default_model")["rows"]
    names = {"flickr8k": "Flickr8k test", "coco": "COCO test"}
    kinds = {
        "plain": "",
        "shown": ", as shown",
        "1K folds": ", folds of a thousand",
        "1K folds, shown": ", folds of a thousand, as shown",
    }
    lines = []
    for dataset, label in names.items():
        for kind, words in kinds.items():
            if row := rows[dataset].get(kind):
                cells = [recalls(row.get(way)) for way in WAYS]
                lines.append([label + words, *cells[0], *cells[1]])
    return [
        "## The shipped model",
        "A search shows hits in the order of their probability, which corrects "
        'for hubs: the rows "as shown". How much of it the seed decides: [other seeds]'
        "(people.md#other-seeds).",
        figures.table(["", *HEAD], lines),
        figures.command("python -m benchmarks.quality.default_model"),
        figures.source("default_model"),
    ]


def recalls(values: Sequence[float] | None) -> list[str]:
    return [f"{number(value, 1)}" for value in values] if values else [""] * len(CUTS)


# --- runs ----------------------------------------------------------------------------


def runs(name: str, recipe: str) -> list[Document]:
    return [run for run in figures.load(name)["runs"] if run["recipe"] == recipe]


def rows_of(recipe: str, view: str) -> list[Document]:
    """One row per seed of a recipe, of the view named, from the first file that has it."""
    for name in FILES:
        if found := runs(name, recipe):
            return [row for run in found for row in run["rows"] if row["name"] == view]
    return []


def rsum(recipe: str, view: str) -> str:
    rows = rows_of(recipe, view)
    return several([row["rsum"] for row in rows]) if rows else ""


def losses() -> list[str]:
    lines = []
    for label, recipe, view in (
        ("hinge, hardest negative", "flickr8k/vse_infty_hinge", "model"),
        *((f"TCL, {view}", "flickr8k/vse_infty_tcl", view) for view in VIEWS),
    ):
        rows = rows_of(recipe, view)
        cells = [
            f"{number(statistics.fmean(row[way][cut] for row in rows), 1)}"
            for way in WAYS
            for cut in CUTS
        ]
        lines.append([label, *cells, rsum(recipe, view)])
    taken = runs(MAIN, "flickr8k/vse_infty_tcl")
    times = ", ".join(
        f"{number(run['seconds'], 0)} s "
        + (
            f"({run['side_by_side']} runs shared the GPU)"
            if run["side_by_side"] > 1
            else "alone"
        )
        for run in taken
    )
    return [
        "## VSE∞, hinge and TCL",
        "Flickr8k test, EfficientNet-Lite2 grid features, Bi-GRU from scratch, "
        f"{figures.epochs('flickr8k/vse_infty_tcl')} epochs; mean ± standard deviation over "
        f"{figures.seeds(run['seed'] for run in taken)}.",
        figures.table(["VSE∞ trained with", *HEAD, "rSum"], lines),
        f"Whole runs of TCL took {times}.",
        before(),
        figures.command(
            "python -m benchmarks.quality.recipes papers/main flickr8k/vse_infty_hinge "
            "flickr8k/vse_infty_tcl"
        ),
        figures.source(MAIN, BEFORE),
    ]


def before() -> str:
    """The same recipes and seeds with the code that sorted where the present one ranks."""
    summary = figures.load(BEFORE)["summary"]
    rows = {
        "hinge": ("flickr8k/vse_infty_hinge", "model"),
        "TCL, image view": ("flickr8k/vse_infty_tcl", "image view"),
        "TCL, text view": ("flickr8k/vse_infty_tcl", "text view"),
        "TCL, both views": ("flickr8k/vse_infty_tcl", "both views"),
    }
    listed = [
        f"{name} {figures.several(summary[recipe][view]['values'])}"
        for name, (recipe, view) in rows.items()
    ]
    return (
        "The same recipes and seeds before pooling by rank replaced sorting: rSum "
        f"{', '.join(listed)}. The other methods below were trained then."
    )


# --- every method --------------------------------------------------------------------


def methods() -> list[str]:
    times = figures.load("speed_cuda_tf32_train")["methods"]
    lines = []
    for label, hinge, tcl, name in METHODS:
        views = [rsum(f"flickr8k/{tcl}", view) if tcl else "" for view in VIEWS]
        lines.append(
            [
                label,
                rsum(f"flickr8k/{hinge}", "model"),
                *views,
                trained_for(hinge, tcl),
                *cost(times.get(name)),
            ]
        )
    lines += [
        averaged("**SGRAF: SAF and SGR averaged**", ""),
        *(
            [
                label,
                "",
                *(rsum(f"flickr8k/{recipe}{UNSORTED}", view) for view in VIEWS),
                "",
                "",
                "",
            ]
            for label, recipe in (
                ("SAF, batches not sorted, tf32", "saf_tcl"),
                ("SGR, batches not sorted, tf32", "sgr_tcl"),
            )
        ),
        averaged("SGRAF, of these two", UNSORTED),
    ]
    head = ["rSum", "hinge", *(f"TCL: {view}" for view in VIEWS)]
    setting = figures.load("speed_cuda_tf32_train")["setting"]
    return [
        "## Every method",
        "The same features and test split. Mean ± standard deviation where several seeds were "
        "run, otherwise seed 0. From SCAN on, regions are compared with words. The last two "
        f"columns are one training batch of TCL alone on the GPU ({setting['batch']} pairs, "
        f"{setting['precision']}, two networks), without agreement steps and with three.",
        figures.table([*head, "epochs: hinge, TCL", "ms a batch", "GiB"], lines),
        unsorted(),
        "With few epochs VSRN, GSMN and IMRAM are far from where they would end. Why the hinge "
        "sometimes collapses, and what helps: [notes](../notes/training.md).",
        figures.command(
            "python -m benchmarks.quality.recipes flickr8k_methods flickr8k/sgr_tcl "
            "flickr8k/saf_tcl ...",
            "python -m benchmarks.speed.methods --device cuda --precision tf32 --train",
        ),
        figures.source("flickr8k_methods", "flickr8k_tcvse_hinge", "speed_cuda_tf32_train"),
    ]


def trained_for(*recipes: str) -> str:
    return ", ".join(str(figures.epochs(f"flickr8k/{name}")) for name in recipes if name)


def cost(row: Document | None) -> list[str]:
    if row is None:
        return ["", ""]
    gigabytes = row["peak_mb"] / 1024
    shown = f"{number(gigabytes, 1)}" if gigabytes < 10 else f"{number(gigabytes, 0)}"
    return [
        f"{number(row['ms_without_agreement'], 0)}, {number(row['ms_with_three'], 0)}",
        shown,
    ]


def together(ending: str) -> list[Document]:
    """Averages of SAF and SGR whose recipes end in `ending`, one per seed."""
    rows = figures.load("flickr8k_methods")["together"]
    return [
        row["row"]
        for row in rows
        if all(run.split()[0].endswith(f"_tcl{ending}") for run in row["runs"])
    ]


def averaged(label: str, ending: str) -> list[str]:
    return [label, "", "", "", several([row["rsum"] for row in together(ending)]), "", "", ""]


def unsorted() -> str:
    (row,) = together(UNSORTED)
    low, high = row["intervals"]["rsum"]
    return (
        "The figure to beat with three seeds is SGRAF's: `flickr8k/sgr_tcl` and "
        "`flickr8k/saf_tcl`, then `avow evaluate RUN RUN`. Without sorted batches and in tf32 "
        "(`--set train.pool=1 --set train.precision=tf32`) one seed reached "
        f"{number(row['rsum'], 1)} "
        f"(i2t R@1 {number(row['image_to_text']['r1'], 1)}, t2i R@1 "
        f"{number(row['text_to_image']['r1'], 1)}; "
        f"95 % interval {number(low, 0)} to {number(high, 0)})."
    )


def variations() -> list[str]:
    """Runs with other settings: the rows of the files that no table above shows."""
    lines = []
    for name in ("flickr8k", "flickr8k_methods"):
        for recipe, entry in figures.load(name)["summary"].items():
            if ("+" in recipe and not recipe.endswith(UNSORTED)) or recipe.endswith("_dropout"):
                view = "model" if "model" in entry else "both views"
                changes = recipe.removeprefix("flickr8k/").replace("+", " ")
                lines.append([f"`{changes}`", several(entry[view]["values"])])
    return ["## Other settings", figures.table(["recipe and changes", "rSum"], lines)]


# --- reranking and COCO --------------------------------------------------------------


def reranked() -> list[str]:
    lines = []
    for label, recipe in (("TCL-VSE∞", "vse_infty_tcl"), ("TCL-TcVSE", "tcvse_tcl")):
        seeds = figures.load(f"rerank_flickr8k_{recipe}")["found"]
        plain = statistics.fmean(seed["plain"]["rsum"] for seed in seeds)
        lines.append(
            [
                label,
                f"{number(plain, 1)}",
                several([seed["relative"]["rsum"] for seed in seeds]),
            ]
        )
    return [
        "## Ranking by relative evidence",
        "`avow evaluate --rerank relative` orders with a bank of training "
        "queries. Its strength is chosen on "
        "dev. Unlabelled training queries take part, so these rows are not "
        "comparable with plain "
        "ones.",
        figures.table(["rSum", "plain", "relative evidence"], lines),
        figures.command("python -m benchmarks.quality.rerank NAME RUN RUN RUN --features DIR"),
        figures.source("rerank_flickr8k_vse_infty_tcl", "rerank_flickr8k_tcvse_tcl"),
    ]


def coco() -> list[str]:
    lines = []
    for label, recipe in (
        ("VSE∞, hinge", "vse_infty_hinge"),
        ("VSE∞, TCL", "vse_infty_tcl"),
        ("SAF, TCL", "saf_tcl"),
        ("SGR, TCL", "sgr_tcl"),
    ):
        (run,) = runs("coco_grid", f"coco_grid/{recipe}")
        for row, folded in zip(run["rows"], run["folded"], strict=True):
            view = "" if row["name"] == "model" else f", {row['name']}"
            first = [f"{number(folded[way]['r1'], 1)}" for way in WAYS]
            lines.append(
                [
                    label + view,
                    f"{number(row['rsum'], 1)}",
                    *first,
                    f"{number(folded['rsum'], 1)}",
                ]
            )
    spent = ", ".join(
        f"{name} {runs('coco_grid', f'coco_grid/{recipe}')[0]['seconds_per_epoch']:.0f} s"
        for name, recipe in (("SAF", "saf_tcl"), ("SGR", "sgr_tcl"))
    )
    return [
        "## MS-COCO, with part of its captions",
        "The same grid features, one seed. SAF and SGR had one epoch with one agreement step "
        f"({spent} of training on a shared GPU). Which photographs "
        "and captions there are, and the figures of the paper: [notes](../notes/training.md).",
        figures.table(["", "whole test: rSum", "1K folds: i2t R@1", "t2i R@1", "rSum"], lines),
        gain(),
        figures.command(
            "python -m benchmarks.quality.recipes coco_grid coco_grid/vse_infty_hinge "
            "coco_grid/vse_infty_tcl --seeds 0 --fold 1000"
        ),
        figures.source("coco_grid"),
    ]


def gain() -> str:
    hinge, tcl = (
        runs("coco_grid", f"coco_grid/{name}")[0]["rows"][-1]["rsum"]
        for name in ("vse_infty_hinge", "vse_infty_tcl")
    )
    return (
        f"From the hinge to both views of TCL, VSE∞ gains {number(tcl - hinge, 1)} (one seed)."
    )
