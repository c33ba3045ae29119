"""Plots of the papers' figures: means of seeds with their spread, from what the tables show.

A plot is a file under docs/papers/pictures. It names the digest of its figures, and is drawn
again only when they change: files of two versions of matplotlib differ, the figures do not.
"""

import hashlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.pages import figures, tcl_figures

FOLDER = figures.ROOT / "docs" / "papers" / "pictures"
COLOURS = ("#0b6b75", "#b4552d", "#5ba4ab", "#d9a066")


@dataclass(frozen=True)
class Line:
    """One value of x is one mark: the mean of its seeds, with their standard deviation."""

    name: str
    x: tuple[float, ...]
    seeds: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Plot:
    name: str
    alt: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    logarithmic: bool = False

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.svg"

    @property
    def mark(self) -> str:
        """The first line of the file."""
        told = json.dumps(asdict(self), sort_keys=True).encode()
        return f"<!-- Written by scripts/docs: {hashlib.sha256(told).hexdigest()} -->"

    def text(self) -> str:
        """The file as it is, where it shows these figures; else drawn anew."""
        now = self.path.read_text("utf-8") if self.path.is_file() else ""
        if self.mark in now:
            return now
        from avow.reports.drawing import draw

        head, body = draw(self.name, self.alt, self.paint, height=3.2).svg.split("\n", 1)
        return f"{head}\n{self.mark}\n{body}"

    def paint(self, axes: list[Any]) -> None:
        (one,) = axes
        for line, colour in zip(self.lines, COLOURS, strict=False):
            means = [statistics.fmean(values) for values in line.seeds]
            apart = [statistics.stdev(v) if len(v) > 1 else 0 for v in line.seeds]
            one.errorbar(line.x, means, apart, label=line.name, color=colour, marker="o",
                         markersize=4, capsize=3)  # fmt: skip
        if self.logarithmic:
            one.set_xscale("log")
        ticks = sorted({x for line in self.lines for x in line.x})
        one.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        one.minorticks_off()
        one.set(xlabel=self.x_label, ylabel=self.y_label)
        if len(self.lines) > 1:
            one.figure.legend(loc="outside upper center", ncols=2)

    def shown(self) -> str:
        return f"![{self.alt}](pictures/{self.path.name})"


def line(name: str, points: Sequence[tuple[float, Sequence[float] | None]]) -> Line:
    """Without the places where nothing was run."""
    known = [(x, tuple(seeds)) for x, seeds in points if seeds]
    return Line(name, tuple(x for x, _ in known), tuple(seeds for _, seeds in known))


def steps(of: tcl_figures.Sweep) -> Plot:
    points = [(step, of.swept(steps=step)) for step in of.steps()]
    alt = "rSum of both views against the number of agreement steps"
    lines = (line("", points),)
    return Plot(f"{of.name()}-steps", alt, "agreement steps a batch, T", "rSum", lines)


def temperatures(of: tcl_figures.Sweep) -> Plot:
    points = [(float(tau), of.swept(tau=tau)) for tau in of.taus()]
    alt = "rSum of both views against the temperature of the evidence"
    return Plot(f"{of.name()}-tau", alt, "τ", "rSum", (line("", points),), logarithmic=True)


def corruption(query: str) -> Plot:
    """u against the share of the input hidden, among few candidates and among all."""
    lines = []
    for name, seeds in tcl_figures.studies().items():
        few = min(seeds[0]["directions"]["text"]["kinds"]["both"][0]["u among K"], key=int)
        for size, told in ((few, f"K of {few}"), ("", "K of all")):
            points = [
                (ratio, tcl_figures.u_of(seeds, query, ratio, size))
                for ratio in seeds[0]["ratios"]
            ]
            lines.append(line(f"{name}, {told}", points))
    asked = tcl_figures.ASKED[query]
    alt = f"Mean u of {asked} against the share of words and regions hidden"
    hidden = "share of words and regions hidden"
    return Plot(f"tcl-fig5-{query}", alt, hidden, "mean u", tuple(lines))


def every() -> list[Plot]:
    sweeps = (tcl_figures.OF_TCL, tcl_figures.OF_TCVSE)
    return [
        *(draw(of) for of in sweeps for draw in (steps, temperatures)),
        *(corruption(query) for query in tcl_figures.ASKED),
    ]
