"""The pictures of a trust study: one function is one picture of one direction.

    reliability   what is stated against what comes true, with the band of a perfect forecaster
    rejection     recall of the most trusted share of the queries, every measure in one picture
    corruption    how u moves when words or regions are hidden
    scatter       the two doubts of MC-dropout against each other
    sizes         calibration and mean u in galleries of many sizes

Every one takes the studies of one or more seeds, and gives nothing where they lack the part
it draws. Means are lines, the spread over seeds is a band or a bar.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import binom, rankdata

from avow.reports.drawing import (
    ACCENT,
    ACCENT_PALE,
    ACCENT_SOFT,
    FAINT,
    INK,
    MUTED,
    PAPER,
    Axes,
    Drawing,
    draw,
)
from avow.reports.seeds import Seeds, plain, value
from avow.reports.words import DIRECTIONS, KINDS, OURS, percent, rivals

MOST_POINTS = 1200
"""Points of a scatter that are drawn; more are thinned out at random."""
FIRST_DRAWN = 0.02
"""Share of the queries from which a rejection curve is drawn; fewer say too little."""
_TAIL = 0.002  # of a distribution may lie outside its picture


def draw_all(studies: Sequence[dict[str, Any]]) -> dict[str, Drawing]:
    """Every picture the studies have something for, by name."""
    study = Seeds.of(studies)
    found = {}
    for direction in DIRECTIONS:
        part = study.at("directions", direction)
        for drawing in _of_direction(part, direction):
            found[drawing.name] = drawing
    return found


def _of_direction(part: Seeds, direction: str) -> Iterator[Drawing]:
    if rows := part.at("calibration", "reliability"):
        yield reliability(rows, direction)
    for cut in ("r1", "r10"):
        if any(part.at("curves", name, cut) for name in part.at("curves").names):
            yield rejection(part, direction, cut)
    if kinds := part.at("corruption", "kinds"):
        yield corruption(kinds, direction)
    if points := part.at("scatter"):
        yield scatter(points.first, direction)
    if sizes := part.at("sizes"):
        yield gallery_sizes(sizes, direction)


# --- does it come true ----------------------------------------------------------------


def reliability(rows: Seeds, direction: str) -> Drawing:
    """Stated against observed, per bin; the band holds 95 % of a perfect forecaster's."""
    bins = _bins(rows)
    stated, observed, count = bins.mean(0).T
    spread = bins[:, :, 1].std(0, ddof=1) if len(bins) > 1 else np.zeros(len(stated))
    worst = int(np.abs(stated - observed).argmax())
    low, high = perfect_band(stated, count)
    inside = int(((low <= observed) & (observed <= high)).sum())
    alt = (
        f"Reliability diagram, {DIRECTIONS[direction]}: {inside} of {len(stated)} bins lie "
        "within the band of a perfectly calibrated predictor. The largest gap is where "
        f"{percent(stated[worst])} is stated and {percent(observed[worst])} comes true."
    )

    def paint(axes: list[Axes]) -> None:
        (plot,) = axes
        plot.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
        band = {"color": ACCENT_PALE, "linewidth": 0, "label": "perfectly calibrated, 95 %"}
        plot.fill_between(stated, low, high, **band)
        plot.errorbar(
            stated,
            observed,
            spread if len(bins) > 1 else None,
            color=ACCENT,
            marker="o",
            markersize=5,
            markeredgecolor=PAPER,
            markeredgewidth=0.8,
            elinewidth=1.2,
            label=OURS if len(bins) == 1 else f"{OURS}, mean of {len(bins)} seeds",
        )
        _percentages(plot.xaxis, plot.yaxis)
        plot.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        plot.set(xlabel="stated probability", ylabel="share that is right")
        plot.legend(loc="upper left")

    return draw(f"reliability-{direction}", alt, paint, height=4.3)


def _bins(rows: Seeds) -> Float[np.ndarray, "seeds bins 3"]:
    """Stated, observed and count per bin; seeds with another number of bins left out."""
    length = len(rows.first)
    return np.array([table for table in rows.found if len(table) == length], np.float64)


