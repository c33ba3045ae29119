"""What a paper printed beside what was found here, and the verdict that follows.

What a paper printed is in `benchmarks/published/*.json`: its tables, and which file and test
meets each of its equations. A verdict is computed: it compares the signs of two differences,
and ours with the spread of its seeds. None is drawn from runs that were trained unequally.
"""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from avow.assembly.recipe import Recipe
from benchmarks.pages import figures
from benchmarks.pages.figures import Document, number

PUBLISHED = figures.ROOT / "benchmarks" / "published"
FEWEST = 3
"""Seeds on both sides, without which a verdict says how many there are."""
EQUAL = ("epochs", "batch", "pool", "lr", "decay_after", "optimiser", "precision")
"""Settings of training that two runs share where a verdict is drawn from them."""
SETTING = (
    "Flickr8k with features of grid cells here, Flickr30K with features of regions there: "
    "levels cannot be compared, differences can."
)
VERDICT = (
    "A verdict compares the sign of a difference there and here. It is undecided where ours is "
    "within two standard errors of its seeds; fewer than three seeds, and unequal epochs or "
    "batches, are told."
)
ONE_SEED = (
    "One seed has no spread of its own: a difference is then undecided where it is within "
    "{0}, twice what two seeds of one recipe usually differ by here."
)


@cache
def published(paper: str) -> Document:
    return json.loads((PUBLISHED / f"{paper}.json").read_text("utf-8"))


@dataclass(frozen=True)
class Comparison:
    """The same difference in a paper and here; ours with all seeds of both sides."""

    claim: str
    theirs: float
    better: list[float] | None
    worse: list[float] | None
    unequal: bool = False
    """Whether both sides were trained for other numbers of epochs, or in other batches."""
    usual: float | None = None
    """The standard deviation of other recipes' seeds, for a side that has one seed."""
    barred: str = ""
    """Why no verdict is drawn from these runs; empty where one is."""
    otherwise: str = "not run here yet"
    """What is said where a side was not run: how to run it, or why it cannot be."""
    unit: str = field(default="rSum", compare=False)
    printed: str = field(default="", compare=False)
    """What stands for the paper's figure where it drew one and printed none."""
    digits: int = field(default=1, compare=False)

    @property
    def ours(self) -> float | None:
        if not self.better or not self.worse:
            return None
        return statistics.fmean(self.better) - statistics.fmean(self.worse)

    @property
    def spread(self) -> float | None:
        """The standard error of our difference; None where nothing is known of it.

        Where both sides have the same seeds, of the differences seed by seed; where a side
        has one seed, from the `usual` deviation.
        """
        sides = (self.better or [], self.worse or [])
        fewest = min(map(len, sides))
        if fewest < 2:
            if self.usual is None or not fewest:
                return None
            return self.usual * math.sqrt(sum(1 / len(side) for side in sides))
        if len(sides[0]) == len(sides[1]):
            differences = [one - other for one, other in zip(*sides, strict=True)]
            return statistics.stdev(differences) / math.sqrt(len(differences))
        return math.sqrt(sum(statistics.variance(side) / len(side) for side in sides))

    @property
    def verdict(self) -> str:
        if self.ours is None:
            return self.otherwise
        if self.barred:
            return f"no verdict: {self.barred}"
        fewest = min(len(self.better or []), len(self.worse or []))
        doubts = [] if fewest >= FEWEST else [f"{fewest} seed{'s' if fewest > 1 else ''}"]
        doubts += ["unequal training"] if self.unequal else []
        few = f" ({', '.join(doubts)})" if doubts else ""
        if self.spread is not None and abs(self.ours) <= 2 * self.spread:
            return f"undecided: within the spread{few}"
        return f"{'agrees' if self.ours * self.theirs > 0 else 'disagrees'}{few}"

    @property
    def told(self) -> str:
        if self.ours is None:
            return ""
        spread = None if self.spread is None else number(2 * self.spread, self.digits)
        around = "" if spread is None else f" ± {spread}"
        return f"{signed(self.ours, self.digits)}{around}"

    @property
    def told_there(self) -> str:
        return self.printed or signed(self.theirs, self.digits)


def signed(value: float, digits: int = 1) -> str:
    return f"{'+' if value >= 0 else '-'}{number(abs(value), digits)}"


def claims_table(comparisons: Sequence[Comparison]) -> str:
    unit = comparisons[0].unit
    rows = [[one.claim, one.told_there, one.told, one.verdict] for one in comparisons]
    return figures.table(["claim", f"paper: {unit}", f"here: {unit}", "verdict"], rows)


def usual_deviation(*files: str) -> float:
    """How far seeds of one recipe are apart, over all recipes of some files with several."""
    variances = [
        statistics.variance(row["values"])
        for name in files
        for entry in figures.load(name)["summary"].values()
        for row in entry.values()
        if isinstance(row, dict) and len(row.get("values", [])) >= FEWEST
    ]
    return math.sqrt(statistics.fmean(variances))


def one_seed(usual: float) -> str:
    return ONE_SEED.format(number(2 * math.sqrt(2) * usual, 1))


def unequal_training(one: str, other: str) -> str:
    """What two recipes, with their changes after plus signs, do not share; empty: nothing."""
    first, second = (Recipe.open(*split_changes(name)).train for name in (one, other))
    listed = [
        f"{name} ({getattr(first, name)} and {getattr(second, name)})"
        for name in EQUAL
        if getattr(first, name) != getattr(second, name)
    ]
    return f"unequal {', '.join(listed)}" if listed else ""


def split_changes(name: str) -> tuple[str, list[str]]:
    recipe, *changes = name.split("+")
    return recipe, changes


def equations_table(paper: str) -> str:
    """Every equation of a paper, the file that has it, and the tests that meet it."""
    rows = [
        [
            one["no"],
            one["what"],
            f"`{one['where']}`" if one["where"] else "",
            "<br>".join(f"`{test}`" for test in one["shown"]) or one.get("why", ""),
        ]
        for one in published(paper)["equations"]
    ]
    return figures.table(["equation", "what", "where", "shown by"], rows)


def to_run(paper: str, item: str) -> str:
    """The command that trains what an item needs."""
    asked = published("items")[paper][item]
    if "only" in asked:
        return f"python -m benchmarks.quality.paper_queue --only {asked['only']} --features DIR"
    return f'python -m benchmarks.quality.papers {paper} "{item}" --features DIR'


def not_yet(paper: str, item: str) -> str:
    return f"not run here yet: `{to_run(paper, item)}`"


def rsums(recipe: str, view: str, *files: str) -> list[float] | None:
    """rSum of every seed of a recipe, from the file that has most of them; None: not run."""
    known = [
        entry[view]["values"]
        for name in files
        if figures.exists(name)
        and (entry := figures.load(name)["summary"].get(recipe))
        and view in entry
    ]
    return max(known, key=len) if known else None


def told(values: list[float] | None) -> str:
    """Mean and deviation with the number of seeds; empty where nothing was run."""
    return f"{figures.several(values)} ({len(values)})" if values else ""
