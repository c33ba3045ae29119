"""Queries with many right answers: does P(relevant) come true, and do people agree?

    python benchmarks/relevance.py RUN --features DIR --scored DIR

Object names and short phrases over COCO's dev photographs ("dog", "a dog", "man riding a
wave") have dozens of right pictures. Per style, one half of the queries fits the probability
that a hit is relevant, the other half is stated and counted, and the other way round, for
the first ten hits. What annotators did not write down counts as not relevant, so phrases
have a lower bound for truth. Prints errors with intervals over redrawn queries, and the
ratio to a fit on similarity alone.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _report import keep
from torch import Tensor
from trust import load, place, score_run

from avow.assembly.evaluate import encode_captions
from avow.assembly.judge import open_splits
from avow.assembly.model import Model
from avow.assembly.scores import Blocks
from avow.core.contracts import VectorMethod
from avow.core.device import best_device
from avow.data._captions import TokenTable
from avow.data._open import open_dataset
from avow.metrics.rejection import auroc
from avow.trust.galleries import Scored, draw_sizes, fit_hits, see, state
from avow.trust.measures import calibration, platt
from avow.trust.relevance import QuerySet, query_sets
from avow.trust.scoring import encode_split


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--images", type=Path, help="vectors of the dev images, made before")
    parser.add_argument("--scored", type=Path, default=Path("scored"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    score_run(chosen.run, chosen.features, chosen.scored)
    model = Model.from_pretrained(chosen.run, best_device())
    split = open_dataset(**model.recipe.data).splits["dev"]
    images = image_vectors(model, chosen)
    usual = load(place(chosen.scored, chosen.run, "dev"))["text"].background
    parts = {
        group.style: halves(score(model, group, images, usual), chosen.seed)
        for group in query_sets(split)
    }
    rows = {style: judge(one, other) for style, (one, other) in parts.items()}
    path = keep("relevance", {"run": chosen.run.name, "seed": chosen.seed, "rows": rows})
    for style, row in rows.items():
        print(
            f"{style:<18} {row['queries']:>5} queries, {row['hits']:>6} hits, "
            f"{row['relevant']:.0%} relevant: ECE {row['ece']:.3f} "
            f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}], stated "
            f"{row['stated']:.0%}, AUROC {row['auroc']:.3f}; "
            f"similarity alone ECE {row['similarity']['ece']:.3f}, "
            f"AUROC {row['similarity']['auroc']:.3f} "
            f"(x{row['auroc'] / row['similarity']['auroc']:.2f})"
        )
    print(f"-> {path}")


def image_vectors(model: Model, chosen: argparse.Namespace) -> Tensor:
    if chosen.images is not None:
        return torch.from_numpy(np.load(chosen.images).astype(np.float32))
    assert all(isinstance(view, VectorMethod) for view in model.views)
    _, splits = open_splits(model, "", chosen.features, ["dev"])
    corpus = encode_split(model, splits["dev"], Blocks(), progress=True)
    return torch.stack([one.parts[:, 0] for one in corpus.images])


def score(model: Model, group: QuerySet, images: Tensor, usual: Any) -> Scored:
    table = TokenTable.from_captions(model.tokeniser, group.queries)
    texts = torch.stack(
        [encode_captions(view, table, model.device, 256).parts[:, 0] for view in model.views]
    )
    similarity = texts @ images.transpose(1, 2)
    return Scored(similarity, group.match, 1, background=usual)


def halves(scored: Scored, seed: int) -> tuple[Scored, Scored]:
    """Queries at random in two halves, over the same photographs."""
    mixed = np.random.default_rng(seed).permutation(len(scored.match))
    parts = np.array_split(mixed, 2)
    one, other = (
        Scored(
            scored.similarity[:, torch.from_numpy(part)],
            scored.match[part],
            scored.own,
            scored.tau,
            scored.kind,
            scored.background,
        )
        for part in parts
    )
    return one, other


def judge(one: Scored, other: Scored) -> dict[str, Any]:
    """Each half stated by a fit on the other; hits of one query are redrawn together."""
    ours, alone, relevant, query = [], [], [], []
    for number, (before, after) in enumerate(((one, other), (other, one))):
        probability = fit_hits("relevant", draw_sizes(before))
        hits, known = see(after), see(before)
        place = hits.names.index("score")
        ours.append(state(probability, hits.features, hits.gallery).reshape(-1))
        alone.append(
            platt(
                known.features[:, :, place].reshape(-1).astype(np.float64),
                known.right.reshape(-1),
                hits.features[:, :, place].reshape(-1).astype(np.float64),
            )
        )
        relevant.append(hits.right.reshape(-1))
        shown = hits.right.shape[1]
        query.append(np.repeat(np.arange(len(hits.right)) + number * 10**6, shown))
    right, groups = np.concatenate(relevant), np.concatenate(query)
    rows = {
        name: {
            **calibration(stated, right, groups, draws=200),
            "auroc": auroc(stated[right], stated[~right]),
            "stated": float(stated.mean()),
        }
        for name, stated in (("ours", np.concatenate(ours)), ("alone", np.concatenate(alone)))
    }
    return {
        "queries": len(np.unique(groups)),
        "hits": len(right),
        "relevant": float(right.mean()),
        **rows["ours"],
        "similarity": rows["alone"],
    }


if __name__ == "__main__":
    main()