def perfect_band(
    stated: Float[np.ndarray, " bins"], count: Float[np.ndarray, " bins"], level: float = 0.95
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins"]]:
    """Between which shares a bin falls whose statements are exactly true."""
    rest = (1 - level) / 2
    size = np.maximum(count.round(), 1)
    return binom.ppf(rest, size, stated) / size, binom.ppf(1 - rest, size, stated) / size


# --- what is gained by rejecting ------------------------------------------------------


def rejection(part: Seeds, direction: str, cut: str) -> Drawing:
    """Recall of the most trusted share; ours, u and the softmax stand out."""
    curves = part.at("curves")
    named = {name: said.removeprefix("the ") for said, name in rivals(curves.names).items()}
    others = [name for name in curves.names if name != OURS and name not in named]
    chance = _chance(part, cut)
    recall = f"R@{cut.removeprefix('r')}"
    told = [
        f"{said} {plain(_at_half(curves, name, cut), 1)}"
        for name, said in {OURS: OURS, **named}.items()
        if curves.at(name, cut)
    ]
    alt = (
        f"Rejection curves of {recall}, {DIRECTIONS[direction]}. When the most trusted half "
        f"is answered: {', '.join(told)}; chance {plain(chance, 1)}."
    )

    def paint(axes: list[Axes]) -> None:
        (plot,) = axes
        for place, name in enumerate(others):
            label = f"{len(others)} other measures" if place == 0 else None
            _curve(plot, curves.at(name), cut, color=FAINT, linewidth=0.9, label=label)
        plot.axhline(chance, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), label="chance")
        for (name, said), dashes in zip(named.items(), [(0, (5, 2)), "-"], strict=False):
            style = {"color": INK, "linewidth": 1.3, "linestyle": dashes, "label": said}
            _curve(plot, curves.at(name), cut, **style)
        if OURS in curves.names:
            _spread_band(plot, curves.at(OURS), cut)
            _curve(plot, curves.at(OURS), cut, color=ACCENT, linewidth=2.6, label=OURS)
        plot.set(xlim=(0, 1), ylim=_room(curves, cut))
        plot.set(xlabel="share of queries answered, most trusted first", ylabel=f"{recall}, %")
        _percentages(plot.xaxis)
        handles, labels = plot.get_legend_handles_labels()
        plot.legend(handles[::-1], labels[::-1], loc="upper right")

    return draw(f"rejection-{recall.replace('@', '').lower()}-{direction}", alt, paint)


def _chance(part: Seeds, cut: str) -> float:
    """What rejecting at random gives: the end of every curve."""
    if known := part.at("chance", cut).number:
        return known.mean
    ends = [part.at("curves", name, cut) for name in part.at("curves").names]
    return float(np.mean([end.lines()[:, -1].mean() for end in ends if end]))


def _curve(plot: Axes, curve: Seeds, cut: str, **style: Any) -> None:
    if not curve.at(cut):
        return
    coverage, recall = curve.at("coverage").lines()[0], curve.at(cut).lines().mean(0)
    drawn = coverage >= FIRST_DRAWN
    plot.plot(coverage[drawn], recall[drawn], **style)


def _spread_band(plot: Axes, curve: Seeds, cut: str) -> None:
    lines = curve.at(cut).lines()
    if len(lines) > 1:
        middle, spread = lines.mean(0), lines.std(0, ddof=1)
        coverage = curve.at("coverage").lines()[0]
        low, high, drawn = middle - spread, middle + spread, coverage >= FIRST_DRAWN
        style = {"color": ACCENT_PALE, "linewidth": 0}
        plot.fill_between(coverage[drawn], low[drawn], high[drawn], **style)


def _at_half(curves: Seeds, name: str, cut: str) -> float:
    coverage = curves.at(name, "coverage").lines()[0]
    return float(np.interp(0.5, coverage, curves.at(name, cut).lines().mean(0)))


