"""Evaluate what lies on disk: trained runs on a split, or anybody's vectors."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int

from avow.assembly.evaluate import (
    Evaluation,
    Row,
    encode_captions,
    evaluate,
    facts,
    score_views,
)
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, compare, encode, from_vectors
from avow.assembly.stores import open_store
from avow.assembly.two_stage import Items, pooled_scores, rerank
from avow.core.contracts import PairedDataset, VectorMethod
from avow.core.errors import BadData, BadFeatures
from avow.core.opinion import log_evidence
from avow.data.captions import TokenTable
from avow.data.opening import open_dataset
from avow.data.subsets import images_in
from avow.metrics.recall import Join, bootstrap, mean_score, ranks, summarise

Average = Literal["similarity", "evidence"]


@dataclass(frozen=True)
class EvaluationPlan:
    """What a run is judged on, and how."""

    split: str = "test"
    data: str = ""
    """Another dataset than the run's own."""
    features: Path | None = None
    blocks: Blocks = field(default_factory=Blocks)
    device: str = "cpu"
    fold: int = 0
    """Average over folds of this many images; 0 ranks the whole split."""
    draws: int = 1000
    """Of the bootstrap; 0 leaves the intervals out."""
    subset: str = ""
    """Only images whose captions say certain things, see `data.subsets`."""
    progress: bool = False
    allow_code: bool = False

    def open_model(self, run: Path) -> Model:
        return Model.from_pretrained(run, self.device, allow_code=self.allow_code)

    def open(self, model: Model) -> tuple[PairedDataset, FeaturedSplit]:
        """The dataset and the split, or the part of it that the subset names."""
        dataset, splits = open_splits(model, self.data, self.features, [self.split])
        chosen = splits[self.split]
        if self.subset:
            chosen = chosen.only(images_in(self.subset, chosen.captions, chosen.image_of))
        return dataset, chosen

    def scores(
        self, model: Model, chosen: FeaturedSplit
    ) -> list[Float[np.ndarray, "images texts"]]:
        """Those of every view of the model."""
        table = TokenTable.from_captions(model.tokeniser, chosen.captions)
        return score_views(model.views, chosen, table, self.device, self.blocks, self.progress)

    def about(self, model: Model, run: Path, dataset: PairedDataset) -> dict[str, Any]:
        """What an evaluation says of where it comes from."""
        return {
            "run": str(run),
            "recipe": model.recipe.name,
            "seed": model.recipe.train.seed,
            "dataset": dataset.name,
            "split": self.split,
            "subset": self.subset or None,
            "precision": self.blocks.precision,
            "history": model.history,
        }


def judge_run(run: Path, plan: EvaluationPlan, *, against_fp32: bool = False) -> Evaluation:
    """A trained run on the split of `plan`.

    against_fp32: also rank in float32, and tell what the precision of `plan` changes.
    """
    model = plan.open_model(run)
    dataset, chosen = plan.open(model)
    scores = plan.scores(model, chosen)
    about = plan.about(model, run, dataset)
    if against_fp32:
        exact = replace(plan, blocks=replace(plan.blocks, precision="fp32"))
        about["against_fp32"] = difference(scores, exact.scores(model, chosen), chosen.image_of)
    return evaluate(scores, chosen.image_of, fold=plan.fold, draws=plan.draws, about=about)


def judge_together(
    runs: Sequence[Path], plan: EvaluationPlan, *, average: Average = "similarity"
) -> Evaluation:
    """Several runs, each by itself and all averaged: SGRAF is one of SAF and one of SGR.

    average: what of them is averaged; DECL-SGRAF is the mean of their evidence.
    """
    models = [plan.open_model(run) for run in runs]
    join, details = _joined_by(average, runs, models)
    means, first, about = [], None, {}
    for run, model in zip(runs, models, strict=True):
        dataset, chosen = plan.open(model)
        if first is None:
            first, about = chosen, plan.about(model, run, dataset)
        elif (first.image_ids, first.captions) != (chosen.image_ids, chosen.captions):
            raise BadData(
                f"The run {str(run)!r} sees other images or captions than {str(runs[0])!r}. "
                "Expected runs on the same split; name it for all with --data."
            )
        scores = plan.scores(model, chosen)
        means.append(np.mean(scores, axis=0) if len(scores) > 1 else scores[0])
    assert first is not None, "there is at least one run"
    about |= {"run": [str(run) for run in runs], "average": average, **details}
    return evaluate(
        means,
        first.image_of,
        fold=plan.fold,
        draws=plan.draws,
        about=about,
        names=_told_apart(runs),
        together="all runs" if average == "similarity" else f"all runs, {average}",
        join=join,
    )


