"""The page of finding wrong captions: average precision beside cleanlab and similarity."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

LIGHT = ("audit_folds_light_caption", "audit_folds_light_image")
SHIPPED = "audit_default_flickr8k"
WAYS = {"avow": "Avow", "cleanlab self_confidence": "cleanlab", "similarity": "similarity"}


def render() -> str:
    return figures.page(
        "Results: finding wrong captions",
        "Captions were swapped on purpose, by caption or by image (all captions of an image at "
        "once), and each way orders the pairs from most to least suspect. All ways see the "
        "same similarities.",
        *precision(),
        *probabilities(),
        *times(),
        "What a reader saw among the most suspect pairs of Flickr8k: "
        "[notes](../notes/wrong-pairs.md).",
    )


def means() -> list[tuple[Document, Document]]:
    """The light models' means beside the shipped model's, caption noise first."""
    light = {
        (row["by"], row["noise"]): row for name in LIGHT for row in figures.load(name)["means"]
    }
    shipped = {(row["by"], row["noise"]): row for row in figures.load(SHIPPED)["means"]}
    return [(light[key], shipped[key]) for key in light]


def protocol() -> str:
    row = figures.load(LIGHT[0])["rows"][0]
    own = figures.load(SHIPPED)["rows"][0]
    return (
        f"The light models (`{row['recipe']}`, {row['folds']} folds) judge "
        f"{row['judged_folds']} fold of the training split, {row['pairs']:,} pairs, "
        f"{figures.seeds(figures.load(LIGHT[0])['about']['seeds'])}. The shipped model judges "
        f"the {own['split']} split, {own['pairs']:,} pairs, "
        f"{figures.seeds(figures.load(SHIPPED)['about']['seeds'])}."
    )


def precision() -> list[str]:
    head = ["wrong pairs"]
    head += [f"light models: {way}" for way in WAYS.values()]
    head += [f"shipped model: {way}" for way in WAYS.values()]
    tables = []
    for figure, title in (
        ("average_precision", "Average precision"),
        ("precision_at_count", "Precision among as many pairs as are wrong"),
    ):
        rows = [
            [noise(light), *cells(light, figure), *cells(shipped, figure)]
            for light, shipped in means()
        ]
        tables += [f"## {title}", figures.table(head, rows)]
    return [
        protocol(),
        *tables,
        figures.command(
            "python -m benchmarks.quality.audit --folds 5 --seeds 0 1 2 --features DIR",
            "python -m benchmarks.quality.audit --run default --split test --features DIR",
        ),
        figures.source(*LIGHT, SHIPPED),
    ]


def noise(row: Document) -> str:
    kind = "captions" if row["by"] == "caption" else "images, all their captions"
    return f"{percent(row['noise'])} of {kind}"


def cells(row: Document, figure: str) -> list[str]:
    found = [row[way][figure] for way in WAYS]
    texts = []
    for way, value in zip(WAYS, found, strict=True):
        spread = row[way][f"{figure}_sd"]
        text = fraction(value) if spread is None else f"{fraction(value)} ± {fraction(spread)}"
        texts.append(f"**{text}**" if value == max(found) else text)
    return texts


def probabilities() -> list[str]:
    rows = [
        [
            noise(light),
            percent(light["probability"]["share"], 1),
            fraction(light["probability"]["brier"], 4),
            percent(shipped["probability"]["share"], 1),
            fraction(shipped["probability"]["brier"], 4),
        ]
        for light, shipped in means()
    ]
    head = ["wrong pairs", "light models: estimated share", "Brier"]
    return [
        "## Estimated share of wrong pairs",
        figures.table([*head, "shipped model: estimated share", "Brier"], rows),
    ]


def times() -> list[str]:
    rows = []
    for name in ("audit_time", "audit_time_folds"):
        for row in figures.load(name)["rows"]:
            rows.append(
                [
                    row["judged_by"],
                    f"{row['pairs']:,}",
                    f"{number(row['seconds'], 0)} s",
                    f"{number(row['processor_seconds'], 0)} s",
                    percent(row["share"], 2),
                ]
            )
    return [
        "## Time, and Flickr8k as it is",
        "An audit of the Flickr8k training split from stored features, without wrong pairs "
        "put in. The last column is the share of wrong pairs that the audit estimates.",
        figures.table(["", "pairs", "time", "processor time", "estimated share"], rows),
        figures.command("python -m benchmarks.quality.audit --time --run RUN --features DIR"),
        figures.source("audit_time", "audit_time_folds"),
    ]