def _room(curves: Seeds, cut: str) -> tuple[float, float]:
    """Room for every curve, but not for the noise of the first few queries."""
    kept = []
    for name in curves.names:
        if lines := curves.at(name, cut):
            settled = curves.at(name, "coverage").lines()[0] >= 2 * FIRST_DRAWN
            kept.append(lines.lines().mean(0)[settled])
    values = np.concatenate(kept)
    margin = 0.06 * float(np.ptp(values)) + 0.5
    return max(0.0, float(values.min()) - margin), min(101.0, float(values.max()) + margin)


# --- what hiding does to u ------------------------------------------------------------


def corruption(kinds: Seeds, direction: str) -> Drawing:
    """The distribution of u per ratio hidden; one panel per kind of material."""
    shown = [kind for kind in KINDS if kinds.at(kind)]
    rows = {kind: kinds.at(kind).rows("ratio") for kind in shown}
    told = []
    for kind in shown:
        medians = [plain(_median(row), 3) for row in rows[kind]]
        told.append(f"{KINDS[kind]} {', '.join(medians)}")
    ratios = ", ".join(percent(row.at("ratio").number) for row in rows[shown[0]])
    alt = (
        f"Distributions of u, {DIRECTIONS[direction]}, with {ratios} hidden. "
        f"Medians: {'; '.join(told)}."
    )

    def paint(axes: list[Axes]) -> None:
        edges = _common_edges([row for kind in shown for row in rows[kind]])
        for plot, kind in zip(axes, shown, strict=True):
            for place, row in enumerate(rows[kind]):
                _distribution(plot, row, edges, place, len(rows[kind]))
            plot.set(yticks=[], title=KINDS[kind], ylim=(0, None))
            plot.spines["left"].set_visible(False)
            plot.tick_params(bottom=plot is axes[-1])
        axes[0].legend(loc="upper right")
        axes[-1].set(xlabel="u (triangles: medians)", xlim=(edges[0], edges[-1]))

    height = 0.9 + 1.5 * len(shown)
    return draw(f"corruption-{direction}", alt, paint, panels=len(shown), height=height)


def _distribution(plot: Axes, row: Seeds, edges: np.ndarray, place: int, of: int) -> None:
    colours = [MUTED, *[ACCENT_SOFT] * (of - 2), ACCENT]
    colour, shares = colours[place], _shares(row, edges)
    label = f"{percent(value(row.at('ratio').number))} hidden"
    if place == 0:
        plot.stairs(shares, edges, fill=True, color=FAINT, alpha=0.5)
    plot.stairs(shares, edges, baseline=None, color=colour, linewidth=1.7, label=label)
    plot.plot([_median(row)], [0], marker="^", markersize=6, color=colour, clip_on=False)


