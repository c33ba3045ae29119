"""From a recipe and a features folder to everything a training run needs."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from jaxtyping import Bool, Float
from torch import Tensor

from avow.assembly.model import Model, build_tokeniser, build_views
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.recipe import Recipe, names
from avow.assembly.stores import open_store
from avow.blocks.pretrained import word_vectors
from avow.core.contracts import Method, PairedDataset
from avow.core.errors import BadData, BadRecipe, WrongCheckpoint
from avow.core.seeds import seed_everything
from avow.data.believed_pairs import read_belief
from avow.data.captions import TokenTable
from avow.data.features import FeatureStore
from avow.data.noise import Noise, draw_noise, read_noise, with_noise
from avow.data.opening import open_dataset
from avow.data.vocabulary import Vocabulary
from avow.training.batches import Batches
from avow.training.tuning import PixelNetwork

LIGHT = "audit/light"
"""The recipe that learns on a processor in minutes, whatever the dataset."""


DevSets = Mapping[str, tuple[FeaturedSplit, TokenTable]]
"""What an epoch is judged on, by name."""


@dataclass(frozen=True)
class Course:
    """What a model is trained and judged on."""

    train: FeaturedSplit
    train_table: TokenTable
    dev: FeaturedSplit
    dev_table: TokenTable
    wrong: Bool[np.ndarray, " captions"] | None = None
    """Which training pairs were made wrong on purpose; nothing learns from it."""
    trust: Float[Tensor, " captions"] | None = None
    """How far each training pair is believed, where an audit was named."""

    def pixel_network(self, device: torch.device) -> None:
        """None: features are stored."""

    def batches(
        self, model: Model, accelerator: Accelerator, network: PixelNetwork | None
    ) -> Batches:
        """The batches of this process."""
        return Batches(
            self.train,
            self.train_table,
            model.recipe.train,
            len(model.views),
            accelerator.device,
            accelerator.process_index,
            accelerator.num_processes,
            keeps_regions=any(view.keeps_regions for view in model.views),
        )

    def dev_sets(self, network: PixelNetwork | None) -> DevSets:
        """The dev split alone, without a name."""
        return {"": (self.dev, self.dev_table)}


def open_data(recipe: Recipe) -> PairedDataset:
    """The dataset a recipe names."""
    return open_dataset(**recipe.data, allow_code=recipe.allow_code)


def open_features(
    recipe: Recipe, dataset: PairedDataset, where: Path | None
) -> FeatureStore | None:
    """The recipe's features: `where`, or their usual place; None where data has them."""
    wanted = recipe.features
    if wanted is None:
        return None
    store = open_store(recipe, dataset.name, where)
    store.check(dataset=dataset, grid=wanted.grid)
    made = store.manifest["backbone"]
    asked: dict[str, Any] = {"size": wanted.size} if wanted.size else {}
    if made["backbone"].partition(":")[0] != wanted.backbone:  # such as huggingface:clip
        asked["backbone"] = wanted.backbone
    store.check(identity={**made, **asked})
    return store


def fold_recipe(
    name: str,
    data: str,
    dataset: PairedDataset,
    changes: Sequence[str],
    seed: int,
    device: str,
) -> Recipe:
    """What fold models of `data` are trained with; a usual recipe where none is named.

    Two recurrent networks take hours without CUDA, and minutes with it. Data that comes with
    features is learnt from as it comes.
    """
    heavy = f"{dataset.name}/vse_infty_tcl_decl"
    usual = heavy if device.startswith("cuda") and heavy in names() else LIGHT
    # folds are of the dataset, whatever photographs the recipe trains from otherwise
    stored = ["train.photographs=''", "train.tune=0"]
    found = Recipe.open(name or usual, [*changes, f"train.seed={seed}", *stored])
    splits = dataset.splits.values()
    brings = any(split.features is not None or split.videos is not None for split in splits)
    features = None if brings and not name else found.features
    return replace(found, data={**found.data, "name": data}, features=features)


