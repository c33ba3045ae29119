"""Evaluate what lies on disk: a trained run on a split, or anybody's vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from avow.assembly.evaluate import Evaluation, evaluate, score_views
from avow.assembly.features import default_folder
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, from_vectors
from avow.core.contracts import PairedDataset
from avow.core.errors import BadData, BadFeatures
from avow.data._captions import TokenTable
from avow.data._features import FeatureStore
from avow.data._open import open_dataset


def judge_run(
    run: Path,
    split: str,
    data: str,
    features: Path | None,
    blocks: Blocks,
    device: str,
    *,
    fold: int = 0,
    draws: int = 1000,
    progress: bool = False,
) -> Evaluation:
    """A trained run on `split` of its own dataset, or of `data`."""
    model = Model.from_pretrained(run, device)
    dataset, splits = open_splits(model, data, features, [split])
    chosen = splits[split]
    table = TokenTable.from_captions(model.tokeniser, chosen.captions)
    scores = score_views(model.views, chosen, table, device, blocks, progress)
    about = {
        "run": str(run),
        "recipe": model.recipe.name,
        "seed": model.recipe.train.seed,
        "dataset": dataset.name,
        "split": split,
        "history": model.history,
    }
    return evaluate(scores, chosen.image_of, fold=fold, draws=draws, about=about)


def open_splits(
    model: Model, data: str, features: Path | None, names: Sequence[str]
) -> tuple[PairedDataset, dict[str, FeaturedSplit]]:
    """Splits of a model's own dataset, or of `data`, with features the model can read."""
    wanted = {**model.recipe.data, **({"name": data} if data else {})}
    dataset = open_dataset(**wanted)
    store = None
    if model.recipe.features is not None:
        made = model.recipe.features
        usual = default_folder(dataset.name, made.label, made.size, made.grid)
        store = FeatureStore.open(features or usual)
        store.check(dataset=dataset, identity=model.visual["identity"], grid=made.grid)
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
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadData(
            f"The file {str(path)!r} cannot be read ({error}). Expected an array saved by "
            "numpy.save."
        ) from error
