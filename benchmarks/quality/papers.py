"""Train what one item of a paper needs: a table or a figure, several runs side by side.

    python -m benchmarks.quality.papers                              the items that there are
    python -m benchmarks.quality.papers tcl "Table IV" --features DIR --jobs 6 --keep-going 500

Which recipes an item needs is listed in `benchmarks/published/items.json`. What is done is
not run again, so that the command can be stopped and repeated; the results are added to the
file that the item names, and `scripts/docs` renders the pages of the papers from it.
"""

import json
from typing import Any

from benchmarks._report import RESULTS
from benchmarks._runs import parser_of
from benchmarks.quality import recipes

ITEMS = RESULTS.with_name("published") / "items.json"


def main() -> None:
    items: dict[str, dict[str, Any]] = json.loads(ITEMS.read_text("utf-8"))
    parser = parser_of(__doc__, "runs")
    parser.add_argument("paper", nargs="?", choices=list(items))
    parser.add_argument("item", nargs="?")
    chosen = parser.parse_args()
    known = items.get(chosen.paper or "", {})
    if chosen.item not in known:
        if chosen.item:
            print(f"There is no {chosen.item!r}. Expected one of these:")
        for paper in [chosen.paper] if chosen.paper else items:
            for name, item in items[paper].items():
                print(f"{paper} {name!r}: {item['what']} ({len(item['recipes'])} recipes)")
        raise SystemExit(2 if chosen.item else 0)
    item = known[chosen.item]
    recipes.run(item["file"], item["recipes"], chosen)


if __name__ == "__main__":
    main()
