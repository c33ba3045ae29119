"""What the model that ships is like when it is trained with other seeds."""

from benchmarks.pages import figures

FILE = "default_seeds"
COMMANDS = ("python -m benchmarks.quality.default_seeds CLONE CLONE",)


def section() -> list[str]:
    kept = figures.load(FILE)
    seeds = [f"seed {one['seed']}" for one in kept["seeds"]]
    lines = [
        [
            row["what"],
            *(_told(row["what"], value) for value in row["values"]),
            f"{_told(row['what'], row['mean'])} ± {_told(row['what'], row['spread'])}",
        ]
        for row in kept["rows"]
    ]
    return [
        "## Other seeds",
        f"The model that ships is the one of {seeds[0]}. The same recipe with other seeds, both "
        "stages, and the trust of each fitted likewise on dev; every figure is of test "
        "photographs. The others learnt from other copies of the photographs of Flickr8k and "
        "ImageNet ([notes](../notes/shipped-model.md)). Mean ± standard deviation.",
        figures.table(["", *seeds, "mean"], lines),
    ]


def _told(what: str, value: float) -> str:
    """Percentages with one digit behind the point, ratios with two, what is below 1 with three."""
    digits = 1 if "%" in what or "R@1" in what else 2 if "×" in what else 3
    return figures.number(value, digits)
