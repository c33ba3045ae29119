"""The page that says how many ticks trust needs in an index of its own."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE = "ticks"
KINDS = {"captions": "captions", "names": "names", "both": "as many of both"}
POLICIES = {"shipped": "shipped", "too low": "states too little", "too high": "states too much"}


def render() -> str:
    kept = figures.load(FILE)
    shift = number(kept["shift"], 1)
    return figures.page(
        "Results: how many ticks are enough?",
        "A tick says of a hit whether it fits. Ticks move the log-odds of the shipped policy "
        "by a line ([how](../explanation/trust.md#ticks)). Here the judgements of people play "
        "the ticks of a user: hits shown for captions of Flickr8k test as experts judged "
        "them, on images that nothing was fitted on, and hits shown for nouns, good where a "
        f"caption of the picture names the noun. {judgements(kept)} The error is that of P on "
        "the judgements of other queries than those ticked. A policy that states too little, "
        f"or too much, is the shipped one with all log-odds moved by {shift}: it stands for "
        "pictures and people that it does not know.",
        "## Error after so many ticks",
        f"Mean squared error of P (Brier) over {kept['repetitions']} random draws, and in "
        "brackets its ratio to that without ticks.",
        brier(kept),
        own(kept),
        "## From how many ticks on it is better",
        "The fewest ticks from which on the mean error is below that without ticks, and the "
        "share of draws in which it is, by number of ticks. A fit of the index's own needs "
        f"{kept['needed']} queries with a known picture.",
        better(kept),
        cost(kept),
        "## Stated less judged, and calibration error",
        "Mean P less the share that was judged good, and the calibration error.",
        gaps(kept),
        "## What is left unknown",
        "The page of the server tells how well P is known after the ticks so far. Beside it "
        "the mean size of the gap between stated and judged, averaged over all rows above.",
        unknown(kept),
        "## One offset for every kind of query",
        "Ratio of the errors as above, where names and phrases have an offset each, and where "
        "they share one.",
        kinds(kept),
        "The prior was chosen over test photographs of COCO. A run on these judgements, with a "
        "fit that did not converge, had been seen before.",
        figures.command("python -m benchmarks.quality.ticks"),
        figures.source(FILE),
    )


def counts(kept: Document) -> list[str]:
    return list(next(iter(kept["rows"]["both"].values())))


def each(kept: Document) -> list[tuple[str, str, Document]]:
    return [
        (KINDS[kind], POLICIES[policy], row)
        for kind, policies in kept["rows"].items()
        for policy, row in policies.items()
    ]


def judgements(kept: Document) -> str:
    parts = [
        f"{KINDS[kind]}: {hits:,} hits of {queries:,} queries"
        for kind, (hits, queries) in kept["judgements"].items()
        if kind != "both"
    ]
    return f"There are, for {', for '.join(parts)}."


def brier(kept: Document) -> str:
    head = ["ticks of", "policy", *(f"{count} ticks" for count in counts(kept))]
    rows = [
        [kind, policy, *(_with_ratio(row[count]) for count in counts(kept))]
        for kind, policy, row in each(kept)
    ]
    return figures.table(head, rows)


def own(kept: Document) -> str:
    """A policy that `avow calibrate` fits from nothing, on the same judgements."""
    parts = [
        f"{fraction(row['brier'], 3)} for {KINDS[kind]} (stated less judged and calibration "
        f"error {_pair(row)})"
        for kind, row in kept["own"].items()
    ]
    return (
        f"A policy of the index's own, fitted on {kept['needed']} known queries, has an error "
        f"of {' and '.join(parts)}; means of {kept['own_fits']} fits. Of a caption it knows "
        "the one picture that the caption was written for, as a file of pairs does, and "
        "takes all others for wrong."
    )


def _with_ratio(row: Document) -> str:
    return f"{fraction(row['brier after'], 3)} ({number(row['ratio'], 2)})"


def better(kept: Document) -> str:
    some = counts(kept)[1:]
    head = ["ticks of", "policy", "better from", *(f"{one} ticks" for one in some)]
    rows = [
        [kind, policy, first_better(row), *(percent(row[one]["better"]) for one in some)]
        for kind, policy, row in each(kept)
    ]
    return figures.table(head, rows)


def first_better(row: Document) -> str:
    """The fewest ticks from which on every larger number is better on average."""
    found = None
    for count in reversed(list(row)):
        if row[count]["ratio"] >= 1:
            break
        found = count
    return f"{found} ticks" if found else "never"


def cost(kept: Document) -> str:
    """What ticks cost where nothing was wrong."""
    rows = kept["rows"]["captions"]["shipped"]
    worst = max(row["ratio"] for row in rows.values()) - 1
    last = counts(kept)[-1]
    return (
        "Where the policy is right already, as for captions, ticks can only add noise: the "
        f"error is up to {percent(worst, 1)} higher, and {percent(rows[last]['ratio'] - 1, 1)} "
        f"after {last}."
    )


def gaps(kept: Document) -> str:
    head = ["ticks of", "policy", *(f"{count} ticks" for count in counts(kept))]
    rows = [
        [kind, policy, *(_pair(row[one], " after") for one in counts(kept))]
        for kind, policy, row in each(kept)
    ]
    return figures.table(head, rows)


def _pair(row: Document, when: str = "") -> str:
    gap = row[f"gap{when}"]
    sign = "-" if gap < 0 else "+"
    return f"{sign}{fraction(abs(gap), 3)}, {fraction(row[f'ece{when}'], 3)}"


def unknown(kept: Document) -> str:
    rows = []
    for name, key in (
        ("P is known to ±", "known to"),
        ("size of the gap", "size of gap after"),
    ):
        means = [
            sum(row[one][key] for _, _, row in each(kept)) / len(each(kept))
            for one in counts(kept)
        ]
        rows.append([name, *(fraction(mean, 3) for mean in means)])
    return figures.table(["", *(f"{count} ticks" for count in counts(kept))], rows)


def kinds(kept: Document) -> str:
    head = ["ticks of", "policy", *(f"{count} ticks" for count in counts(kept)[1:])]
    rows = [
        [kind, policy, *(_ratios(row[one]) for one in counts(kept)[1:])]
        for kind, policy, row in each(kept)
        if kind == KINDS["both"]
    ]
    return figures.table(head, rows)


def _ratios(row: Document) -> str:
    return f"{number(row['ratio'], 3)}, {number(row['ratio one kind'], 3)}"
