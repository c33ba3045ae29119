"""Captions without their own photograph: a part of the page of what people would agree with."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE = "captions_elsewhere"
COMMANDS = ("python -m benchmarks.quality.captions_elsewhere",)
GALLERIES = {"flickr8k": "Flickr8k test", "coco": "COCO test", "both": "both together"}
POLICIES = {"before": "before", "policy": "as shipped"}


def section() -> str:
    rows = figures.load(FILE)["rows"]
    head = ["photographs of", "so many", "trust"]
    for kind in ("without", "with it"):
        head += [f"{kind}: answered", "of these wrong", "refused", "one of ten: stated", "true"]
    return (
        "Captions that ask over photographs of the same dataset, without the one that they "
        "were written for, and with it. What fits is told by how well a photograph's own "
        "captions agree, and counts where experts would find no error. The first ten are "
        "judged as if either were as likely, and what a caption's best hits look like says too "
        "little about which it is: so one is stated too high and the other too low, and both "
        "together come nearly true."
        f"\n\n{figures.table(head, (line for row in rows for line in lines(row)))}"
    )


def lines(row: Document) -> list[list[str]]:
    """One for each policy."""
    return [
        [
            GALLERIES[row["photographs"]],
            number(row["size"]),
            label,
            *(cell for kind in ("without", "with") for cell in cells(row[policy][kind])),
        ]
        for policy, label in POLICIES.items()
        if policy in row
    ]


def cells(found: Document) -> list[str]:
    shares = [percent(found[key]) for key in ("answered", "wrong", "refused")]
    return [*shares, *(fraction(found[f"{key}_of_ten"], 2) for key in ("stated", "true"))]
