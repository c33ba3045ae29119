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
            *(figures.number(value, row["digits"]) for value in row["values"]),
            told(row["what"]),
        ]
        for row in kept["rows"]
    ]
    return [
        "## Other seeds",
        f"The model that ships is the one of {seeds[0]}. The same recipe with other seeds, "
        "both stages, and the trust of each fitted likewise on dev; every figure is of test "
        "photographs. The others learnt from other copies of the photographs of Flickr8k and "
        "ImageNet ([notes](../notes/shipped-model.md)), and have no part for large galleries, "
        "which judges both datasets together for the shipped one. Mean ± standard deviation.",
        figures.table(["", *seeds, "mean"], lines),
    ]


def told(what: str) -> str:
    """Mean and standard deviation of one figure."""
    row = next(row for row in figures.load(FILE)["rows"] if row["what"] == what)
    return " ± ".join(figures.number(row[key], row["digits"]) for key in ("mean", "spread"))
