"""The page on trust that is transferred to models without labels."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, percent

FILE = "transfer"
WAYS = {
    "transferred": "transferred, without labels",
    "labelled": "fitted with labels of dev",
    "shipped": "default model's policy as it is",
    "softmax": "softmax of the scores",
}


def render() -> str:
    kept = figures.load(FILE)
    queries = kept["queries"]
    return figures.page(
        "Results: trust for a model without labels",
        f"Models whose truth is known, over the {kept['photographs']:,} test photographs of "
        f"Flickr8k: {queries['captions']:,} captions, {queries['nouns']:,} nouns that five "
        f"photographs or more show, {queries['absent']:,} names that no caption has. The heads "
        "are trained on Flickr8k train over stored features; one view and 64 random directions "
        "are made of the default model, so they err together with it more than a stranger "
        "would; random vectors have no skill. No large two-tower model is among them. How a "
        "transfer works: [trust for another model](../explanation/trust.md).",
        "## How far the stated probabilities hold",
        "The ten hits shown of every query. ECE, lower is better; beside it the mean stated "
        "and the mean true. AUROC: the first hits of captions and nouns together.",
        calibration(kept["strangers"]),
        "## What is refused and answered",
        "Refused: of captions and nouns with a fitting hit among ten, and of absent names. "
        "Answered: of all queries of the kind, at each policy's own risk. A softmax has no "
        "verdicts.",
        verdicts(kept["strangers"]),
        figures.command(
            "avow features flickr8k --grid 1", "python -m benchmarks.quality.transfer"
        ),
        figures.source(FILE),
    )


def calibration(strangers: Document) -> str:
    head = ["model", "P from", "captions: ECE", "stated/true", "nouns: ECE", "stated/true",
            "AUROC"]  # fmt: skip
    rows = []
    for name, ways in strangers.items():
        for way, label in WAYS.items():
            row = ways[way]
            cells = []
            for kind in ("captions", "nouns"):
                one = row[kind]
                cells.append(fraction(one["ece"], 3))
                cells.append(f"{fraction(one['stated'], 3)} / {fraction(one['true'], 3)}")
            rows.append([name, label, *cells, fraction(row["auroc"], 2)])
    return figures.table(head, rows)


def verdicts(strangers: Document) -> str:
    kinds = ("captions", "nouns", "absent")
    head = ["model", "P from", *(f"{kind} {what}" for what in ("refused", "answered")
            for kind in kinds)]  # fmt: skip
    rows = [
        [
            name,
            label,
            *(
                "" if ways[way][what][kind] is None else percent(ways[way][what][kind])
                for what in ("refused", "answered")
                for kind in kinds
            ),
        ]
        for name, ways in strangers.items()
        for way, label in WAYS.items()
        if way != "softmax"
    ]
    return figures.table(head, rows)
