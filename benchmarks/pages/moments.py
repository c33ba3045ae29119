"""Parts of the page on videos: what is stated of moments, filmed clips, and difficult files."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

TRUST, REAL, CASES = "video_trust", "video_real", "video_cases"
KILLS = "index_kills"
GALLERIES = {"pictures": "pictures", "moments": "moments", "both": "both together"}
KINDS = ("captions", "names", "phrases")
WAYS = {
    "moments": "moments, as the search answers",
    "window": "the nearest frame, with a fixed window around it",
    "grown": "the nearest frame, and its neighbours while they score well",
}


def sections() -> list[str]:
    return [*trust(), *filmed(), *cases()]


def names() -> list[str]:
    return [name for name in (TRUST, REAL, CASES, KILLS) if figures.exists(name)]


def trust() -> list[str]:
    if not figures.exists(TRUST) or "test" not in figures.load(TRUST):
        return []
    kept = figures.load(TRUST)
    test = kept["test"]
    return [
        "## What is stated of moments",
        f"{test['photographs']} test photographs of Flickr8k and COCO, as pictures and in "
        f"videos of {number(test['seconds'] / 60)} minutes in all, in one index of "
        f"{test['items']} items; in half of the videos each photograph is followed by the one "
        "most like it, so that neighbouring segments fit the same query. Captions, names and "
        "phrases are asked whose photograph is there, and names that no caption has a word of. "
        "Labels are made as those of the shipped policy are; a moment fits when a photograph "
        "does whose shot it overlaps by half of the shorter of both. The same queries are "
        "asked of the pictures alone, of the videos alone, and of both, where every photograph "
        "is there twice.",
        calibration(test),
        "Stated beside true, by what is stated, over all hits of the first ten:",
        bins(test),
        "Nothing found:",
        refusals(test),
        verdict(kept),
        *neighbours(kept),
    ]


def calibration(test: Document) -> str:
    rows = []
    for kind in KINDS:
        for key, label in GALLERIES.items():
            row = test[key][kind]
            every, first = row["all"], row["first"]
            low, high = every["interval"]
            rows.append([
                kind, label, str(row["queries"]), fraction(every["stated"]),
                fraction(every["true"]),
                f"{fraction(every['ece'])} ({fraction(low)} to {fraction(high)})",
                fraction(every["auroc"]), f"{fraction(first['stated'])} / "
                f"{fraction(first['true'])}", fraction(first["auroc"]),
            ])  # fmt: skip
    head = ["", "among", "queries", "stated", "true", "calibration error (95 % interval)"]
    head += ["AUROC", "first: stated / true", "AUROC"]
    return figures.table(head, rows)


def bins(test: Document) -> str:
    rows = []
    for kind in KINDS:
        for key in ("pictures", "moments"):
            cells = [
                f"{fraction(stated, 2)} / {fraction(true, 2)} ({count:,})"
                for count, stated, true in test[key][kind]["all"]["bins"]
            ]
            rows.append([kind, GALLERIES[key], *cells, *[""] * (5 - len(cells))])
    edges = test["edges"][1:-1]
    head = ["", "among", f"below {fraction(edges[0], 2)}"]
    head += [f"to {fraction(edge, 2)}" for edge in edges[1:]] + ["above"]
    return figures.table(head, rows)


def refusals(test: Document) -> str:
    rows = []
    for key, label in GALLERIES.items():
        row = test[key]
        rows.append([
            label, *(percent(row[kind]["refused"], 1) for kind in KINDS),
            f"{percent(row['absent_refused'])} of {row['absent']}",
            percent(row["absent_refused_by_cut"]),
            f"{row['answered']}, {percent(row['answered_wrong'], 1)}",
        ])  # fmt: skip
    head = ["among", "captions refused", "names refused", "phrases refused", "absent refused"]
    head += ["by a cut on similarity that refuses as many present ones"]
    head += ["answered without a check, wrong"]
    return figures.table(head, rows)


def joined(test: Document) -> str:
    """What is stated of moments that are several shots, where there are enough."""
    told = []
    for kind in KINDS:
        row = test["moments"][kind].get("joined")
        if row:
            told.append(
                f"{row['hits']} for {kind} (stated {fraction(row['stated'], 2)}, true "
                f"{fraction(row['true'], 2)})"
            )
    return f"Moments of several shots among the hits: {', '.join(told)}. " if told else ""


def verdict(kept: Document) -> str:
    """Whether moments are as well calibrated as pictures, by the intervals of both."""
    test, apart = kept["test"], []
    for kind in KINDS:
        high = test["pictures"][kind]["all"]["interval"][1]
        if test["moments"][kind]["all"]["interval"][0] > high:
            apart.append(kind)
    told = (
        "The calibration error of moments lies within the interval of pictures, or below it, "
        "for every kind of query: the policy that was fitted on pictures is kept for moments."
        if not apart
        else f"The calibration error of moments lies above the interval of pictures for "
        f"{' and '.join(apart)}."
    )
    return f"{joined(test)}{told}\n\n{lines(kept)}"


def neighbours(kept: Document) -> list[str]:
    """What was chosen for moments of several segments."""
    dev = kept["dev"]["joined"]
    rows = [
        [share, fraction(row["stated"]), fraction(row["log_loss"])]
        for share, row in dev["rows"].items()
    ]
    return [
        "A moment of several segments is stated with the probability that one of them fits, by "
        "the dependence rho that the calibration gives for the hits of the query. Whether "
        "neighbours depend on each other more than other hits, so that a share of rho should "
        f"count, was asked on {dev['moments']} such moments of dev photographs, of which "
        f"{fraction(dev['true'])} fit; shipped is all of it.",
        figures.table(["share", "stated", "log loss"], rows),
        earlier(kept.get("before")),
    ]


def earlier(before: Document | None) -> str:
    """The test videos were measured with an earlier rule of dependence, too."""
    if before is None or "joined" not in before["names"]:
        return ""
    row = before["names"]["joined"]
    return (
        "With an earlier rule, between the largest probability and the sum, moments of "
        f"several shots were stated with {fraction(row['stated'], 2)} for names where "
        f"{fraction(row['true'], 2)} of {row['hits']} fit, and the calibration error of "
        f"captions, names and phrases was "
        f"{', '.join(fraction(before[kind]['ece']) for kind in KINDS)}."
    )


def lines(kept: Document) -> str:
    """The line from stated to true log-odds that pictures and moments would get."""
    rows = []
    for split in ("dev", "test"):
        for key in ("pictures", "moments"):
            line = kept[split]["lines"][key]
            rows.append([
                f"{key}, {split} photographs", number(line["slope"], 2),
                number(line["offset"], 2), fraction(line["ece_before"]),
                fraction(line["ece_after"]),
            ])  # fmt: skip
    head = ["", "slope", "offset", "calibration error", "after the line"]
    return "\n\n".join([
        "One line from stated to true log-odds, fitted on the hits of each, tells whether "
        "moments need another correction than pictures. Both need nearly the same one, so it "
        "is no matter of videos, and none is shipped for moments.",
        figures.table(head, rows),
    ])  # fmt: skip


def filmed() -> list[str]:
    if not figures.exists(REAL):
        return []
    row = figures.load(REAL)
    ways = [
        [label, *(number(row["ways"][key][name], 1) for name in ("iou_0.5", "iou_0.3", "near"))]
        for key, label in WAYS.items()
    ]
    found = row["trust"]
    ratio = row["ways"]["moments"]["iou_0.5"] / row["ways"]["window"]["iou_0.5"]
    return [
        "## Filmed clips",
        f"{row['clips']} filmed clips of {row['sources']} public sources, "
        f"{number(row['seconds'] / 60)} minutes, each once, strung together to {row['videos']} "
        f"videos. {row['queries']} queries with their times, and {found['absent']} of what no "
        "clip shows, were written down by looking at the clips before anything was searched; "
        "nothing was fitted or chosen on them. R@1 in percent: the first answer overlaps a "
        "true moment by a half, or three tenths; or its middle lies in one, or two seconds "
        "beside it.",
        figures.table(["", "overlap half", "three tenths", "near"], ways),
        f"With an overlap of a half, the search finds it {number(ratio, 2)} times as often as "
        "the nearest frame with a window. First answers are stated to fit with "
        f"{fraction(found['first_stated'], 2)} on average, and "
        f"{fraction(found['first_true'], 2)} do (AUROC {fraction(found['first_auroc'])}); of "
        f"{found['hits']} hits {fraction(found['hits_stated'], 2)} and "
        f"{fraction(found['hits_true'], 2)}. "
        f"{found['answered_right']} of the {found['answered']} answers that needed no check "
        f"are right. {found['present_refused']} of {row['queries']} queries are refused, "
        f"{found['right_refused']} of them with the right moment first. Of what is not there "
        f"{found['absent_refused']} of {found['absent']} are refused; by a cut on similarity "
        f"that refuses as many present ones, {found['absent_refused_by_cut']}. Filmed clips "
        "are unlike the photographs that the policy was fitted on: less is stated of them than "
        "is true. `avow calibrate` fits the policy to your own.",
    ]


def cases() -> list[str]:
    if not figures.exists(CASES):
        return []
    listed, kills = figures.load(CASES)["cases"], figures.load(KILLS)
    rows = [
        [row["case"], row["does"], f"{row['tests'] - row['failed']} of {row['tests']}"]
        for row in listed
    ]
    failing = sum(bool(row["failed"]) for row in listed)
    return [
        "## Difficult files",
        f"Every case by name; {failing} of {len(listed)} fail.",
        figures.table(["case", "what happens", "tests that pass"], rows),
        f"`avow index` was killed {kills['kills']} times at random while it read "
        f"{kills['files']} files, {kills['videos']} of them videos, which were added, changed, "
        f"moved and deleted in between: {kills['lost']} were lost and {kills['doubled']} "
        f"doubled, and {kills['wrong']} vectors are not those of an index made in one go.",
    ]
