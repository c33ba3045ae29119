"""Searches by picture: a part of the page of what people would agree with."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE = "picture_queries"
COMMANDS = ("python -m benchmarks.quality.picture_queries --index INDEX",)


def section() -> str:
    kept = figures.load(FILE)
    head = ["photographs", "P of hits: stated", "true", "ECE", "one of ten: stated", "true",
            "ECE", "answered", "of these wrong", "refused"]  # fmt: skip
    rows = [line(int(size), row["now"]) for size, row in kept["rows"].items()]
    return (
        f"{kept['queries']} photographs ask for others of the same kind: as far as the "
        "captions of one describe the other with minor errors at most. None of them was "
        "fitted on; they are of the test splits, and of COCO's train photographs with four "
        "captions or more, which the model learnt from. The policy was fitted on galleries of "
        f"up to {number(kept['fitted on'][1])}."
        f"\n\n{figures.table(head, rows)}"
    )


def line(size: int, row: Document) -> list[str]:
    stated = [
        fraction(row[event][key], 2)
        for event in ("hits", "one of ten")
        for key in ("stated", "true", "ece")
    ]
    shares = [percent(row[key]) for key in ("answered", "answered wrong", "refused")]
    return [number(size), *stated, *shares]
