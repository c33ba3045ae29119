"""The one table of results in README.md, between two comments that mark its place."""

import re
import statistics

from benchmarks.pages import figures, other_seeds
from benchmarks.pages.figures import fraction, mean_fraction, number, percent, several
from benchmarks.pages.recall import rsum, together

BEGIN = "<!-- results: written by scripts/docs -->"
END = "<!-- end of results -->"
BETWEEN = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


def fill(text: str) -> str:
    """README.md with its table of results as the files of results have it now."""
    if len(BETWEEN.findall(text)) != 1:
        raise ValueError(f"README.md needs one '{BEGIN}' followed by one '{END}'.")
    return BETWEEN.sub(lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", text)


def table() -> str:
    rows = (
        (shipped, "recall"),
        (absent, "refusal"),
        (captions, "audit"),
        (trust, "trust"),
        (calibration, "trust"),
        (methods, "recall"),
        (noise, "noise"),
        (speed, "speed"),
    )
    linked = [[*row(), f"[{page}](docs/results/{page}.md)"] for row, page in rows]
    return figures.table(["what", "Avow", "beside it", "more"], linked)


def shipped() -> list[str]:
    row = figures.load("default_model")["rows"]["flickr8k"]
    shown, plain = (row[key]["text_to_image"] for key in ("shown", "plain"))
    return [
        "text to image on Flickr8k test, shipped model, as shown: R@1, R@10",
        f"{number(shown[0], 1)}, {number(shown[2], 1)}",
        f"by cosine alone {number(plain[0], 1)}, {number(plain[2], 1)}; R@1 of three seeds "
        f"{other_seeds.told('the same as shown')}",
    ]


def absent() -> list[str]:
    row = figures.load("refusal")["rows"]["flickr8k"]
    return [
        f"names that are not among {row['K']:,} pictures, refused",
        f"{row['refused']} of {row['absent']}",
        f"{row['similarity']} by a threshold on similarity that answers as many",
    ]


def captions() -> list[str]:
    means = figures.load("audit_folds_light_caption")["means"]
    (row,) = (row for row in means if row["noise"] == 0.2)
    ours, other = (
        row[way]["average_precision"] for way in ("avow", "cleanlab self_confidence")
    )
    return [
        f"finding {percent(row['noise'])} wrong captions in Flickr8k, average precision",
        f"{fraction(ours)} ± {fraction(row['avow']['average_precision_sd'])}",
        f"cleanlab {fraction(other)}",
    ]


def trust() -> list[str]:
    measures = figures.load("trust_flickr8k_vse_infty_tcl")["summary"]["text"]["measures"]
    return [
        "telling right first answers from wrong ones, AUROC, TCL-VSE∞",
        mean_fraction(measures["calibrated trust"]["auroc"]),
        f"softmax {fraction(measures['scores: probability']['auroc']['mean'])}, "
        f"u = K/S {fraction(measures['evidential: u']['auroc']['mean'])}",
    ]


def calibration() -> list[str]:
    entry = figures.load("trust_flickr8k_vse_infty_tcl")["summary"]["text"]["calibration"]
    return [
        "calibration error of the stated probability, the same runs",
        mean_fraction(entry["ece"]),
        f"a perfect predictor shows up to {fraction(entry['floor']['mean'])}",
    ]


def methods() -> list[str]:
    averaged = several([row["rsum"] for row in together("")])
    return [
        "rSum on Flickr8k grid features: SGRAF with TCL",
        averaged,
        f"VSE∞ with TCL {rsum('flickr8k/vse_infty_tcl', 'both views')}, "
        f"with the hinge {rsum('flickr8k/vse_infty_hinge', 'model')}",
    ]


def noise() -> list[str]:
    summary = figures.load("noise")["summary"]
    audit, tcl, hinge = (
        statistics.fmean(summary[f"flickr8k/vse_infty_{name}"]["0.6"]["best"]["values"])
        for name in ("tcl+train.trust=audits/NOISE", "tcl", "hinge")
    )
    return [
        f"rSum of VSE∞ with {percent(0.6)} wrong pairs: TCL weighted by an audit",
        number(audit, 1),
        f"TCL {number(tcl, 1)}, hinge {number(hinge, 1)}",
    ]


def speed() -> list[str]:
    search, indexing = figures.load("search_speed"), figures.load("indexing")
    return [
        f"one search, {search['items']:,} pictures, {search['machine']['cores']} cores, p50",
        f"{number(search['server']['whole']['p50_ms'], 1)} ms",
        f"indexing {number(indexing['indexed_per_second'])} photographs a second",
    ]
