"""One fit, galleries of 20 to 100,000: does the stated probability still come true?

    python -m benchmarks.quality.gallery_sizes RUN --features DIR \
        --among coco --among-features DIR --scored DIR --hits DIR

Small galleries are dealt from the run's own test split; large ones are the whole test split
among photographs and captions of another dataset, none of them right. The fit sees dev
queries and, as distractors, a few thousand items of the other dataset that the test never
uses. What is seen of the answers is kept in --hits, so that a machine with a GPU can do
that part alone (--only-look). Prints per size the calibration error beside its floor, and
the ratio of the largest error to that of the smallest gallery.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.scored_split import Corpus, encode_split
from avow.assembly.scores import Blocks
from avow.core.background import Background
from avow.core.contracts import QueryBatch, VectorMethod
from avow.core.device import best_device
from avow.metrics.rejection import auroc
from avow.study.measures import calibration
from avow.trust.gallery_sampling import (
    SIZES,
    Hits,
    Query,
    collect_hits,
    draw,
    draw_sizes,
    fit_hits,
    predict,
)
from avow.trust.top_k import PLAIN, RELATIVE, describe, summarise
from benchmarks._report import keep
from benchmarks.quality.trust import QUERIES, load, place, score_run

FITTED = {"text": 5_000, "image": 20_000}
"""How many distractors the fit may see; the test has all the others."""
WANTED: dict[tuple[str, Query], tuple[int, ...]] = {
    ("dev", "text"): (2_000, 6_000),
    ("dev", "image"): (10_000, 25_000),
    ("test", "text"): (2_000, 5_000, 10_000, 20_000, 10**9),
    ("test", "image"): (10_000, 20_000, 50_000, 10**9),
}
KEPT = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--among", default="coco", help="dataset of the distractors")
    parser.add_argument("--among-features", type=Path)
    parser.add_argument("--scored", type=Path, default=Path("scored"))
    parser.add_argument("--hits", type=Path, default=Path("hits"))
    parser.add_argument("--only-look", action="store_true")
    parser.add_argument("--draws", type=int, default=300)
    chosen = parser.parse_args()
    chosen.hits.mkdir(parents=True, exist_ok=True)
    if not list(chosen.hits.glob(f"{chosen.run.name}_test_*.npz")):
        look_around(chosen)
    if chosen.only_look:
        return
    score_run(chosen.run, chosen.features, chosen.scored)
    rows = {query: judge(chosen, query) for query in QUERIES}
    errors = [row["ece"] for found in rows.values() for row in found]
    path = keep("gallery_sizes", {"run": chosen.run.name, "among": chosen.among, "rows": rows})
    for query, found in rows.items():
        for row in found:
            print(
                f"{query:<6} K {row['candidates']:>7} ({row['distractors']:>6} foreign)  "
                f"R@1 {row['r1']:5.1f}  AUROC {row['auroc']:.3f}  ECE {row['ece']:.3f}  "
                f"floor {row['floor']:.3f}  within floor + .01: {row['within']}"
            )
    print(f"largest error {max(errors) / errors[0]:.2f} x that of the smallest gallery")
    print(f"-> {path}")


def judge(chosen: argparse.Namespace, query: Query) -> list[dict[str, Any]]:
    """Fit on dev galleries of every size, and state what happens in the test galleries."""
    before = load(place(chosen.scored, chosen.run, "dev"))[query]
    test = load(place(chosen.scored, chosen.run, "test"))[query]
    fitted = [draw_sizes(before), *(hits for hits, _ in kept(chosen, "dev", query))]
    probability = fit_hits("right", Hits.join(fitted))
    own = [draw(test, size) for size in SIZES if size < 0.8 * test.match.shape[1]]
    galleries = [(hits, 0) for hits in [*own, collect_hits(test)] if hits is not None]
    out = []
    for hits, distractors in [*galleries, *kept(chosen, "test", query)]:
        stated = predict(probability, hits.features, hits.gallery)[:, 0]
        right = hits.right[:, 0]
        found = calibration(stated, right, hits.groups, chosen.draws)
        out.append(
            {
                "candidates": round(float(hits.gallery.mean())),
                "distractors": distractors,
                "queries": len(right),
                "r1": 100 * float(right.mean()),
                "auroc": auroc(stated[right], stated[~right]),
                "mean_trust": float(stated.mean()),
                **{key: found[key] for key in ("ece", "interval", "floor", "debiased")},
                "within": found["ece"] <= found["floor"] + 0.01,
            }
        )
    return out


def kept(chosen: argparse.Namespace, split: str, query: Query) -> list[tuple[Hits, int]]:
    """What was seen among distractors, smallest gallery first."""
    found = []
    for path in chosen.hits.glob(f"{chosen.run.name}_{split}_{query}_*.npz"):
        content, size = np.load(path), int(path.stem.rpartition("_")[2])
        hits = Hits(
            (*PLAIN, *RELATIVE),
            content["features"],
            content["right"],
            np.full(len(content["right"]), size),
            content["groups"],
            np.arange(len(content["right"])),
        )
        found.append((hits, int(content["distractors"])))
    return sorted(found, key=lambda pair: int(pair[0].gallery[0]))


def look_around(chosen: argparse.Namespace) -> None:
    """The best answers of dev and test queries among items of another dataset."""
    model, blocks = Model.from_pretrained(chosen.run, best_device()), Blocks()
    _, own = open_splits(model, "", chosen.features, ["train", "dev", "test"])
    among, others = open_splits(model, chosen.among, chosen.among_features, [])
    names = list(among.splits)
    _, others = open_splits(model, chosen.among, chosen.among_features, names)
    bank = vectors(encode_split(model, own["train"], blocks, True), model)
    foreign = [
        vectors(encode_split(model, part, blocks, True), model) for part in others.values()
    ]
    pool: dict[Query, Tensor] = {
        "text": torch.cat([part["image"] for part in foreign], 1),
        "image": torch.cat([part["text"] for part in foreign], 1),
    }
    order = torch.Generator().manual_seed(0)
    mixed = {
        query: torch.randperm(items.shape[1], generator=order) for query, items in pool.items()
    }
    for split in ("dev", "test"):
        corpus = encode_split(model, own[split], blocks, True)
        mine = vectors(corpus, model)
        for query in QUERIES:
            first = FITTED[query]
            allowed = mixed[query][:first] if split == "dev" else mixed[query][first:]
            extra = pool[query][:, allowed]
            side: Query = "image" if query == "text" else "text"
            for size in WANTED[split, query]:
                count = min(size - mine[side].shape[1], extra.shape[1])
                everyone = torch.cat([mine[side], extra[:, :count]], 1)
                found = answers(mine[query], everyone, bank[query], corpus.image_of, query)
                name = f"{chosen.run.name}_{split}_{query}_{everyone.shape[1]}.npz"
                found["distractors"] = np.array(count)
                np.savez(chosen.hits / name, allow_pickle=False, **found)


def vectors(corpus: Corpus, model: Model) -> dict[Query, Tensor]:
    """One vector per item and view; only methods that have them can be studied here."""
    assert all(isinstance(view, VectorMethod) for view in model.views)
    return {
        "image": torch.stack([one.parts[:, 0] for one in corpus.images]).to(model.device),
        "text": torch.stack([one.parts[:, 0] for one in corpus.texts]).to(model.device),
    }


def answers(
    asking: Tensor,
    candidates: Tensor,
    bank: Tensor,
    image_of: Int[np.ndarray, " texts"],
    query: Query,
    block: int = 100,
) -> dict[str, np.ndarray]:
    """Features of the first answers of every query, and whether they are right."""
    usual = Background.from_scores(
        (
            (part @ candidates.transpose(1, 2)).cpu().numpy()
            for part in bank.split(2_000, dim=1)
        ),
        0.05,
    )
    texts = len(image_of)
    owner = torch.full((candidates.shape[1],), -1)
    whose = torch.from_numpy(image_of)
    if query == "text":
        owner[: int(whose.max()) + 1] = torch.arange(int(whose.max()) + 1)
    else:
        owner[:texts] = whose
        whose = torch.arange(asking.shape[1])
    features, right = [], []
    for start in range(0, asking.shape[1], block):
        some = asking[:, start : start + block]
        similarity = (some @ candidates.transpose(1, 2)).cpu().numpy()
        summary, order = summarise(QueryBatch(similarity, 0, background=usual))
        features.append(describe(summary)[:, :KEPT])
        chosen = owner[torch.from_numpy(order[:, :KEPT])]
        right.append((chosen == whose[start : start + block, None]).numpy())
    return {
        "features": np.concatenate(features),
        "right": np.concatenate(right),
        "groups": whose.numpy() + 10**6,
    }


if __name__ == "__main__":
    main()
