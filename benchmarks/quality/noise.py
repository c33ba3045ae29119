"""Train recipes on data with more and more wrong pairs, and see how much each loses.

    python -m benchmarks.quality.noise --features DIR --jobs 3
    python -m benchmarks.quality.noise --features DIR --noise 0.4 --seeds 0 \
        --recipes flickr8k/vse_infty_tcl_decl flickr8k/vse_infty_tcl_decl+loss.round=true

A recipe may carry changes after plus signs, and is then a row of its own; NOISE in them
stands for the rate in percent (`flickr8k/vse_infty_tcl+train.trust=audits/NOISE`, after
`avow audit flickr8k --recipe audit/strangers --folds 2 --set noise.ratio=0.4 --set
noise.by=image --set noise.kind=permutation --out audits/40`). Every run trains on the same
wrong pairs as the others of its rate (`--by`, `--kind`, noise seed 0); dev and test stay as
they are. What is done is not run again, so the command can be stopped and repeated, with more
rates, seeds or recipes if wanted.
Prints rSum of every view and of their average, and what is lost against no noise.
"""

from typing import Any

from benchmarks._report import keep
from benchmarks._runs import Row, Task, joined, parser_of, spread, train_all

LOSSES = ("hinge", "ncr", "decl", "tcl", "tcl_decl", "strangers")
RECIPES = [f"flickr8k/vse_infty_{loss}" for loss in LOSSES]


def main() -> None:
    parser = parser_of(__doc__, "runs/noise")
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.2, 0.4, 0.6, 0.8])
    parser.add_argument("--by", default="image", choices=["image", "caption"])
    parser.add_argument("--kind", default="permutation", choices=["permutation", "derangement"])
    parser.add_argument("--name", default="noise", help="of the results file")
    chosen = parser.parse_args()
    tasks = [
        Task(recipe, seed, noise)
        for seed in chosen.seeds
        for noise in chosen.noise
        for recipe in chosen.recipes
    ]
    done = joined(train_all(tasks, chosen), chosen.name)
    summary = summarise(done)
    about = {"by": chosen.by, "kind": chosen.kind, "changes": chosen.changes}
    path = keep(chosen.name, {"about": about, "summary": summary, "runs": done})
    print(table(summary))
    print(f"{len(done)} runs -> {path}")


def summarise(runs: list[Row]) -> dict[str, dict[str, Any]]:
    """Per recipe and rate: mean and spread over seeds of every view and of their average."""
    out: dict[str, dict[str, Any]] = {}
    for recipe in dict.fromkeys(run["recipe"] for run in runs):
        own = [run for run in runs if run["recipe"] == recipe]
        rates = sorted({run["noise"] for run in own})
        cells = {f"{rate:g}": cell([r for r in own if r["noise"] == rate]) for rate in rates}
        if "0" in cells:
            clean = cells["0"]["best"]["rsum"]
            for found in cells.values():
                found["lost"] = round(clean - found["best"]["rsum"], 2)
        out[recipe] = cells
    return out


def cell(runs: list[Row]) -> dict[str, Any]:
    views = [row["name"] for row in runs[0]["rows"]]
    found = {
        name: spread([run["rows"][place]["rsum"] for run in runs])
        for place, name in enumerate(views)
    }
    seeds = [run["seed"] for run in runs]
    return {"seeds": seeds, "views": found, "best": found[views[-1]]}


def table(summary: dict[str, dict[str, Any]]) -> str:
    """Markdown: a row per recipe and view, a column per rate, and what the last view lost."""
    rates = sorted({rate for cells in summary.values() for rate in cells}, key=float)
    lines = ["| recipe | view | " + " | ".join(f"{float(r):.0%}" for r in rates) + " |"]
    lines.append("| --- | --- |" + " ---: |" * len(rates))
    for recipe, cells in summary.items():
        views = next(iter(cells.values()))["views"]
        for name in views:
            shown = [_shown(cells.get(rate, {}).get("views", {}).get(name)) for rate in rates]
            lines.append(f"| {recipe} | {name} | " + " | ".join(shown) + " |")
        if any("lost" in found for found in cells.values()):
            lost = [_number(cells.get(rate, {}).get("lost")) for rate in rates]
            lines.append(f"| {recipe} | lost | " + " | ".join(lost) + " |")
    return "\n".join(lines)


def _shown(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    return f"{found['rsum']:.1f}" + (f" ± {found['spread']:.1f}" if found["spread"] else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


if __name__ == "__main__":
    main()