def log_mean_evidence(
    parts: Sequence[Float[np.ndarray, "images texts"]], settings: Sequence[dict[str, Any]]
) -> Float[np.ndarray, "images texts"]:
    """Logarithm of the mean evidence of several runs, each with its own tau and function.

    It has the order of the mean itself, and fits where exp(s / tau) would not. In double
    precision, because float32 has fewer steps near 20 than a similarity has near 1.
    """
    total = None
    for part, own in zip(parts, settings, strict=True):
        one = log_evidence(torch.from_numpy(np.array(part, np.float64)), **own).numpy()
        total = one if total is None else np.logaddexp(total, one)
    assert total is not None, "there is at least one run"
    return total - np.log(len(parts))


def _joined_by(
    average: Average, runs: Sequence[Path], models: Sequence[Model]
) -> tuple[Join, dict[str, Any]]:
    """How the scores of runs become one, and what to tell of it."""
    if average == "similarity":
        return mean_score, {}
    for run, model in zip(runs, models, strict=True):
        if not model.gives_evidence:
            raise BadData(
                f"The run {str(run)!r} has the loss {model.recipe.loss['name']!r}, which "
                "learns no evidence. Expected one that does, such as 'decl' or 'tcl'; leave "
                "--average out to average similarities."
            )
    settings = [model.evidence_settings for model in models]
    return partial(log_mean_evidence, settings=settings), {"evidence_settings": settings}


def judge_two_stage(
    run: Path, k: int, shortlist: Path | None, plan: EvaluationPlan
) -> Evaluation:
    """A run that looks through shortlists of `k`, beside what it says of every pair.

    shortlist: the run whose vectors make them; None pools the run's own parts.
    """
    if k < 1:
        raise BadData(f"A shortlist of '{k}' was asked for. Expected at least 1 item.")
    model, blocks, device = plan.open_model(run), plan.blocks, plan.device
    dataset, chosen = plan.open(model)
    every = _items(model, chosen, plan)
    near = pooled_scores(every, blocks)
    if shortlist is not None:
        near = _near_by(shortlist, model, chosen, plan)
    started = time.monotonic()
    reranked = rerank(every, near, chosen.image_of, k, device, blocks.precision)
    between = time.monotonic()
    scores = [
        compare(each.view, each.visual, each.text, device, blocks, len(every), plan.progress)
        for each in every
    ]
    ended = time.monotonic()
    ranked = {
        "every pair": ranks(scores, chosen.image_of),
        "shortlist alone": ranks([near], chosen.image_of),
        f"shortlist of {k}": reranked.ranks,
    }
    rows = [
        Row(
            name,
            summarise(one),
            bootstrap(one, chosen.image_of, plan.draws) if plan.draws else {},
        )
        for name, one in ranked.items()
    ]
    about = facts(near.shape) | plan.about(model, run, dataset)
    about["two_stage"] = {
        "k": k,
        "shortlist": "pooled parts" if shortlist is None else str(shortlist),
        "pairs": reranked.pairs,
        "share": reranked.pairs / near.size,
        "seconds": round(between - started, 3),
        "seconds_every_pair": round(ended - between, 3),
        "rsum_lost": rows[0].recall.rsum - rows[-1].recall.rsum,
    }
    return Evaluation(tuple(rows), about)


def difference(
    scores: Sequence[Float[np.ndarray, "images texts"]],
    exact: Sequence[Float[np.ndarray, "images texts"]],
    image_of: Int[np.ndarray, " texts"],
) -> dict[str, float]:
    """What rounding changes: rSum, and the share of queries with another first answer."""
    ours, theirs = np.mean(scores, axis=0), np.mean(exact, axis=0)
    rsums = [summarise(ranks([one], image_of)).rsum for one in (ours, theirs)]
    return {
        "rsum": rsums[0] - rsums[1],
        "first_changed_image": float((ours.argmax(1) != theirs.argmax(1)).mean()),
        "first_changed_text": float((ours.argmax(0) != theirs.argmax(0)).mean()),
        "largest": float(np.abs(ours - theirs).max()),
    }