def enrol(
    recipe: Recipe, dataset: PairedDataset, store: FeatureStore | None
) -> tuple[Model, Course]:
    """A fresh model for `recipe`, and the data it will be trained and judged on."""
    noise = drawn_noise(recipe, dataset)
    left_out = recipe.noise is not None and recipe.noise.left_out
    paired = dataset if noise is None else with_noise(dataset, noise, left_out=left_out)
    train = FeaturedSplit.join(paired, "train", store)
    dev = FeaturedSplit.join(dataset, "dev", store)
    visual: dict[str, Any] = {"dim": train.dim, "parts": train.parts, "identity": None}
    history: dict[str, Any] = {"data": dataset.fingerprint, "dataset": dataset.name}
    if store is not None:
        visual["identity"] = store.manifest["backbone"]
        history["features"] = store.fingerprint
    # published vocabularies are built from train and dev captions
    captions = [*train.captions, *dev.captions]
    model = build_model(recipe, captions, visual, history, open_start(recipe))
    wrong = None
    if noise is not None and recipe.noise is not None:
        wrong = noise.wrong(dataset.splits["train"])
        wrong = (wrong[~wrong] if left_out else wrong)[train.kept]
        told = {"wrong": float(wrong.mean()), "fingerprint": paired.fingerprint}
        model.history["noise"] = {**dataclasses.asdict(recipe.noise), **told}
    course = Course(
        train,
        TokenTable.from_captions(model.tokeniser, train.captions),
        dev,
        TokenTable.from_captions(model.tokeniser, dev.captions),
        wrong,
        _believed(recipe, paired, train),
    )
    return model, course


def build_model(
    recipe: Recipe,
    captions: Sequence[str],
    visual: dict[str, Any],
    history: dict[str, Any],
    start: Model | None,
) -> Model:
    """A fresh model, or one with the weights and the vocabulary of `start`.

    visual: width, number and origin of the features. history: where they come from.
    """
    if start is not None:
        if start.visual != visual:
            raise WrongCheckpoint(
                f"The model {recipe.train.start!r} takes features {start.visual}, and these "
                f"are {visual}. Expected the same to go on with it; make features with "
                "`avow features --run`, or leave train.start out."
            )
        history["start"] = start.fingerprint
        before = [start.history.get("dataset", ""), *start.history.get("learnt", [])]
        names_learnt = dict.fromkeys([*history.get("learnt", []), *before])
        history["learnt"] = [name for name in names_learnt if name]
        return Model(recipe, start.views, start.tokeniser, visual, history, start.tuned)
    tokeniser = build_tokeniser(recipe, captions)
    seed_everything(recipe.train.seed, "weights")
    views = build_views(recipe, tokeniser, visual["dim"])
    if recipe.method.get("text") == "glove" and isinstance(tokeniser, Vocabulary):
        _start_from_vectors(views, tokeniser, recipe.method.get("text_source", ""))
    return Model(recipe, views, tokeniser, visual, history)


def open_start(recipe: Recipe) -> Model | None:
    """The model whose weights go on learning, where the recipe names one."""
    if not recipe.train.start:
        return None
    start = Model.from_pretrained(recipe.train.start, allow_code=recipe.allow_code)
    same_views = len(start.views) == recipe.build_loss().views
    if start.recipe.whole_method != recipe.whole_method or not same_views:
        raise WrongCheckpoint(
            f"The model {recipe.train.start!r} has {len(start.views)} views of "
            f"{start.recipe.method}. Expected {recipe.build_loss().views} of {recipe.method}, "
            "as the recipe says; change the recipe, or leave train.start out."
        )
    return start


def _believed(
    recipe: Recipe, dataset: PairedDataset, train: FeaturedSplit
) -> Float[Tensor, " captions"] | None:
    """What an audit found of the training pairs, for a loss that weighs them."""
    folder = recipe.train.trust
    if not folder:
        return None
    if not recipe.build_loss().weighs:
        raise BadRecipe(
            f"The loss {recipe.loss['name']!r} does not weigh pairs by train.trust: it takes "
            "them all alike, or judges them itself. Expected 'tcl', or no train.trust."
        )
    belief = read_belief(Path(folder), dataset)[train.kept]
    unknown = int(np.isnan(belief).sum())
    if unknown:
        raise BadData(
            f"The audit {folder!r} says nothing of {unknown} of {len(belief)} training pairs. "
            "Expected all that have features; audit them with features of the same photographs."
        )
    return torch.from_numpy(belief).float()


def drawn_noise(recipe: Recipe, dataset: PairedDataset) -> Noise | None:
    """The noise that a recipe asks for, the same whenever it is asked."""
    asked = recipe.noise
    if asked is None or asked.is_none:
        return None
    if asked.file:
        return read_noise(Path(asked.file), asked.by)
    if "train" not in dataset.splits:
        return None  # refused where the split is joined with its features
    return draw_noise(dataset.splits["train"], asked.ratio, asked.by, asked.kind, asked.seed)


def _start_from_vectors(views: list[Method], vocabulary: Vocabulary, source: str) -> None:
    words, vectors = word_vectors(source or "glove")
    for view in views:
        view.use_word_vectors(vocabulary.listed, words, vectors)
