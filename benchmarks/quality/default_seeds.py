"""The shipped model trained again with other seeds: the figures of its pages, seed by seed.

    python -m benchmarks.quality.default_seeds CLONE ...

CLONE is a copy of the repository whose `avow/weights/default` holds a model of another seed,
and where the benchmarks below were run. For a run RUN of `avow train default/photographs`,
both stages with `--seed N`, inside of it:

    cp RUN/best-*/* avow/weights/default && scripts/export_default avow/weights/default
    avow index FEW --index INDEX
    scripts/default_trust avow/weights/default --bank --only text --imagenet DIR --index INDEX
    python -m benchmarks.quality.default_model      and each other file of FIGURES

FEW are the 10,000 photographs of `Side.few`. What each seed found is read from the results of
its clone, that of the shipped one from those here.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, keep

NAME = "default_seeds"
Document = dict[str, Any]
GALLERIES = {
    "flickr8k": "Flickr8k test",
    "coco": "COCO test, a part",
    "flickr8k+coco": "both together",
}


def _people() -> dict[str, Callable[[Document], float]]:
    found: dict[str, Callable[[Document], float]] = {}
    for place, name in GALLERIES.items():
        for what, key in (("captions", "captions_refused"), ("nouns", "nouns_refused")):
            found[f"{what} refused, %: {name}"] = lambda file, place=place, key=key: (
                100 * file["galleries"][place]["now"][key]
            )
        found[f"absent names refused at 5 % of present ones, %: {name}"] = (
            lambda file, place=place: (
                100 * file["galleries"][place]["now"]["absent_at"]["0.05"][0]
            )
        )
        found[f"best cut on a single score there, %: {name}"] = lambda file, place=place: (
            100
            * max(cut["0.05"][0] for cut in file["galleries"][place]["single cuts"].values())
        )
    for key, what in (("stated", "stated"), ("judged", "judged"), ("auroc", "AUROC")):
        found[f"what experts said of hits: {what}"] = lambda file, key=key: (
            file["experts"]["now"]["all"][key]
        )
    return found


FIGURES: dict[str, dict[str, Callable[[Document], float]]] = {
    "default_model": {
        "Flickr8k test, text to image R@1": lambda file: _recall(file, "flickr8k", "plain"),
        "the same as shown": lambda file: _recall(file, "flickr8k", "shown"),
        "COCO test in folds of a thousand, text to image R@1": (
            lambda file: _recall(file, "coco", "1K folds")
        ),
        "the same in folds, as shown": lambda file: _recall(file, "coco", "1K folds, shown"),
    },
    "people": _people(),
    "refusal": {
        "nouns with the right picture first, of 1,030, %": (
            lambda file: 100 * file["rows"]["mixed"]["nouns"]
        ),
    },
    "common_absent": {
        f"COCO's objects, there or not, among {part['size']}: AUROC": (
            lambda file, number=number: file["objects"][number]["auroc"]["policy"]
        )
        for number, part in enumerate(({"size": 100}, {"size": 300}, {"size": 800}))
    },
    "first_answers": {
        f"P of first answers, {what}, {name}: AUROC": (
            lambda file, place=place, what=what: (
                file["rows"][place]["auroc"][what]["P(relevant)"][0]
            )
        )
        for place, name in (("flickr8k", "Flickr8k"), ("coco", "COCO"))
        for what in ("relevant", "right")
    },
    "negation": {
        "“X without Y”: wanted among the first, × plain search": (
            lambda file: file["left_out"] / file["plain"]
        ),
    },
}


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
    rows = [summary(name, seeds) for name in seeds[0]["figures"]]
    for row in rows:
        values = ", ".join(f"{value:.3f}" for value in row["values"])
        print(f"{row['what']:<70} {row['mean']:.3f} ± {row['spread']:.3f}  ({values})")
    about = [{key: one[key] for key in ("seed", "model", "dev")} for one in seeds]
    print(f"-> {keep(NAME, {'seeds': about, 'rows': rows})}")


def found(clone: Path) -> Document:
    """The model of a copy of the repository, and the figures of its results."""
    model = json.loads((clone / "avow/weights/default/encoder.json").read_text())["fingerprint"]
    about = json.loads((clone / "avow/weights/default/avow.json").read_text())
    results = clone / RESULTS.relative_to(RESULTS.parents[1])
    figures = {}
    for name, wanted in FIGURES.items():
        file = json.loads((results / f"{name}.json").read_text())
        own = json.loads((RESULTS / f"{name}.json").read_text())
        if clone.resolve() != RESULTS.parents[1] and file == own:
            raise SystemExit(f"'{name}' of '{clone}' is that of the shipped model. Run it there.")
        figures |= {what: read(file) for what, read in wanted.items()}
    dev = about["history"]["dev"]
    return {
        "seed": about["recipe"]["train"]["seed"],
        "model": model,
        "dev": dev.get("rsum", dev.get("total")),
        "figures": figures,
    }


def summary(name: str, seeds: list[Document]) -> Document:
    values = [one["figures"][name] for one in seeds]
    return {
        "what": name,
        "values": values,
        "mean": statistics.mean(values),
        "spread": statistics.stdev(values),
    }


def _recall(file: Document, dataset: str, way: str) -> float:
    return file["rows"][dataset][way]["text_to_image"][0]


if __name__ == "__main__":
    main()
