"""The page that says whether explanations hold."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

CELLS, WORDS = "explain", "explain_words"


def render() -> str:
    kept, words = figures.load(CELLS), figures.load(WORDS)
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
        table(kept, words),
        "± is the standard error of the difference to one by one, over the pairs. Function "
        "words have no weight, so that Avow and random choose among the others; one by one "
        "chooses among all words. Leaving out words is what both ways measure themselves: Avow "
        "two at a time, one by one each alone, and neither three. The last column counts pairs "
        "in which it falls further; where both choose the same, it does not.",
        figures.command(kept["command"], words["command"]),
        figures.source(CELLS, WORDS),
    )


def _away(cells: Document) -> dict[str, int]:
    """How many cells each row is without; earlier files name them one by one."""
    return cells.get("away") or {"few_cells": cells["few"], "many_cells": cells["many"]}


def table(cells: Document, words: Document) -> str:
    rows = [(f"{away} of 36 cells", cells[key]) for key, away in _away(cells).items()]
    rows += [(f"{away} words", words[key]) for key, away in words["away"].items()]
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
