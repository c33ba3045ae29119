"""Read the files of results, and write their figures the same way on every page."""

import json
import statistics
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks._code_age import code_of

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RECIPES = ROOT / "avow" / "recipes"
WRITTEN = "<!-- Written by scripts/docs from benchmarks/results. Do not edit. -->"

Document = dict[str, Any]


@cache
def load(name: str) -> Document:
    """The file of results called `name`, without its ending."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def exists(name: str) -> bool:
    """Whether something was run for the file of results called `name`."""
    return (RESULTS / f"{name}.json").is_file()


def afterwards(name: str, recipe: str, step: str) -> list[Document]:
    """What a step after training found, of every seed of a recipe for which it was run."""
    if not exists(name):
        return []
    return [
        run["afterwards"][step]
        for run in load(name)["runs"]
        if run["recipe"] == recipe and step in run.get("afterwards", {})
    ]


@cache
def recipe(name: str) -> Document:
    return tomllib.loads((RECIPES / f"{name}.toml").read_text("utf-8"))


def epochs(name: str) -> int:
    return recipe(name)["train"]["epochs"]


def hardware(machine: Document) -> str:
    if machine["gpu"] == "none":
        return f"{machine['cores']} processor cores"
    return f"one {machine['gpu']} and {machine['cores']} processor cores"


def source(*names: str) -> str:
    """Where the figures above come from: file, hardware, versions and date."""
    lines = []
    for name in names:
        machine = load(name)["machine"]
        lines.append(
            f"- `benchmarks/results/{name}.json`: {hardware(machine)} "
            f"({machine['architecture']}), Python {machine['python']}, "
            f"torch {machine['torch']}, Avow {machine['avow']}, {machine['date']}."
        )
        if aged := age(load(name).get("runs", [])):
            lines.append(f"  {aged}")
        if note := load(name).get("note"):
            lines.append(f"  Recorded with it: {note}")
    return "\n".join(["Sources:", "", *lines])


def age(runs: Any) -> str:
    """Which commits trained the runs of a file, and how many are older than the code is."""
    known = [run for run in runs if isinstance(run, dict) and run.get("commit")]
    if not known:
        return ""
    commits = Counter(run["commit"] for run in known)
    listed = ", ".join(f"{commit} ({count})" for commit, count in commits.most_common())
    told = f"Runs by commit: {listed}."
    # an average is as old as its parts, which are runs of their own
    dated = [run for run in known if run.get("code") and not run.get("together")]
    older = [run for run in dated if run["code"] != code_of(run["recipe"])]
    if older:
        names = sorted({run["recipe"] for run in older})
        told += (
            f" Older than the code they depend on: {len(older)} of {len(dated)} runs "
            f"({', '.join(f'`{name}`' for name in names)})."
        )
    return told


def command(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines
    )


def page(title: str, *parts: str) -> str:
    return "\n\n".join([WRITTEN, f"# {title}", *parts]) + "\n"


def number(value: float, digits: int = 0) -> str:
    """Round half up, so that 34.5 becomes 35 and not 34."""
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, ROUND_HALF_UP):,}"


def several(values: Sequence[float], digits: int = 1) -> str:
    """The mean of one value per seed, with the standard deviation where there are several."""
    mean = number(statistics.fmean(values), digits)
    if len(values) < 2:
        return mean
    return f"{mean} ± {number(statistics.stdev(values), digits)}"


def fraction(value: float, digits: int = 3) -> str:
    """A number between zero and one without its leading zero."""
    text = number(value, digits)
    return text.removeprefix("0") if text.startswith("0.") else text


def several_fractions(values: Sequence[float], digits: int = 3) -> str:
    """The same for numbers between zero and one."""
    mean = fraction(statistics.fmean(values), digits)
    return mean if len(values) < 2 else f"{mean} ± {fraction(statistics.stdev(values), digits)}"


def mean_fraction(figure: Document, digits: int = 3) -> str:
    """A recorded `mean` and `spread`, where the spread may be missing."""
    mean = fraction(figure["mean"], digits)
    spread = figure.get("spread")
    return mean if spread is None else f"{mean} ± {fraction(spread, digits)}"


def percent(value: float, digits: int = 0) -> str:
    return f"{number(100 * value, digits)} %"


def seeds(values: Iterable[int]) -> str:
    listed = [str(value) for value in values]
    return f"seed {listed[0]}" if len(listed) == 1 else f"seeds {', '.join(listed)}"


def bold_largest(rows: list[list[str]], values: list[list[float | None]]) -> None:
    """Set the largest of every column in bold; `values` has no entry for the first cells."""
    for column in range(len(values[0])):
        present = [row[column] for row in values if row[column] is not None]
        if not present:
            continue
        largest = max(value for value in present if value is not None)
        for cells, numbers in zip(rows, values, strict=True):
            if numbers[column] == largest:
                cells[column + 1] = f"**{cells[column + 1]}**"
