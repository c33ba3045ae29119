"""The page on words: what is understood, and what a search leaves out."""

from avow.retrieval.understanding import UNLEARNT
from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE, NEGATION = "understanding", "negation"


def render() -> str:
    kept, left = figures.load(FILE)["test"], figures.load(NEGATION)
    return figures.page(
        "Results: is the query understood?",
        "Queries made by script from words of the test splits; what is said of them was "
        "settled on words of the dev splits. A query that is not understood gets that verdict, "
        "and is never reported as an absence.",
        "## Good queries that are called not understood",
        figures.table(
            ["queries", "how many", "called not understood"],
            [
                [name, f"{row['queries']:,}", percent(row["not_understood"], 2)]
                for name, row in kept["good"].items()
            ],
        ),
        "## What is told apart from an absence",
        figures.table(
            ["queries", "how many", "told apart", "suggestion or language right"],
            [*_group(kept, "typing errors"), *_group(kept, "other languages"),
             *_group(kept, "nonsense")],
        ),
        "A dropped letter sometimes gives another known word; such cases are "
        "not counted. A single word of another language may be an English word as well.",
        "## A model that you trained",
        "A run whose text network has one vector for each word of its train captions reads no "
        "other word, and a run whose words are mostly English reads nothing else. Both are "
        "told of as above; a word of English that it never learnt counts "
        f"{fraction(UNLEARNT, 1)} of a misspelt one. The same queries for the words of two "
        "datasets:",
        runs(kept["a run"]),
        "## Without something",
        negation(left),
        figures.command(
            "python -m benchmarks.quality.understanding --split test",
            "python -m benchmarks.quality.negation",
        ),
        figures.source(FILE, NEGATION),
    )  # fmt: skip


def runs(rows: Document) -> str:
    head = ["words of", "words", "captions not understood", "phrases", "typing errors told",
            "names with a word it never learnt", "told"]  # fmt: skip
    lines = []
    for name, row in rows.items():
        never = row["names with a word it never learnt"]
        good = [
            percent(row["good"][kind]["not_understood"], 1) for kind in ("captions", "phrases")
        ]
        errors = percent(_mean(list(row["typing errors"].values()), "told_apart"), 1)
        told = percent(never["told_apart"], 0)
        words = f"{row['vocabulary']:,}"
        lines.append([name, words, *good, errors, str(never["queries"]), told])
    return figures.table(head, lines)


def _group(kept: Document, kind: str) -> list[list[str]]:
    """One row per way in which queries were made, whatever they were made from."""
    ways: dict[str, list[Document]] = {}
    for name, row in kept[kind].items():
        ways.setdefault(name.partition(" in ")[0], []).append(row)
    rows = []
    for way, found in ways.items():
        told = _mean(found, "told_apart")
        key = next((key for key in _RIGHT if key in found[0]), None)
        right = "" if key is None else percent(_mean(found, key), 1)
        count = sum(row["queries"] for row in found)
        rows.append([f"{kind}: {way}", f"{count:,}", percent(told, 1), right])
    return rows


_RIGHT = ("first_suggestion_right", "named_right")


def _mean(rows: list[Document], key: str) -> float:
    """Over all queries of the rows."""
    return sum(row[key] * row["queries"] for row in rows) / sum(row["queries"] for row in rows)


def negation(left: Document) -> str:
    plain, tried = left["plain"], left["trial"]
    weights, product = tried["weights"], tried["product"]
    ratio, knowing, most = left["left_out"] / plain, left["knowing"] / plain, 1 / plain
    return (
        f'{left["queries"]} queries such as "a bed without a chair", over pairs of objects '
        f"that are often in one photograph of COCO dev. Of the first five hits hold the one "
        f"and not the other: {fraction(left['left_out'], 2)} where the search reads the "
        f"negation, {fraction(plain, 2)} where the same words are searched as they "
        f"stand, {number(ratio, 1)} times as many. Three times as many were wanted. A search "
        f"that knew which of its best hits show what is to be left out would reach "
        f"{fraction(left['knowing'], 2)}, {number(knowing, 1)} times as many, and "
        f"{number(most, 1)} times would be all of them. Answered while all five show what was "
        f"to be left out: {left['answered_wrong']}.\n\n"
        f"A search multiplies the probabilities of both. Weights for their log-odds, fitted on "
        f"{tried['fitted_on']} of the queries, reach {fraction(weights['precision'], 3)} on "
        f"the other {tried['queries']}, stated as {fraction(weights['stated'], 3)}; the "
        f"product {fraction(product['precision'], 3)}, stated as "
        f"{fraction(product['stated'], 3)}. The product stays."
    )
