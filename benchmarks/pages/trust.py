"""The page of trust: how well probabilities, guarantees, result sets and refusals hold."""

from collections.abc import Callable

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, mean_fraction, number, percent

STUDIES = {"TCL-VSE∞": "trust_flickr8k_vse_infty_tcl", "TCL-TcVSE": "trust_flickr8k_tcvse_tcl"}
COCO = "trust_coco_grid_vse_infty_tcl"
DIRECTIONS = {"text": "text → image", "image": "image → text"}
MEASURES = {
    "evidential: u": "u = K/S, the papers' uncertainty",
    "scores: largest": "largest similarity",
    "scores: probability": "softmax, fitted temperature",
    "two_way: inverted softmax": "inverted softmax (bank of queries)",
    "calibrated trust": "**calibrated trust**",
}


def render() -> str:
    return figures.page(
        "Results: trust",
        "How far a stated probability can be trusted, on the Flickr8k test split. Trust is "
        "fitted on dev, with the training captions and photographs as bank. Mean ± standard "
        "deviation over the runs named under Sources. Why u alone does not work: "
        "[what makes an answer trustworthy](../explanation/trust.md).",
        *separation(),
        *calibration(),
        *guarantees(),
        *result_sets(),
        *absent(),
        *sizes(),
        *elsewhere(),
        *relevance(),
        "`avow trust RUN` writes all of this for a run of your own as one page. Agreement with "
        "people and corrupted queries: [notes](../notes/trust.md).",
    )


def columns(cell: Callable[[Document], str]) -> list[str]:
    """One cell per study and direction."""
    return [
        cell(figures.load(name)["summary"][direction])
        for name in STUDIES.values()
        for direction in DIRECTIONS
    ]


def head(first: str) -> list[str]:
    return [first, *(f"{run}: {way}" for run in STUDIES for way in DIRECTIONS.values())]


def separation() -> list[str]:
    rows = [
        [label, *columns(lambda entry, key=key: mean_fraction(entry["measures"][key]["auroc"]))]
        for key, label in MEASURES.items()
    ]
    ahead = min(
        low["low"]["mean"] if isinstance(low["low"], dict) else low["low"]
        for name in STUDIES.values()
        for study in figures.load(name)["studies"]
        for direction in DIRECTIONS
        for low in study[direction]["ahead"].values()
    )
    claim = (
        "Calibrated trust is ahead of every single measure in every seed and direction: the "
        "lower end of the paired bootstrap interval over images is at least "
        f"{fraction(ahead)}."
    )
    return [
        "## Telling right first answers from wrong ones",
        "AUROC of the event that the first answer is the annotated one.",
        figures.table(head("AUROC"), rows),
        *([claim] if ahead > 0 else []),
        figures.command("python -m benchmarks.quality.trust NAME RUN RUN RUN --features DIR"),
        figures.source(*STUDIES.values()),
    ]


def best_single(entry: Document) -> float:
    return max(row["brier_skill"]["mean"] for row in entry["calibration"]["baselines"].values())


def calibration() -> list[str]:
    rows = [
        ["ECE", *columns(lambda entry: mean_fraction(entry["calibration"]["ece"]))],
        [
            "ECE of a perfectly calibrated predictor, at most",
            *columns(lambda entry: mean_fraction(entry["calibration"]["floor"])),
        ],
        [
            "Brier skill",
            *columns(lambda entry: mean_fraction(entry["calibration"]["brier_skill"], 2)),
        ],
        [
            "Brier skill of the best single measure",
            *columns(lambda entry: fraction(best_single(entry), 2)),
        ],
    ]
    return ["## Calibration", figures.table(head(""), rows)]


def guarantees() -> list[str]:
    labels = {
        "first answer": "the first answer is right",
        "one of ten": "one of the ten shown is right",
    }
    rows = []
    for run, name in STUDIES.items():
        for direction, way in DIRECTIONS.items():
            entry = figures.load(name)["summary"][direction]["guarantee"]
            for kind, label in labels.items():
                rows += [[run, way, label, *guarantee(row)] for row in entry[kind]]
    return [
        "## Guarantees of risk",
        "A guarantee has a risk that it may not exceed, and a chance with which it may fail. "
        "It was fitted on one half of the test queries and checked on the other, over repeated "
        'random splits. "Broken" counts the splits whose risk exceeds the promise beyond the '
        "chance of the half it was checked on.",
        figures.table(
            [
                "run",
                "direction",
                "promise",
                "risk",
                "may fail",
                "broken",
                "answered",
                "answered by the best single measure",
            ],
            rows,
        ),
    ]


def guarantee(row: Document) -> list[str]:
    single = max(other["coverage"]["mean"] for other in row["baselines"].values())
    return [
        percent(row["alpha"]["mean"]),
        percent(row["delta"]["mean"]),
        percent(row["surely"]["mean"], 1),
        percent(row["coverage"]["mean"], 1),
        percent(single, 1),
    ]


