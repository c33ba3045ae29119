"""What is asked of a run right after its training, while its weights are at hand.

    people       recall on pictures of people (ACMNet, Table 1)
    averaging    models drawn by dropout: recall, U_f, U_p, areas of rejection (Hama et al.)
    shift        whether U_f and U_p of COCO's queries are larger (Hama et al., Fig. 6)
    doubts       whether u of one network tells right answers from wrong ones (DECL, Fig. 1, 2)
    corruption   u and R@1 with words and regions hidden, among K candidates (TCL, Fig. 5)
    answers      the first hits of every test and dev caption, for `run_answers.py`

For `shift`, features of COCO lie beside the run's own, in a folder whose name ends in `_coco`.
Each gives a few figures; arrays with a number per query go to a small file beside the result,
since weights and similarities are too large to be carried away from a borrowed machine. Nothing
here needs scipy or scikit-learn.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from avow import uncertainty
from avow.assembly.evaluate_runs import EvaluationPlan, judge_run, open_splits
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scored_split import encode_split, score
from avow.assembly.scores import Blocks
from avow.core import folder
from avow.core.contracts import QueryBatch
from avow.core.device import chosen_device
from avow.core.evidence import log_evidence
from avow.core.evidence import uncertainty as evidence_uncertainty
from avow.data.captions import TokenTable
from avow.metrics.recall import match_ranks
from avow.metrics.rejection import auroc, median_rank_curve, rejection_curve
from avow.study.corruption import Stating, corruption_study
from avow.study.stochastic import dropped
from avow.trust.gallery_sampling import Query, ScoredQueries
from avow.trust.top_k import describe, summarise
from avow.uncertainty.scores import fit_temperature
from benchmarks.quality import model_averaging

Figures = dict[str, Any]
RATIOS = (0.0, 0.1, 0.3, 0.6)
DESCRIBED, LISTED = 10, 50
"""Hits whose features are kept, and hits whose positions and scores are."""


def people(run: Path, chosen: argparse.Namespace, out: Path) -> Figures:
    plan = EvaluationPlan(
        features=_features(chosen), device=chosen_device(chosen.device), subset="human"
    )
    evaluation = judge_run(run, plan).to_dict()
    return {"rows": evaluation["rows"], "images": evaluation["about"]["images"]}


def averaging(run: Path, chosen: argparse.Namespace, out: Path) -> Figures:
    """Table 1 and Fig. 2 of Hama et al., and the areas of its Table 2."""
    wanted = argparse.Namespace(
        models=chosen.models,
        temperatures=list(model_averaging.TEMPERATURES),
        data="",
        features=_features(chosen),
        device=chosen_device(chosen.device),
        scored=out.parent,
    )
    figures = model_averaging.average_run(run, wanted)
    drawn = np.load(out.parent / f"{run.name}_measures.npz")
    queries = _both(run, chosen)
    kept: dict[str, np.ndarray] = {name: drawn[name].astype(np.float32) for name in drawn.files}
    for query in model_averaging.QUERIES:
        fitted, judged = (queries[split][query] for split in ("dev", "test"))
        measured = _doubts(fitted, judged)
        measured |= {
            name.partition("|")[2]: drawn[name]
            for name in drawn.files
            if name.startswith(f"{query}|")
        }
        ranks = match_ranks(judged.averaged, judged.match)
        figures[query]["areas"] = {name: areas(-one, ranks) for name, one in measured.items()}
        figures[query]["chance"] = {
            **{f"r{cut}": 100 * float((ranks <= cut).mean()) for cut in (1, 5, 10)},
            "median_rank": float(np.median(ranks)),
        }
        figures[query]["rank correlation"] = alike(measured)
        kept[f"{query}|rank"] = ranks.astype(np.int32)
        kept[f"{query}|scores: probability"] = measured["scores: probability"].astype(
            np.float32
        )
    drawn.close()
    (out.parent / f"{run.name}_measures.npz").unlink()
    np.savez_compressed(out.with_name(f"{out.stem}_measures.npz"), **kept)  # type: ignore[arg-type]
    return {"models": chosen.models, **figures}


def areas(confidence: np.ndarray, ranks: np.ndarray) -> Figures:
    """Areas under curves of rejection, and the AUROC of a right first answer."""
    cuts = {f"r{cut}": rejection_curve(confidence, ranks <= cut).area for cut in (1, 5, 10)}
    return {
        **{name: 100 * value for name, value in cuts.items()},
        "median_rank": median_rank_curve(confidence, ranks).area,
        "auroc": auroc(confidence[ranks == 1], confidence[ranks > 1]),
    }


def alike(doubts: dict[str, np.ndarray]) -> float | None:
    """How far feature and posterior uncertainty order queries alike (Spearman)."""
    pair = [doubts.get(f"mc_dropout: {kind} uncertainty") for kind in ("feature", "posterior")]
    if pair[0] is None or pair[1] is None:
        return None
    first, second = (
        np.argsort(np.argsort(one, kind="stable")) for one in pair if one is not None
    )
    return float(np.corrcoef(first, second)[0, 1])


def shift(run: Path, chosen: argparse.Namespace, out: Path) -> Figures:
    """Whether queries of COCO are doubted more than those of the run's own dataset.

    As in the paper, as many queries of each, and one target for each of them.
    """
    model = Model.from_pretrained(run, chosen_device(chosen.device))
    own = _features(chosen)
    places = {"": own, "coco": own and own.with_name(f"{own.name}_coco")}
    splits = [
        open_splits(model, name, features, ["test"])[1]["test"]
        for name, features in places.items()
    ]
    images = min(len(split.image_ids) for split in splits)
    wanted = argparse.Namespace(models=chosen.models, temperatures=[model_averaging.MAIN])
    found: Figures = {"images": images, "models": chosen.models}
    for query in model_averaging.QUERIES:
        usual, other = (_drawn(model, split, images, query, wanted) for split in splits)
        found[query] = {
            name: {
                "own": float(usual[name].mean()),
                "other": float(other[name].mean()),
                "told apart": auroc(other[name], usual[name]),
            }
            for name in usual
        }
    return found


def _drawn(
    model: Model, split: FeaturedSplit, images: int, query: Query, wanted: argparse.Namespace
) -> dict[str, np.ndarray]:
    """U_f and U_p of queries about the first images, each with its first caption alone."""
    _, first = np.unique(split.image_of, return_index=True)
    alone = replace(
        split.only(np.arange(images)),
        captions=tuple(split.captions[place] for place in first[:images]),
        image_of=np.arange(images),
        kept=None,
    )
    passes = dropped(model, alone, wanted.models).passes
    assert passes is not None, "a recipe without dropout draws no models"
    return model_averaging.average(passes, query, alone, wanted, [])


def doubts(run: Path, chosen: argparse.Namespace, out: Path) -> Figures:
    """Areas of rejection and AUROC of every measure of one network, in both directions."""
    queries = _both(run, chosen)
    found: Figures = {}
    for query in model_averaging.QUERIES:
        fitted, judged = (queries[split][query] for split in ("dev", "test"))
        ranks = match_ranks(judged.averaged, judged.match)
        measured = _doubts(fitted, judged)
        found[query] = {name: areas(-one, ranks) for name, one in measured.items()}
    return found


def corruption(run: Path, chosen: argparse.Namespace, out: Path) -> Figures:
    """Fig. 5 of TCL: u, among K candidates from one batch to the gallery, and R@1."""
    model = Model.from_pretrained(run, chosen_device(chosen.device))
    _, splits = open_splits(model, "", _features(chosen), ["test"])
    split = splits["test"]
    table = TokenTable.from_captions(model.tokeniser, split.captions)
    images = len(split.image_ids)
    sizes = [size for size in (128, 500, 1000) if size <= images] or [images]
    studied = corruption_study(
        model,
        split,
        table,
        stating=Stating(galleries=sizes),
        ratios=RATIOS,
        blocks=Blocks(precision=chosen.precision),
    )
    loss = model.recipe.loss
    return {
        "ratios": list(RATIOS),
        "tau": model.evidence_settings["tau"],
        "kl_last": loss.get("kl_rate", 0.005) * (model.recipe.train.epochs - 1),
        "directions": {query: _means(one) for query, one in studied.items()},
    }


def answers(run: Path, chosen: argparse.Namespace, out: Path) -> Figures:
    """The first hits of every caption on dev and test, with the features of trust."""
    kept: dict[str, np.ndarray] = {}
    names: tuple[str, ...] = ()
    for name, found in _both(run, chosen, bank=True).items():
        scored = found["text"]
        summary, order = summarise(scored.asked(), shown=LISTED)
        names = summary.names
        averaged = scored.averaged
        evidence = log_evidence(averaged, scored.tau, scored.kind)
        kept |= {
            f"{name}|order": order.astype(np.int16),
            f"{name}|score": np.take_along_axis(averaged, order, 1).astype(np.float32),
            f"{name}|features": describe(summary)[:, :DESCRIBED].astype(np.float16),
            f"{name}|u": evidence_uncertainty(evidence).astype(np.float32),
            f"{name}|image_of": scored.match.argmax(1).astype(np.int32),
            f"{name}|gallery": np.array(averaged.shape[1]),
        }
    np.savez_compressed(out.with_name(f"{out.stem}_answers.npz"), **kept)  # type: ignore[arg-type]
    return {"features": list(names)}


STEPS: dict[str, Callable[[Path, argparse.Namespace, Path], Figures]] = {
    "people": people,
    "averaging": averaging,
    "shift": shift,
    "doubts": doubts,
    "corruption": corruption,
    "answers": answers,
}


def _features(chosen: argparse.Namespace) -> Path | None:
    return Path(chosen.features) if chosen.features else None


def _both(
    run: Path, chosen: argparse.Namespace, bank: bool = False
) -> dict[str, dict[Query, ScoredQueries]]:
    """Dev and test of a run, scored in both directions; bank: with what is usual."""
    model, blocks = Model.from_pretrained(run, chosen_device(chosen.device)), Blocks()
    names = ["dev", "test", *(["train"] if bank else [])]
    _, splits = open_splits(model, "", _features(chosen), names)
    asking = encode_split(model, splits["train"], blocks) if bank else None
    return {
        name: score(model, encode_split(model, splits[name], blocks), asking, blocks)
        for name in ("dev", "test")
    }


def _doubts(fitted: ScoredQueries, judged: ScoredQueries) -> dict[str, np.ndarray]:
    """Measures of one network without chance: its scores, their softmax, and u."""
    temperature = fit_temperature(
        torch.from_numpy(np.ascontiguousarray(fitted.averaged)),
        torch.from_numpy(np.ascontiguousarray(fitted.match)),
    )
    asked = QueryBatch(judged.similarity, judged.own, judged.tau, judged.kind)
    doubts: dict[str, np.ndarray] = {}
    for name, settings in {"scores": {"temperature": temperature}, "evidential": {}}.items():
        measured = folder.build(uncertainty, name, **settings).measure(asked)
        doubts |= {
            f"{name}: {key}": one.cpu().double().numpy() for key, one in measured.items()
        }
    return doubts


def _means(study: Figures) -> Figures:
    """A study of corruption without its quantiles and histograms."""
    kinds = {
        kind: [
            {
                "ratio": entry["ratio"],
                "u": entry["u"]["mean"],
                "u averaged": entry["u averaged"]["mean"],
                "u among K": entry["u among K"],
                "r1": entry["r1"],
            }
            for entry in entries
        ]
        for kind, entries in study["kinds"].items()
    }
    return {"kinds": kinds, "rises": study["rises"]}