def open_splits(
    model: Model, data: str, features: Path | None, names: Sequence[str]
) -> tuple[PairedDataset, dict[str, FeaturedSplit]]:
    """Splits of a model's own dataset, or of `data`, with features the model can read."""
    wanted = {**model.recipe.data, **({"name": data} if data else {})}
    dataset = open_dataset(**wanted, allow_code=model.recipe.allow_code)
    store = None
    if model.recipe.features is not None:
        grid = model.recipe.features.grid
        named = replace(model.recipe, data=wanted)
        store = open_store(named, dataset.name, features, model.own_backbone)
        store.check(dataset=dataset, identity=model.visual["identity"], grid=grid)
    splits = {name: FeaturedSplit.join(dataset, name, store) for name in names}
    for chosen in splits.values():
        if chosen.dim != model.visual["dim"]:
            raise BadFeatures(
                f"The features of {dataset.name!r} have {chosen.dim} numbers per part. "
                f"Expected {model.visual['dim']}, as the run was trained with."
            )
    return dataset, splits


def judge_vectors(
    folder: Path,
    blocks: Blocks,
    *,
    fold: int = 0,
    draws: int = 1000,
    progress: bool = False,
) -> Evaluation:
    """Vectors of images and texts that anybody made; their dot products are ranked."""
    images, texts, image_of = (
        _array(folder / f"{name}.npy") for name in ("images", "texts", "image_of")
    )
    if images.ndim != 2 or texts.ndim != 2 or images.shape[1] != texts.shape[1]:
        raise BadData(
            f"The vectors in {str(folder)!r} have shapes {images.shape} and {texts.shape}. "
            "Expected [images, dim] and [texts, dim] with the same dim."
        )
    if image_of.dtype.kind not in "iu" or not (image_of < len(images)).all():
        raise BadData(
            f"image_of.npy in {str(folder)!r} does not name images. Expected one whole "
            f"number below {len(images)} per text."
        )
    if len(image_of) != len(texts):
        raise BadData(
            f"There are {len(texts)} texts and {len(image_of)} answers saying which image "
            "each belongs to. Expected one answer per text."
        )
    scores = from_vectors(images, texts, blocks, progress)
    return evaluate(
        [scores],
        image_of.astype(np.int64),
        fold=fold,
        draws=draws,
        about={"vectors": str(folder)},
    )


def _array(path: Path) -> np.ndarray:
    try:
        return np.lib.format.open_memmap(path, mode="r")  # an archive is none, nor is nothing
    except (OSError, ValueError) as error:
        raise BadData(
            f"The file {str(path)!r} cannot be read ({error}). Expected an array saved by "
            "numpy.save."
        ) from error


def _items(model: Model, chosen: FeaturedSplit, plan: EvaluationPlan) -> list[Items]:
    """The split as every view encodes it, in host memory."""
    device, block = plan.device, plan.blocks.encode
    table = TokenTable.from_captions(model.tokeniser, chosen.captions)
    every = []
    for view in model.views:
        read = (chosen.regions(part) for part in batches(len(chosen.rows), block))
        visual = encode(view.eval().encode_visual, read, device)
        every.append(Items(view, visual, encode_captions(view, table, device, block)))
    return every


def _near_by(
    run: Path, judged: Model, chosen: FeaturedSplit, plan: EvaluationPlan
) -> Float[np.ndarray, "images texts"]:
    """How near all pairs of a split are to the vectors of another run."""
    model = plan.open_model(run)
    if not all(isinstance(view, VectorMethod) for view in model.views):
        raise BadData(
            f"The run {str(run)!r} has the method {model.recipe.method['name']!r}, which "
            "compares parts. Expected one with a vector per item, such as 'vse_infty', for "
            "the shortlist; leave --shortlist out to pool the run's own parts."
        )
    alike = model.recipe.features == judged.recipe.features
    _, other = (plan if alike else replace(plan, features=None)).open(model)
    if (other.image_ids, other.captions) != (chosen.image_ids, chosen.captions):
        raise BadData(
            f"The run {str(run)!r} sees other images or captions than the run it makes "
            "shortlists for. Expected runs on the same split; name it with --data."
        )
    return pooled_scores(_items(model, other, plan), plan.blocks)


def _told_apart(runs: Sequence[Path]) -> list[str]:
    """The last names of the folders, or their whole paths where these are alike."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]
