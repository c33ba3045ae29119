"""The part on galleries of tens of thousands, on the page of what people would agree with."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE = "large_galleries"
KINDS = {
    "objects": "COCO's 80 objects",
    "rare": "ImageNet's rare names",
    "captions": "test captions",
    "nouns": "nouns of captions",
    "phrases": "phrases of captions",
}
BEFORE = "without the part for large galleries"


def section() -> list[str]:
    kept = figures.load(FILE)
    return [
        "## Among tens of thousands",
        "Photographs that no policy was fitted on: the test splits, and half of COCO's train "
        "photographs, with which the model was trained. Captions are of the test splits. Names "
        "are not new: the fit asked the same objects over the other half, and the model learnt "
        f"them and ImageNet's. Means of {len(kept['seeds'])} drawn galleries. Absent objects: "
        "every second one, in the same galleries without all photographs that list it. Rare "
        "names: those no training caption says, with ImageNet's photographs among the others "
        "and without. "
        "Captions: most have their own photograph in no smaller gallery. Nouns and phrases: "
        "what the captions of five photographs or more say, and true of those alone, though "
        "others may show it. One of ten: that one "
        "of the first ten fits, stated and true; how many: the stated number over the true "
        "one, as a geometric mean, and how often the interval holds it (it is made for four in "
        "five). Before: the fit for smaller galleries, stretched.",
        table(kept["rows"]),
        "How many there are is stated too high for what is rare, as only a sample is looked "
        "at, and too low for objects: lists name what is tiny or half hidden, too. The way of "
        "counting was chosen among seven on these photographs, so its figures are no "
        "independent test ([notes](../notes/trust.md)).",
        figures.command("python -m benchmarks.quality.large_galleries INDEX"),
    ]


def table(rows: Document) -> str:
    lines = []
    for kind, label in KINDS.items():
        for key, cell in rows[kind].items():
            size, policy = key.split(" ", 1)
            lines.append([label, number(int(size)), *_cells(cell, policy == BEFORE)])
    heads = [
        "asked",
        "photographs",
        "judged",
        "answered",
        "of these wrong",
        "refused",
        "absent answered",
        "absent refused",
        "one of ten, stated",
        "true",
        "how many",
        "held",
    ]
    return figures.table(heads, lines)


def _cells(cell: Document, before: bool) -> list[str]:
    def share(key: str) -> str:
        return percent(cell[key][0]) if key in cell else ""

    return [
        "before" if before else "as shipped",
        *(share(key) for key in ("answered", "wrong", "refused")),
        *(share(key) for key in ("absent_answered", "absent_refused")),
        fraction(cell["stated_of_ten"][0], 2),
        fraction(cell["true_of_ten"][0], 2),
        number(cell["number_ratio"][0], 2),
        share("number_held"),
    ]