def result_sets() -> list[str]:
    rows = []
    for run, name in STUDIES.items():
        for direction, way in DIRECTIONS.items():
            for row in figures.load(name)["summary"][direction]["sets"]:
                others = row["baselines"]
                rows.append(
                    [
                        run,
                        way,
                        percent(1 - row["alpha"]["mean"]),
                        fraction(row["held"]["mean"]),
                        f"{number(row['size']['mean'], 1)}",
                        *(
                            f"{number(others[key]['size']['mean'], 1)}"
                            for key in ("rank", "softmax")
                        ),
                    ]
                )
    return [
        "## Result sets",
        "Sets that hold a right item for a chosen share of the queries, and how "
        "many items they need.",
        figures.table(
            ["run", "direction", "share", "held", "items", "by plain ranks", "by softmax"], rows
        ),
    ]


def absent() -> list[str]:
    rows = [
        [
            label,
            *columns(
                lambda entry, key=key: percent(entry["absent"]["refused"][key]["mean"], 1)
            ),
        ]
        for key, label in MEASURES.items()
    ]
    kept = figures.load(STUDIES["TCL-VSE∞"])["summary"]["text"]["absent"]["kept"]["mean"]
    return [
        "## Nothing found",
        "The match of every query is taken out of the gallery. With "
        f"{percent(1 - kept)} of right "
        "answers withheld, this share of the queries is refused. For the shipped model, see "
        "[nothing found](refusal.md).",
        figures.table(head("refused"), rows),
    ]


def sizes() -> list[str]:
    document = figures.load("gallery_sizes")
    rows = [
        [
            DIRECTIONS[direction],
            f"{row['candidates']:,}",
            f"{number(row['r1'], 1)}",
            fraction(row["auroc"]),
            fraction(row["ece"]),
            fraction(row["floor"]),
            "yes" if row["within"] else "no",
        ]
        for direction in DIRECTIONS
        for row in document["rows"][direction]
    ]
    return [
        "## Gallery sizes",
        f"One fit of `{document['run']}`, asked at every size; "
        f"{document['among'].upper()} gives "
        "the distractors. The last column says whether the ECE is within the "
        "floor plus a hundredth.",
        figures.table(
            ["direction", "candidates", "R@1", "AUROC", "ECE", "floor", "within"], rows
        ),
        figures.command(
            "python -m benchmarks.quality.gallery_sizes RUN --features DIR "
            "--among coco --among-features DIR"
        ),
        figures.source("gallery_sizes"),
    ]


def elsewhere() -> list[str]:
    names = ("shift_flickr8k-vse_infty_tcl-seed0", "shift_coco_grid-vse_infty_tcl-seed0")
    rows = []
    for name in names:
        document = figures.load(name)
        for direction, way in DIRECTIONS.items():
            for place, where in (
                ("home", "its own test"),
                ("abroad", f"{document['other']} test"),
            ):
                row = document["rows"][direction][place]
                cells = [fraction(row[key]) for key in ("auroc", "auroc of u", "ece", "floor")]
                rows.append(
                    [f"`{document['run']}`", way, where, f"{number(row['r1'], 1)}", *cells]
                )
    coco = figures.load(COCO)["summary"]
    measures = [
        f"{way}: AUROC {fraction(coco[key]['measures']['calibrated trust']['auroc']['mean'])} "
        f"(u {fraction(coco[key]['measures']['evidential: u']['auroc']['mean'])}, softmax "
        f"{fraction(coco[key]['measures']['scores: probability']['auroc']['mean'])}), ECE "
        f"{fraction(coco[key]['calibration']['ece']['mean'])} over "
        f"{coco[key]['candidates']['mean']:,} candidates"
        for key, way in DIRECTIONS.items()
    ]
    return [
        "## Another dataset",
        "Trust fitted on one dataset and asked on another. The check for drift "
        "reports every row of another test.",
        figures.table(
            ["run", "direction", "asked on", "R@1", "AUROC", "AUROC of u", "ECE", "floor"], rows
        ),
        f"MS-COCO, whole test, one seed. {'; '.join(measures)}. There are five "
        "times more texts "
        "than in any gallery of the fit, which trust reports as out of range.",
        figures.command(
            "python -m benchmarks.quality.shift RUN --other coco "
            "--features DIR --other-features DIR"
        ),
        figures.source(*names, COCO),
    ]


def relevance() -> list[str]:
    document = figures.load("relevance")
    people = document["people"]["summary"]["strict"]
    rows = [
        [
            name,
            fraction(row["auroc"][0]),
            f"{fraction(row['auroc'][1])} to {fraction(row['auroc'][2])}",
            percent(row["stated"]["mean"]),
        ]
        for name, row in people["measures"].items()
    ]
    styles = [
        [
            style,
            f"{row['queries']}",
            percent(row["relevant"]),
            percent(row["stated"]),
            fraction(row["ece"]),
            fraction(row["floor"]),
            fraction(row["auroc"]),
            fraction(row["similarity"]["auroc"]),
        ]
        for style, row in document["rows"].items()
    ]
    return [
        "## P(relevant)",
        f"Hits that experts call right ({percent(people['called'][0])} of the "
        "pairs shown), told "
        "from the others; 95 % intervals.",
        figures.table(["", "AUROC", "interval", "stated on average"], rows),
        f"By style of query, `{document['run']}`:",
        figures.table(
            [
                "query",
                "queries",
                "relevant",
                "stated",
                "ECE",
                "floor",
                "AUROC",
                "AUROC of similarity",
            ],
            styles,
        ),
        figures.command(
            "python -m benchmarks.quality.relevance RUN --features DIR "
            "--people RUN RUN RUN --judgements FILE"
        ),
        figures.source("relevance"),
    ]