def _median(row: Seeds) -> float:
    quantiles = row.at("u", "quantiles").lines().mean(0)
    return float(quantiles[len(quantiles) // 2])


def _common_edges(rows: list[Seeds]) -> Float[np.ndarray, " edges"]:
    """Edges that show nearly all of every distribution, alike in all panels."""
    ends = []
    for row in rows:
        for histogram in row.at("u", "histogram").found:
            edges, below = _cumulative(histogram)
            ends.append(np.interp([_TAIL, 1 - _TAIL], below, edges))
    lows, highs = np.array(ends).T
    return np.linspace(lows.min(), highs.max(), 41)


def _shares(row: Seeds, edges: Float[np.ndarray, " edges"]) -> Float[np.ndarray, " bins"]:
    """Seeds may have bins of their own; their shares are moved to common ones."""
    moved = []
    for histogram in row.at("u", "histogram").found:
        own, below = _cumulative(histogram)
        moved.append(np.diff(np.interp(edges, own, below)))
    return np.mean(moved, axis=0)


def _cumulative(histogram: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    below = np.concatenate([[0.0], np.cumsum(np.asarray(histogram["counts"], float))])
    return np.asarray(histogram["edges"], float), below / max(below[-1], 1)


# --- two doubts, many galleries -------------------------------------------------------


def scatter(points: dict[str, Any], direction: str) -> Drawing:
    """Feature against posterior uncertainty; right answers are filled."""
    feature, posterior = (np.asarray(points[key], float) for key in ("feature", "posterior"))
    right = np.asarray(points.get("right", np.zeros(len(feature))), bool)
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(len(feature))[:MOST_POINTS])
    first, second = (rankdata(values) for values in (feature, posterior))
    relation = np.mean((first - first.mean()) * (second - second.mean()))
    relation = float(relation / max(first.std() * second.std(), 1e-12))
    alt = (
        f"Feature against posterior uncertainty, {DIRECTIONS[direction]}, {len(kept):,} of "
        f"{len(feature):,} queries. Rank correlation {plain(relation, 2)}."
    )

    def paint(axes: list[Axes]) -> None:
        (plot,) = axes
        for chosen, style, label in (
            (kept[~right[kept]], {"facecolors": "none", "edgecolors": MUTED}, "wrong"),
            (kept[right[kept]], {"color": ACCENT}, "first answer right"),
        ):
            place = posterior[chosen], feature[chosen]
            plot.scatter(*place, s=10, linewidths=0.7, alpha=0.7, label=label, **style)
        if _is_steep(posterior):
            threshold = float(np.quantile(posterior[posterior > 0], 0.1))
            plot.set_xscale("symlog", linthresh=threshold)
        plot.set(xlabel="posterior uncertainty", ylabel="feature uncertainty")
        _legend_above(plot)

    return draw(f"scatter-{direction}", alt, paint)


def _is_steep(values: np.ndarray) -> bool:
    """Whether most of the values would stick to the axis of an even scale."""
    return bool((values > 0).any() and values.max() > 30 * np.median(values))


def gallery_sizes(sizes: Seeds, direction: str) -> Drawing:
    """Above: calibration error and its floor. Below: mean u, mean trust, and the truth."""
    rows = sorted(sizes.rows("candidates"), key=lambda row: row.first["candidates"])
    count = [row.first["candidates"] for row in rows]
    error, floor, doubt, right, trust = (
        np.array([value(row.at(key).number) for row in rows])
        for key in ("ece", "floor", "mean_u", "r1", "mean_trust")
    )
    alt = (
        f"Galleries of {count[0]:,} to {count[-1]:,} candidates, {DIRECTIONS[direction]}: "
        f"calibration error {percent(np.nanmin(error), 1)} to {percent(np.nanmax(error), 1)}; "
        f"mean u goes from {plain(doubt[0], 3)} to {plain(doubt[-1], 3)} and R@1 from "
        f"{plain(right[0], 1)} to {plain(right[-1], 1)}."
    )

    def paint(axes: list[Axes]) -> None:
        above, below = axes
        above.fill_between(count, 0, floor, color=ACCENT_PALE, linewidth=0, label="floor")
        above.plot(count, error, color=ACCENT, marker="o", markersize=4, label="ECE")
        above.set(ylabel="calibration error", ylim=(0, 1.1 * np.nanmax([error, floor])))
        below.plot(count, 1 - right / 100, color=MUTED, linewidth=1.3, label="share wrong")
        below.plot(count, doubt, color=INK, linestyle=(0, (5, 2)), label="mean u")
        if not np.isnan(trust).all():
            style = {"color": ACCENT, "marker": "o", "markersize": 4}
            below.plot(count, 1 - trust, label="1 − mean trust", **style)  # noqa: RUF001
        below.set(ylabel="doubt", ylim=(0, 1.02))
        _gallery_axis(below, count)
        _percentages(above.yaxis, decimals=1)
        _percentages(below.yaxis)
        for plot in axes:
            _legend_above(plot)

    return draw(f"sizes-{direction}", alt, paint, panels=2, height=5.6)


def _legend_above(plot: Axes) -> None:
    """A legend that hides no points, in one line."""
    place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "borderaxespad": 0.2}
    plot.legend(ncols=3, columnspacing=1.2, handlelength=1.6, handletextpad=0.5, **place)


def _gallery_axis(plot: Axes, count: list[int]) -> None:
    plot.set_xscale("log")
    plot.set_xticks(count, [f"{size:,}" for size in count])
    plot.set_xticks([], minor=True)
    plot.set_xlabel("candidates in the gallery, K")


def _percentages(*axes: Axes, decimals: int = 0) -> None:
    from matplotlib.ticker import PercentFormatter

    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1.0, decimals, symbol=" %"))
