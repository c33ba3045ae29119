"""Promises kind by kind: a part of the page of what people would agree with."""

from benchmarks.pages import figures
from benchmarks.pages.elsewhere import GALLERIES
from benchmarks.pages.figures import Document, number, percent

FILE = "promises_of_kinds"
COMMANDS = ("python -m benchmarks.quality.promises_of_kinds",)
RISK = "0.1"
"""At which one promise about all questions stands beside those of the kinds."""


def section() -> str:
    kept = figures.load(FILE)
    usual = kept["usual"]
    head = ["photographs of", "so many", "asked", "usual risk", "answered", "wrong"]
    beside = percent(float(RISK))
    for label in (f"{beside}, of the kind", f"{beside}, of all together"):
        head += [f"{label}: answered", "wrong"]
    return (
        "What was promised of each kind of question, and how many of the answers were wrong "
        f"over test photographs, at the usual risk of the kind and at {beside}. The policy "
        "makes its promises with queries over dev photographs and COCO's train photographs. "
        "Names: nouns that a picture of the gallery shows, and to one in four nothing fits. "
        "Descriptions: captions, with their own photograph and without it as often. The last "
        "two columns are what shipped before: one promise about all questions is kept for "
        "names, and broken for descriptions."
        f"\n\n{figures.table(head, (cells(row, usual) for row in kept['rows']))}"
    )


def cells(row: Document, usual: dict[str, float]) -> list[str]:
    risk = usual[row["kind"]]
    return [
        GALLERIES[row["photographs"]],
        number(row["size"]),
        f"{number(row['asked'])} {row['kind']}",
        percent(risk),
        *answers(row["own"][f"{risk:g}"]),
        *answers(row["own"][RISK]),
        *answers(row["together"][RISK]),
    ]


def answers(shares: list[float] | None) -> list[str]:
    """What is answered, and how much of that is wrong."""
    if shares is None:
        return ["no promise", ""]
    answered, wrong = shares
    return [percent(answered), f"{100 * wrong:.1f} %"]
