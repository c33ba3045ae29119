"""The page that says whether explanations hold."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

FILE = "explain"
ROWS = {"few_cells": "{few} of 36 cells", "many_cells": "{many} of 36 cells"}


def render() -> str:
    kept = figures.load(FILE)
    return figures.page(
        "Results: does an explanation hold?",
        "An explanation says which cells of a picture and which words of a query carry a "
        "match. It holds where the similarity falls without them. For pairs of Flickr8k "
        f"{kept['split']} that belong together, the default model explains the match; then "
        "the cells with the largest weights are blurred, which no way of explaining does "
        "itself, and the words with the largest weights are left out of the caption. One by "
        "one hides one part at a time and is what Avow did before; random "
        "takes parts by chance.",
        "## How far the similarity falls",
        table(kept),
        "± is the standard error of the difference to one by one, over the pairs. Function "
        "words have no weight, so that Avow and random choose among the others; one by one "
        "chooses among all words. Leaving out words is what both ways measure themselves: Avow "
        "two at a time, one by one each alone, and neither three.",
        figures.command(kept["command"]),
        figures.source(FILE),
    )


def table(kept: Document) -> str:
    rows = [(name.format(**kept), kept[key]) for key, name in ROWS.items()]
    rows += [(f"{away} words", kept[key]) for key, away in kept["words_away"].items()]
    return figures.table(
        ["taken away", "pairs", "Avow", "one by one", "ratio", "random", "ratio", "more in"],
        [
            [
                name,
                str(told["pairs"]),
                f"{fraction(told['avow'], 4)} ± {fraction(told['difference_error'], 4)}",
                fraction(told["one_by_one"], 4),
                f"x{number(told['ratio_one_by_one'], 2)}",
                fraction(told["random"], 4),
                f"x{number(told['ratio_random'], 2)}",
                percent(told["wins"]),
            ]
            for name, told in rows
        ],
    )
