"""How many pictures fit: a part of the page of what people would agree with."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, number, percent

FILES = ("how_many", "single_names")
COMMANDS = (
    "python -m benchmarks.quality.how_many --before POLICY",
    "python -m benchmarks.quality.single_names --before POLICY",
)
GALLERIES = {
    "flickr8k": "Flickr8k test",
    "coco": "COCO test, a part",
    "flickr8k+coco": "both together",
}
POLICIES = {"before": "before", "shipped": "as shipped"}
WAYS = {
    "before": "before",
    "today": "shipped",
    "mixture": "mixture",
    "bank": "levels by reference queries",
    "pictures": "and by training photographs",
}


def section() -> str:
    over_test, by_name = (figures.load(name) for name in FILES)
    return f"{nouns(over_test['galleries'])}\n\n{single_names(by_name)}"


def nouns(galleries: Document) -> str:
    """Over test photographs: the factor that the number is off by, for each policy."""
    head = ["gallery", "nouns", "policy", "off by a factor of", "nine out of ten", "mean",
            "in the interval", "absent names: stated", "nine out of ten"]  # fmt: skip
    rows = []
    for key, told in galleries.items():
        for name in (one for one in POLICIES if one in told):
            there, gone = told[name]["nouns"], told[name]["absent"]
            factors = (there["median"], there["nine_in_ten"], there["too_many"])
            rows.append([
                GALLERIES[key],
                number(there["asked"]),
                POLICIES[name],
                *(f"{factor:.2f}" for factor in factors),
                percent(there["inside"]),
                f"{gone['median']:.1f}",
                f"{gone['nine_in_ten']:.1f}",
            ])  # fmt: skip
    return (
        "Nouns over 900 test photographs of each dataset. The stated number is held against "
        "how many photographs have captions that say the noun, so what captions leave out "
        "counts as an error; lists of objects, which name what is tiny, too, give larger "
        "numbers ([among tens of thousands](#among-tens-of-thousands)). Off: the median of "
        "the factor, the one that holds for nine of ten nouns, and the geometric mean of "
        "stated over true. The interval is meant to hold four of five. Before: the same "
        "policy, whose number did not read the level of a name "
        "([what a level is](../explanation/trust.md#the-level-of-a-name))."
        f"\n\n{figures.table(head, rows)}"
    )


def single_names(kept: Document) -> str:
    """How far off the stated number is for one name, as shipped and by three trials."""
    told = {way: name for way, name in WAYS.items() if way in kept["rows"]}
    rows = []
    for kind, shipped in kept["rows"]["today"].items():
        ways = [kept["rows"][way][kind] for way in told]
        usual = "every gallery" if kind == "every" else kind.replace("share 0.", "share .")
        rows.append([
            f"{usual}, {shipped['galleries']:,}",
            *(f"{2 ** way['median']:.2f}, {2 ** way['nine_in_ten']:.1f} "
              f"({way['log_loss']:.3f})" for way in ways),
        ])  # fmt: skip
    gone = [kept["absent"][way] for way in told]
    rows.append([
        f"absent names, {gone[0]['galleries']:,}: stated number",
        *(f"{way['number']:.1f}, {way['nine_in_ten']:.1f}" for way in gone),
    ])  # fmt: skip
    shares = [percent(kept["rows"][way]["every"]["inside"]) for way in told]
    rows.append(["true number inside the interval", *shares])
    return (
        "The factor by which the stated number of fitting pictures is off, half of the times "
        "and nine times out of ten, and in brackets the log loss of the ten best hits; "
        f"{kept['names']} names over dev photographs, each in galleries with its usual share "
        "and in some made so that it has another. What fits is what captions or objects say, "
        "so some of the factor is theirs. The shipped policy is fitted with half of these "
        "names, also in galleries in which they have other shares. "
        "The other columns are a trial in five folds of names, and no part of a search: the "
        "share of the name in the gallery as that of a mixture of two densities, with its "
        "levels told by the word, by similarities to the reference queries, and by training "
        f"photographs.\n\n{figures.table(['gallery', *told.values()], rows)}"
    )
