"""Models that never saw what they will judge: the training split in folds.

    fold 0 1 2 3 4:   model 0 learns from 1 2 3 4 and judges 0, and so on

Images are dealt out, and their captions follow. Every fold is a run of its own below one
folder, and is trained on where it was stopped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from avow.assembly.recipe import Recipe
from avow.core.contracts import PairedDataset, Split
from avow.core.errors import BadData, WrongCheckpoint
from avow.core.seeds import mix
from avow.data.features import FeatureStore
from avow.training.loop import train
from avow.training.setup import enrol
from avow.training.state import open_run
from avow.training.trained_pairs import NOTE

FEWEST = 2
FEW_STEPS = 100
"""Below so many, fold models have hardly learnt anything."""


@dataclass(frozen=True)
class Fold:
    """A trained run, and the images of the split that it did not learn from."""

    run: Path
    images: tuple[str, ...]


def deal(images: int, folds: int, seed: int) -> Int[np.ndarray, " images"]:
    """The fold of every image; all folds alike in size."""
    rng = np.random.default_rng(mix(seed, "folds", folds))
    return rng.permutation(np.arange(images) % folds)


def chosen(split: Split, images: Bool[np.ndarray, " images"]) -> Split:
    """Some images of a split, with their captions."""
    place = np.cumsum(images) - 1
    captions = np.flatnonzero(images[split.image_of])
    kept = np.flatnonzero(images)
    rows = split.feature_rows
    if split.features is not None:
        rows = kept if rows is None else rows[kept]
    return replace(
        split,
        image_ids=tuple(split.image_ids[n] for n in kept),
        captions=tuple(split.captions[n] for n in captions),
        image_of=place[split.image_of[captions]],
        files=None if split.files is None else tuple(split.files[n] for n in kept),
        feature_rows=rows,
        times=None if split.times is None else split.times.rows(kept),
    )


def fold_steps(recipe: Recipe, captions: int, folds: int) -> int:
    """How often the weights of each fold's model are changed."""
    learnt = captions * (folds - 1) // folds
    return recipe.train.epochs * (learnt // recipe.train.batch)


def train_folds(
    recipe: Recipe,
    dataset: PairedDataset,
    store: FeatureStore | None,
    out: Path,
    folds: int,
    *,
    progress: bool = True,
    device: str | None = None,
) -> Iterator[Fold]:
    """One run per fold of the training split, each when it is asked for.

    Those already trained are kept.
    """
    if "train" not in dataset.splits or folds < FEWEST:
        raise BadData(
            f"The dataset {dataset.name!r} cannot be judged in {folds} folds of a training "
            f"split. Expected such a split and at least {FEWEST} folds; name a trained run "
            "with --run to judge other splits."
        )
    split = dataset.splits["train"]
    if len(split.image_ids) < 2 * folds:
        raise BadData(
            f"The {len(split.image_ids)} training images of {dataset.name!r} are too few for "
            f"{folds} folds. Expected two or more in each, which are rivals; lower --folds."
        )
    if store is not None and "dev" not in dataset.splits:
        store = _with_dev(store)
    fold_of = deal(len(split.image_ids), folds, recipe.train.seed)
    for number in range(folds):
        learnt = chosen(split, fold_of != number)
        judged = chosen(split, fold_of == number)
        parts = {**dataset.splits, "train": learnt}
        # where nothing else can say when to stop, other folds do: never the one to judge
        parts.setdefault("dev", _last_images(learnt, store))
        run = out / f"fold{number}"
        if (run / "last").is_file() and not (run / NOTE).is_file():
            raise WrongCheckpoint(
                f"The run in {str(run)!r} does not say which pairs it has learnt from. "
                "Expected a note of them, so that it judges none of them; choose another --out."
            )
        open_run(run, recipe, resume=True)
        model, course = enrol(recipe, PairedDataset(dataset.name, parts), store)
        train(model, course, run, resume=True, progress=progress, device=device)
        yield Fold(run, judged.image_ids)


def _last_images(split: Split, store: FeatureStore | None) -> Split:
    """A tenth of the images with features, at most 500: enough to choose an epoch by."""
    there = np.ones(len(split.image_ids), bool)
    if store is not None:
        there = store.split("train").rows_of(split.image_ids) >= 0
    last = np.flatnonzero(there)[-max(1, min(500, len(there) // 10)) :]
    return chosen(split, np.isin(np.arange(len(there)), last))


def _with_dev(store: FeatureStore) -> FeatureStore:
    """The same store, in which images of the training split are found as dev images too."""
    splits = {name: store.split(name) for name in store.names}
    splits["dev"] = splits["train"]
    return FeatureStore(store.folder, store.manifest, store.boxes, splits)
