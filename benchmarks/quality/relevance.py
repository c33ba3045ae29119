"""Queries with many right answers: does P(relevant) come true, and do people agree?

    python -m benchmarks.quality.relevance RUN --features DIR --scored DIR
    python -m benchmarks.quality.relevance RUN … --people RUN RUN RUN --judgements FILE

Captions, object names and short phrases over COCO's dev photographs ("dog", "a dog", "man
riding a wave"); the short ones have dozens of right pictures. Per style, one half of the
queries fits the probability that a hit is relevant, the other half is stated and counted, and
the other way round, for the first ten hits. What annotators did not write down counts as not
relevant, so captions and phrases have a lower bound for truth.

--people: runs on Flickr8k whose P(relevant), fitted on dev captions, is held against what
experts said of the hits they show on test. Prints errors with intervals, and the ratio to a
fit on similarity alone.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.scored_split import encode_split
from avow.assembly.scores import Blocks
from avow.core.contracts import Encoded
from avow.core.device import best_device
from avow.data.judgements import read_judgements
from avow.data.opening import open_dataset
from avow.study.human_hits import people_study
from avow.study.relevance import judge_style, score_queries
from avow.study.short_queries import query_sets, whole_captions
from benchmarks._report import keep
from benchmarks.quality.trust import load, place, score_run, summarise


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--images", type=Path, help="vectors of the dev images, made before")
    parser.add_argument("--scored", type=Path, default=Path("scored"))
    parser.add_argument("--people", type=Path, nargs="*", default=[])
    parser.add_argument("--judgements", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    people = [with_people(run, chosen) for run in chosen.people]
    rows = styles(chosen)
    found = {"run": chosen.run.name, "seed": chosen.seed, "rows": rows}
    if people:
        names = [run.name for run in chosen.people]
        found["people"] = {"runs": names, "summary": summarise(people), "studies": people}
    path = keep("relevance", found)
    for style, row in rows.items():
        print(
            f"{style:<18} {row['queries']:>5} queries, {row['hits']:>6} hits, "
            f"{row['relevant']:.0%} relevant: ECE {row['ece']:.3f} "
            f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}], debiased "
            f"{row['debiased']:.3f}, stated {row['stated']:.0%}, AUROC {row['auroc']:.3f}; "
            f"similarity alone ECE {row['similarity']['ece']:.3f}, "
            f"AUROC {row['similarity']['auroc']:.3f} "
            f"(x{row['auroc'] / row['similarity']['auroc']:.2f})"
        )
    print(f"-> {path}")


def styles(chosen: argparse.Namespace) -> dict[str, Any]:
    """A row per style of query, over the dev photographs of the run's own dataset."""
    score_run(chosen.run, chosen.features, chosen.scored)
    model = Model.from_pretrained(chosen.run, best_device())
    split = open_dataset(**model.recipe.data).splits["dev"]
    images = encoded_images(model, chosen)
    usual = load(place(chosen.scored, chosen.run, "dev"))["text"].background
    return {
        group.style: judge_style(
            score_queries(model, group, images, usual, Blocks()), seed=chosen.seed
        )
        for group in query_sets(split)
    }


def encoded_images(model: Model, chosen: argparse.Namespace) -> list[Encoded]:
    if chosen.images is None:
        _, splits = open_splits(model, "", chosen.features, ["dev"])
        return list(encode_split(model, splits["dev"], Blocks(), progress=True).images)
    vectors = torch.from_numpy(np.load(chosen.images).astype(np.float32))
    return [Encoded(one[:, None], torch.ones(len(one), 1, dtype=torch.bool)) for one in vectors]


def with_people(run: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """P(relevant) of dev captions beside what experts said of hits on test."""
    splits = open_dataset("flickr8k").splits
    pairs = read_judgements(chosen.judgements).within(
        splits["test"].image_ids, splits["test"].image_of
    )
    fitted, judged = (load(place(chosen.scored, run, name))["text"] for name in ("dev", "test"))
    relevant = replace(fitted, match=whole_captions(splits["dev"]).match)
    found = people_study({"relevant": relevant, "right": fitted}, judged, pairs, draws=500)
    strict = found["strict"]
    said = ", ".join(
        f"{name} states {row['stated']:.3f}, ECE {row['ece'][0]:.3f}, "
        f"AUROC {row['auroc'][0]:.3f}"
        for name, row in strict["measures"].items()
    )
    print(f"{run.name}: people call {strict['called'][0]:.3f} right; {said}", flush=True)
    return found


if __name__ == "__main__":
    main()
