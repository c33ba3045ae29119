"""From a recipe and decoded photographs to everything a training run from pixels needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from jaxtyping import Float16, Int, UInt8
from torch import Tensor

from avow.assembly.features import cell_boxes
from avow.assembly.model import Model, build_backbone
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.recipe import Recipe
from avow.assembly.scores import batches
from avow.core.contracts import Backbone, PairedDataset, SiftingLoss, Split
from avow.core.errors import BadData, BadRecipe
from avow.data.captions import TokenTable
from avow.data.decoded_photographs import (
    DecodedPhotograph,
    DecodedPhotographs,
    open_photographs,
)
from avow.data.features import ArrayRows
from avow.training.pixels import PixelBatches, Telling, seen
from avow.training.setup import DevSets, build_model, open_start
from avow.training.tuning import Frozen, PixelNetwork, Tuning

LABEL_SHARE = 0.2
"""How often a photograph with labels is shown with one of them instead of a caption."""
_AT_ONCE = 512


@dataclass(frozen=True)
class PixelCourse:
    """Photographs that a model is trained and judged on, and all that is said of them."""

    recipe: Recipe
    decoded: DecodedPhotographs
    backbone: Backbone
    train: Split
    """Every photograph that learns, with every text that may be drawn for it."""
    train_table: TokenTable
    telling: Telling
    rows: Int[np.ndarray, " images"]
    """Where the pixels of the photographs of `train` are."""
    dev: dict[str, tuple[list[DecodedPhotograph], TokenTable]]
    wrong: None = None
    trust: None = None

    def pixel_network(self, device: torch.device) -> PixelNetwork:
        """The network that makes cells of photographs, on its device."""
        train, backbone = self.recipe.train, self.backbone.to(device)
        if not train.tune:
            return Frozen(backbone, self.grid)
        return Tuning(backbone, train.tune, train.tune_from, train.tune_keep, self.grid)

    def batches(
        self, model: Model, accelerator: Accelerator, network: PixelNetwork | None
    ) -> PixelBatches:
        """The batches of an epoch; the photographs stay on the device for the whole run."""
        assert network is not None, "pixels need a network"
        if accelerator.num_processes > 1:
            raise BadRecipe(
                "train.photographs is set and there are several processes. Expected one: "
                "training from pixels is written for one device; start it without torchrun."
            )
        return PixelBatches(
            self._pixels(self.rows, accelerator.device),
            self.telling,
            self.train_table,
            _same_texts(self.train.captions),
            self.recipe.train,
            len(model.views),
            network.see,
        )

    def dev_sets(self, network: PixelNetwork | None) -> DevSets:
        """The dev photographs of every dataset, as the network sees them now."""
        assert network is not None, "pixels need a network"
        return {
            name: (self._featured(photographs, network.average), table)
            for name, (photographs, table) in self.dev.items()
        }

    @property
    def grid(self) -> int:
        assert self.recipe.features is not None, "checked with the recipe"
        return self.recipe.features.grid

    def _featured(
        self, photographs: Sequence[DecodedPhotograph], backbone: Backbone
    ) -> FeaturedSplit:
        ids, captions, image_of = _captioned(photographs)
        rows = np.array([one.row for one in photographs])
        source = ArrayRows(ids, self._cells(rows, backbone))
        places = np.arange(len(rows))
        return FeaturedSplit(source, ids, places, captions, image_of, cell_boxes(self.grid))

    def _cells(
        self, rows: Int[np.ndarray, " images"], backbone: Backbone
    ) -> Float16[np.ndarray, "images parts dim"]:
        device = next(backbone.parameters()).device
        cells = [
            seen(backbone, self._pixels(rows[part], device), self.grid).features.half().cpu()
            for part in batches(len(rows), _AT_ONCE)
        ]
        return torch.cat(cells).numpy()

    def _pixels(
        self, rows: Int[np.ndarray, " images"], device: torch.device
    ) -> UInt8[Tensor, "images size size 3"]:
        out = torch.empty(
            (len(rows), *self.decoded.pixels.shape[1:]), dtype=torch.uint8, device=device
        )
        for part in batches(len(rows), _AT_ONCE):
            out[part[0] : part[-1] + 1] = torch.from_numpy(self.decoded.pixels[rows[part]])
        return out


def enrol_photographs(recipe: Recipe) -> tuple[Model, PixelCourse]:
    """A model for `recipe`, and the photographs it will be trained and judged on."""
    _refuse_what_needs_stored_pairs(recipe)
    assert recipe.features is not None, "checked with the recipe"
    decoded = open_photographs(recipe.train.photographs)
    size = decoded.pixels.shape[1]
    if size != recipe.features.size:
        raise BadData(
            f"The photographs in '{decoded.folder}' have {size} pixels a side. Expected "
            f"{recipe.features.size}, as features.size says; prepare them again or change it."
        )
    groups = decoded.of("train")
    learning = [one for one in decoded.listed if one.split == "train"]
    if not learning or not decoded.of("dev"):
        raise BadData(
            f"The photographs in '{decoded.folder}' lack the split "
            f"{'dev' if learning else 'train'!r}. Expected both; prepare them again."
        )
    split, telling = tellings(learning)
    start = open_start(recipe)
    backbone = build_backbone(recipe) if start is None else start.backbone
    parts = recipe.features.grid**2
    visual = {"dim": backbone.dim, "parts": parts, "identity": backbone.identity}
    history: dict[str, Any] = {
        "data": PairedDataset("photographs", {"train": split}).fingerprint,
        "learnt": list(groups),
    }
    model = build_model(recipe, split.captions, visual, history, start)
    dev = {
        name: (own, TokenTable.from_captions(model.tokeniser, _captioned(own)[1]))
        for name, own in decoded.of("dev").items()
    }
    course = PixelCourse(
        recipe,
        decoded,
        backbone,
        split,
        TokenTable.from_captions(model.tokeniser, split.captions),
        telling,
        np.array([one.row for one in learning]),
        dev,
    )
    return model, course


def tellings(photographs: Sequence[DecodedPhotograph]) -> tuple[Split, Telling]:
    """Photographs with all their texts, and how often each is shown with which."""
    image, choices, texts, image_of = [], [], [], []
    for place, one in enumerate(photographs):
        own = list(range(len(texts), len(texts) + len(one.texts) + len(one.labels)))
        texts += [*one.texts, *one.labels]
        image_of += [place] * len(own)
        if one.labels:  # they are drawn in LABEL_SHARE of the cases, whatever their number
            rest = len(one.labels) * (1 / LABEL_SHARE - 1) / len(one.texts)
            own += own[: len(one.texts)] * max(1, round(rest) - 1)
        image += [place] * one.times
        choices += [np.array(own)] * one.times
    ids = tuple(one.image_id for one in photographs)
    split = Split(ids, tuple(texts), np.array(image_of, np.int64))
    return split, Telling(np.array(image), choices)


def _same_texts(texts: Sequence[str]) -> Int[np.ndarray, " texts"]:
    """A number for every text; the same one for texts of the same words."""
    number: dict[str, int] = {}
    return np.array([number.setdefault(text.lower(), len(number)) for text in texts])


def _captioned(
    photographs: Sequence[DecodedPhotograph],
) -> tuple[tuple[str, ...], tuple[str, ...], Int[np.ndarray, " captions"]]:
    """Names of photographs, their captions, and which photograph each caption is of."""
    counts = [len(one.texts) for one in photographs]
    return (
        tuple(one.image_id for one in photographs),
        tuple(text for one in photographs for text in one.texts),
        np.repeat(np.arange(len(photographs), dtype=np.int64), counts),
    )


def _refuse_what_needs_stored_pairs(recipe: Recipe) -> None:
    """A photograph is shown with another text every time, so no pair has a place of its own."""
    loss = recipe.build_loss()
    asked = {
        f"the loss {recipe.loss['name']!r}": isinstance(loss, SiftingLoss) or loss.needs_fits,
        "train.trust": bool(recipe.train.trust),
        "[noise]": recipe.noise is not None and not recipe.noise.is_none,
    }
    for name, there in asked.items():
        if there:
            raise BadRecipe(
                f"train.photographs is set, and {name} judges single training pairs. Expected "
                "a recipe without it; leave one of the two out."
            )
