"""The shipped model trained again with other seeds: the figures of its pages, seed by seed.

    python -m benchmarks.quality.default_seeds CLONE ...

CLONE is a copy of the repository whose `avow/weights/default` holds a model of another seed,
and where the benchmarks of `figures` were run. For a run RUN of the recipe
`default/photographs`, both stages with `--seed N`, inside of it:

    cp RUN/best-*/* avow/weights/default && scripts/export_default avow/weights/default
    avow index FEW --index INDEX
    scripts/default_trust avow/weights/default --bank --only text --imagenet DIR --index INDEX
    python -m benchmarks.quality.default_model      and the others

FEW are the 10,000 photographs of `Side.few`. What each seed found is read from the results of
its clone, that of the shipped one from those here.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, keep
from benchmarks.pages.people import GALLERIES

NAME = "default_seeds"
Document = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One number of a file of results."""

    what: str
    file: str
    read: Callable[[Document], float]
    digits: int = 3
    """Behind the point, where it is told."""


def at(*keys: str | int, times: float = 1) -> Callable[[Document], float]:
    """What lies under these keys, multiplied."""

    def read(content: Any) -> float:
        for key in keys:
            content = content[key]
        return times * content

    return read


def best_cut(gallery: str) -> Callable[[Document], float]:
    """The largest share of absent names that a cut on a single score refuses."""

    def read(file: Document) -> float:
        cuts = file["galleries"][gallery]["single cuts"].values()
        return 100 * max(cut["0.05"][0] for cut in cuts)

    return read


def best_measure(dataset: str) -> Callable[[Document], float]:
    """The largest AUROC of a single measure of first answers."""

    def read(file: Document) -> float:
        found = file["rows"][dataset]["auroc"]["relevant"].items()
        return max(value for name, (value, _) in found if not name.startswith("P("))

    return read


def figures() -> Iterator[Figure]:
    for name, way, what in (
        ("flickr8k", "plain", "Flickr8k test, text to image R@1"),
        ("flickr8k", "shown", "the same as shown"),
        ("coco", "1K folds", "COCO test in folds of a thousand, text to image R@1"),
        ("coco", "1K folds, shown", "the same in folds, as shown"),
    ):
        yield Figure(what, "default_model", at("rows", name, way, "text_to_image", 0), 1)
    yield Figure(
        "nouns with the right picture first among 1,030, %",
        "refusal",
        at("rows", "mixed", "nouns", times=100),
        1,
    )
    for place, name in GALLERIES.items():
        now = ("galleries", place, "now")
        for what in ("captions", "nouns"):
            read = at(*now, f"{what}_refused", times=100)
            yield Figure(f"{name}: {what} refused, %", "people", read, 1)
        read = at(*now, "absent_at", "0.05", 0, times=100)
        yield Figure(f"{name}: absent names refused at 5 %, %", "people", read, 1)
        yield Figure(f"{name}: best single cut there, %", "people", best_cut(place), 1)
    for key in ("stated", "judged", "auroc"):
        read = at("experts", "now", "all", key)
        yield Figure(f"what experts said of hits: {key}", "people", read)
    for number, size in enumerate((100, 300, 800)):
        read = at("objects", number, "auroc", "policy")
        yield Figure(f"objects, there or not, among {size}: AUROC", "common_absent", read)
    for place, name in (("flickr8k", "Flickr8k"), ("coco", "COCO")):
        for what in ("relevant", "right"):
            read = at("rows", place, "auroc", what, "P(relevant)", 0)
            yield Figure(f"{name}: P of first answers, {what}: AUROC", "first_answers", read)
        fitted = "P(relevant), fitted on dev"
        read = at("rows", place, "auroc", "relevant", fitted, 0)
        yield Figure(
            f"{name}: P fitted on dev for them, relevant: AUROC", "first_answers", read
        )
        read = best_measure(place)
        yield Figure(f"{name}: best single measure, relevant: AUROC", "first_answers", read)
    yield Figure(
        "“X without Y”: pictures that fit, times those of a plain search",
        "negation",
        lambda file: file["left_out"] / file["plain"],
        2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clones", nargs="+", type=Path)
    chosen = parser.parse_args()
    seeds = [found(RESULTS.parents[1])]
    for clone in chosen.clones:
        other = found(clone)
        if other["model"] in {one["model"] for one in seeds}:
            raise SystemExit(f"'{clone}' holds a model that was read already.")
        seeds.append(other)
    rows = [summary(one, seeds) for one in figures()]
    for row in rows:
        mean, spread = (f"{row[key]:.{row['digits']}f}" for key in ("mean", "spread"))
        values = ", ".join(f"{value:.{row['digits']}f}" for value in row["values"])
        print(f"{row['what']:<66} {mean} ± {spread}  ({values})")
    about = [{key: one[key] for key in ("seed", "model", "dev")} for one in seeds]
    print(f"-> {keep(NAME, {'seeds': about, 'rows': rows})}")


def found(clone: Path) -> Document:
    """The model of a copy of the repository, and the figures of its results."""
    model = json.loads((clone / "avow/weights/default/encoder.json").read_text())["fingerprint"]
    about = json.loads((clone / "avow/weights/default/avow.json").read_text())
    results = clone / RESULTS.relative_to(RESULTS.parents[1])
    files: dict[str, Document] = {}
    for name in sorted({one.file for one in figures()}):
        files[name] = json.loads((results / f"{name}.json").read_text())
        own = json.loads((RESULTS / f"{name}.json").read_text())
        if clone.resolve() != RESULTS.parents[1] and files[name] == own:
            raise SystemExit(f"'{name}' of '{clone}' is the shipped model's. Run it there.")
    dev = about["history"]["dev"]
    return {
        "seed": about["recipe"]["train"]["seed"],
        "model": model,
        "dev": dev.get("rsum", dev.get("total")),
        "figures": {one.what: one.read(files[one.file]) for one in figures()},
    }


def summary(figure: Figure, seeds: list[Document]) -> Document:
    values = [one["figures"][figure.what] for one in seeds]
    return {
        "what": figure.what,
        "digits": figure.digits,
        "values": values,
        "mean": statistics.mean(values),
        "spread": statistics.stdev(values),
    }


if __name__ == "__main__":
    main()
