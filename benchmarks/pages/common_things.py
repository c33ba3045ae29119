"""Common things that no picture shows: a part of the page of what people would agree with."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE = "common_absent"
COMMANDS = (
    "python -m benchmarks.quality.common_absent",
    "python -m benchmarks.quality.common_absent --index INDEX",
)
DATASETS = {"flickr8k": "Flickr8k", "coco": "COCO"}


def section() -> str:
    """Objects that are there told from objects that are not, and names of another dataset."""
    kept = figures.load(FILE)
    head = ["photographs", "asked", "trust", "there: answered", "refused"]
    head += ["not there: answered", "refused", "AUROC", "best single score"]
    names = kept["names"]
    return (
        "How rare a word is gives most names of ImageNet's classes away. COCO's objects are "
        "equally common words on both sides: over dev photographs that show them, and over as "
        "many from which those were taken. The shipped policy was fitted with half of these "
        "objects, both ways, and has learnt the levels of all of them "
        "([what a level is](../explanation/trust.md#the-level-of-a-name)); what it does for "
        "names that taught it nothing is in the [notes](../notes/trust.md)."
        f"\n\n{figures.table(head, objects(kept['objects']))}\n\nThe same over train "
        "photographs of COCO that no policy was fitted on; the model was trained with them, "
        "and the policy asked the same objects over 5,000 others of them. How many of those "
        "teach was chosen on dev and with a look at these, so they are no untouched test."
        f"\n\n{figures.table(head, objects(kept['others']))}\n\nOf "
        f"{names['names']} names that COCO's "
        f"captions have and no caption of {kept['photographs']:,} test photographs of Flickr8k "
        f'("an elephant"), {percent(names["answered"])} are answered and '
        f"{percent(names['refused'])} refused.\n\n{absent_captions(kept['captions'])}"
    )


def objects(rows: list[Document]) -> list[list[str]]:
    """A line for each size of galleries, and each policy."""
    lines = []
    for row in rows:
        policies = ("policy", *(["before"] if "before" in row else []))
        cuts = {cut: value for cut, value in row["auroc"].items() if cut not in policies}
        best = max(cuts, key=lambda cut: cuts[cut])
        for policy in reversed(policies):
            shares = row if policy == "policy" else row[policy]
            lines.append([
                number(row["size"]),
                number(row["galleries"]),
                "as shipped" if policy == "policy" else policy,
                *(percent(shares[kind][verdict])
                  for kind in ("present", "absent") for verdict in ("answered", "refused")),
                fraction(row["auroc"][policy], 3),
                f"{fraction(cuts[best], 3)} ({best})",
            ])  # fmt: skip
    return lines


def absent_captions(rows: list[Document]) -> str:
    """Sentences about other photographs."""
    lines = [
        [
            f"{DATASETS[row['captions']]} over {DATASETS[row['photographs']]}",
            *(percent(row["now"][kind][verdict])
              for kind in ("absent", "present") for verdict in ("answered", "refused")),
        ]
        for row in rows
    ]  # fmt: skip
    counts = " and ".join(f"{row['absent']:,} ({row['present']:,})" for row in rows)
    head = ["test captions", "nothing fits: answered", "refused"]
    head += ["something does: answered", "refused"]
    return (
        "Captions of one dataset over photographs of the other, of which at most one in twenty "
        "people would say that any fits by its captions, and those of which most would: "
        f"{counts} of them."
        f"\n\n{figures.table(head, lines)}"
    )
