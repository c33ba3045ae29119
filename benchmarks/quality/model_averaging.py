"""Many models drawn from a run by its dropout: what averaging brings, and how far they differ.

    python -m benchmarks.quality.model_averaging flickr8k RUN RUN RUN \
        --features DIR --scored DIR
    python -m benchmarks.quality.trust flickr8k_dropout RUN RUN RUN --features DIR --scored DIR

Recall on the test split of one model without chance (weight averaging), of query vectors
averaged over L models and of posteriors averaged at each temperature T: Table 1 and Fig. 2 of
Hama et al., arXiv 2019. Feature and posterior uncertainty of every query go to
SCORED/RUN_measures.npz, where `benchmarks.quality.trust` reads them and judges them beside all
other measures (Table 2 and Fig. 3). `--data coco` asks about another dataset (section 4.5).
"""

import argparse
import statistics
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from avow.assembly.evaluate import score_views
from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.stochastic.passes import Passes
from avow.blocks.normalise import unit
from avow.core.device import best_device
from avow.data.captions import TokenTable
from avow.metrics.recall import ranks, summarise
from avow.study.stochastic import dropped
from avow.trust.gallery_sampling import Query
from avow.uncertainty._drawn import Features
from avow.uncertainty._posterior import Posteriors
from benchmarks._report import keep
from benchmarks._runs import scored_parser

QUERIES: tuple[Query, ...] = ("text", "image")
MODELS = 100
MARKS = (1, 2, 5, 10, 20, 50)
"""Numbers of models at which recall is taken, besides the last."""
TEMPERATURES = (0.001, 0.01, 0.1, 1.0, 10.0)
MAIN = 0.001
"""The paper's temperature of posterior uncertainty; others are named in the measure."""
Measured = dict[str, np.ndarray]


def main() -> None:
    parser = scored_parser(__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--temperatures", nargs="+", type=float, default=list(TEMPERATURES))
    parser.add_argument("--data", default="", help="another dataset than the run's own")
    parser.add_argument("--device", default=best_device())
    chosen = parser.parse_args()
    chosen.scored.mkdir(parents=True, exist_ok=True)
    rows = [average_run(run, chosen) for run in chosen.runs]
    about = {"models": chosen.models, "temperatures": chosen.temperatures, "data": chosen.data}
    path = keep(f"averaging_{chosen.name}", {**about, "runs": rows})
    show(rows)
    print(f"{len(rows)} runs -> {path}")


def average_run(run: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Recall of all ways to average; the measures of every query are kept beside it."""
    model = Model.from_pretrained(run, chosen.device)
    _, splits = open_splits(model, chosen.data, chosen.features, ["test"])
    split = splits["test"]
    repeated = dropped(model, split, chosen.models)
    if repeated.passes is None:
        raise SystemExit(
            f"{run.name}: {repeated.note}. Expected a run with dropout, such as one of "
            "flickr8k/vsepp_hinge_dropout."
        )
    table = TokenTable.from_captions(model.tokeniser, split.captions)
    plain = np.mean(score_views(model.views, split, table, model.device), axis=0)
    found: dict[str, Any] = {"run": run.name}
    measures: Measured = {}
    for query in QUERIES:
        weight = recall(plain.T if query == "text" else plain, query, split)
        found[query] = {"weight": weight, "averaged": []}
        if repeated.passes.is_random(query):
            own = average(repeated.passes, query, split, chosen, found[query]["averaged"])
            found[query]["mean"] = {name: float(value.mean()) for name, value in own.items()}
            measures |= {f"{query}|mc_dropout: {name}": own[name] for name in own}
    suffix = f"_{chosen.data}" if chosen.data else ""
    np.savez(chosen.scored / f"{run.name}{suffix}_measures.npz", **measures)  # type: ignore[arg-type]
    return found


def average(
    passes: Passes,
    query: Query,
    split: FeaturedSplit,
    chosen: argparse.Namespace,
    rows: list[dict[str, Any]],
) -> Measured:
    """Draw the models one after the other; `rows` gets the recall at each of `MARKS`."""
    draws = islice(passes.draws(query)(), chosen.models)
    features, posteriors = Features(), {}
    for number, draw in enumerate(draws, 1):
        for temperature in chosen.temperatures:
            if number == 1:
                posteriors[temperature] = Posteriors(draw.similarity, temperature)
            posteriors[temperature].add(draw.similarity)
        if draw.vectors is not None:
            features.add(draw.vectors)
        if number in MARKS or number == chosen.models:
            row: dict[str, Any] = {"models": number}
            if features.count:
                known = passes.candidates(query)
                cosine = unit(features.mean).to(known) @ unit(known).T
                row["feature"] = recall(as_array(cosine), query, split)
            row["posterior"] = {
                f"{temperature:g}": recall(as_array(one.mean), query, split)
                for temperature, one in posteriors.items()
            }
            rows.append(row)
    measured = {
        named(temperature): as_array(one.mutual_information)
        for temperature, one in posteriors.items()
    }
    if features.count:
        measured["feature uncertainty"] = as_array(features.variance)
    return measured


def named(temperature: float) -> str:
    name = "posterior uncertainty"
    return name if temperature == MAIN else f"{name}, T={temperature:g}"


def recall(scores: np.ndarray, query: Query, split: FeaturedSplit) -> dict[str, float]:
    """One direction of the table, from scores of queries against candidates."""
    found = summarise(ranks([scores.T if query == "text" else scores], split.image_of))
    return asdict(found.text_to_image if query == "text" else found.image_to_text)


def as_array(values: torch.Tensor) -> np.ndarray:
    return values.cpu().numpy()


def show(rows: list[dict[str, Any]]) -> None:
    for query in QUERIES:
        weight = statistics.mean(row[query]["weight"]["r1"] for row in rows)
        print(f"{query} queries: R@1 {weight:.1f} by weight averaging")
        last = [row[query]["averaged"][-1] for row in rows if row[query]["averaged"]]
        if not last:
            print("  no dropout on the way of these queries")
            continue
        if all("feature" in row for row in last):
            mean = statistics.mean(row["feature"]["r1"] for row in last)
            print(f"  {mean:.1f} by features of {last[0]['models']} models")
        for temperature in last[0]["posterior"]:
            mean = statistics.mean(row["posterior"][temperature]["r1"] for row in last)
            print(f"  {mean:.1f} by posteriors at T={temperature}")


if __name__ == "__main__":
    main()
