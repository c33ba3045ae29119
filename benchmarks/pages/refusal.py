"""The page of "nothing found": absent names that are refused, answers that are kept."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, percent

GALLERIES = {
    "sample": "the demo's pictures",
    "flickr8k": "Flickr8k test",
    "mixed": "both together",
}


def render() -> str:
    document = figures.load("refusal")
    return figures.page(
        "Results: nothing found",
        "Names that are not in a gallery, against queries for what is there, asked of the "
        "shipped model. Half of the absent names are near to the gallery's subjects, half far.",
        refused(document),
        "The lists were drawn before anything was fitted. How many right answers may be "
        "withheld was settled on dev after a look at these lists, so the clean "
        "test is the last "
        "column: all other absent names, whose answers nobody had seen. Refusal "
        "was fitted over "
        "dev photographs with names from the same two sources (ImageNet and COCO); a name from "
        "neither may fare worse.",
        "## Right at rank 1",
        right(document),
        "The backbone has no class for some of the nouns, and no caption names them: "
        "[what was tried](../notes/shipped-model.md).",
        figures.command("python -m benchmarks.quality.refusal"),
        figures.source("refusal"),
        f"Queries: `benchmarks/quality/{document['lists']}`.",
    )


def refused(document: Document) -> str:
    rows = []
    for key, name in GALLERIES.items():
        row = document["rows"][key]
        rows.append(
            [
                f"{name}, {row['K']:,} pictures",
                f"{row['refused']} of {row['absent']} ({row['near']}, {row['far']})",
                percent(row["kept"]),
                str(row["similarity"]),
                f"{percent(row['others_refused'])} of {row['others']}",
            ]
        )
    head = [
        "gallery",
        "absent names refused (near, far)",
        "right at rank 1 and still answered",
        "refused by a threshold on similarity that answers as many",
        "other absent names refused",
    ]
    return figures.table(head, rows)


def right(document: Document) -> str:
    rows = []
    for key, name in GALLERIES.items():
        row = document["rows"][key]
        nouns = "" if row["nouns"] is None else percent(row["nouns"])
        missed = ", ".join(row["missed"][:6])
        rows.append([name, str(row["queries"]), percent(row["rank1"]), nouns, missed])
    return figures.table(
        ["gallery", "queries", "right at rank 1", "of the nouns alone", "missed, for example"],
        rows,
    )
