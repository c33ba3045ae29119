"""The [train] part of a recipe: how the weights are learnt."""

import math
from dataclasses import dataclass, field
from typing import Literal

from avow.core.errors import BadRecipe

LATER = {"later": True}
"""Marks a setting that came when models had been saved: what names one must stay the same."""


@dataclass(frozen=True)
class Training:
    """How the weights are learnt. Rates and ratios as the papers give them."""

    epochs: int = 25
    batch: int = 128
    lr: float = 5e-4
    optimiser: Literal["adamw", "adam", "radam"] = "adamw"
    weight_decay: float = 0.01
    decay_after: int = 15
    """The learning rate is multiplied by `decay` after this many epochs."""
    decay_every: int = field(default=0, metadata=LATER)
    """And again after every so many epochs from then on; 0: once."""
    decay: float = 0.1
    schedule: Literal["step", "cosine", "cosine_batches", "exponential"] = "step"
    """Instead of such steps, "cosine" lowers the rate epoch by epoch towards 0,
    "cosine_batches" batch by batch, and "exponential" multiplies it by `decay` after every
    epoch."""
    warm_up: int = field(default=0, metadata=LATER)
    """Batches over which the rate rises from 0 to what the schedule says."""
    clip: float = 2.0
    """Largest gradient norm of each view."""
    average: float = field(default=0.0, metadata=LATER)
    """Judge and keep an average of the weights, which keeps this share of itself after every
    batch and takes the rest from the trained weights; 0: the trained weights themselves."""
    pretrained_lr: float = 0.1
    """Learning rate of a pretrained text encoder, relative to `lr`."""
    pretrained_from: int = 1
    """Epochs for which a pretrained text encoder stays frozen."""
    words_changed: float = 0.2
    regions_changed: float = 0.2
    region_change: Literal["drop", "mask"] = "drop"
    same_image_matches: bool = False
    """Whether captions of one image in one batch all count as its matches."""
    pool: int = field(default=1, metadata=LATER)
    """So many batches are drawn at once and sorted by the lengths of their captions, so that
    a batch has little padding: quicker, and its negatives are about as long as its texts."""
    trust: str = field(default="", metadata=LATER)
    """Folder of an audit: every pair counts as far as the audit found it right."""
    start: str = field(default="", metadata=LATER)
    """A run or saved model of the same method, whose weights go on learning."""
    photographs: str = field(default="", metadata=LATER)
    """Folder of decoded photographs, or its name in the data home: train from pixels that are
    cropped, turned and coloured anew in every batch, instead of features. The dataset of the
    recipe is then what a run is evaluated on where nobody names another."""
    tune: float = field(default=0.0, metadata=LATER)
    """With `photographs`: learning rate of the pixel network; 0: it stays as it is."""
    tune_from: int = field(default=7, metadata=LATER)
    """The first block of the pixel network that learns."""
    tune_keep: float = field(default=1.0, metadata=LATER)
    """Weight of the divergence of the pixel network's classes from what they were."""
    precision: Literal["fp32", "tf32", "bf16"] = "tf32"
    graphs: bool = True
    """On one CUDA device: record each batch shape as a CUDA graph and replay it."""
    whole_batches: bool = field(default=False, metadata=LATER)
    """With `graphs`: record the loss and the steps of the optimiser, too, anew every epoch."""
    kernels: bool = field(default=False, metadata=LATER)
    """On a CUDA device with Triton: read captions with the GRUs of all views at once, and learn
    by fused kernels. The same numbers to rounding; with bfloat16 a run of SGR has ended in
    similarities that are not finite."""
    gather: bool = False
    """With several processes: whether K is the global batch."""
    patience: int = 0
    """Stop after this many epochs without a better dev rSum; 0 never stops early."""
    save_half: bool = field(default=False, metadata=LATER)
    """Keep the best weights in half precision: a folder of half the size."""
    seed: int = 0


def check_training(train: Training, *, has_backbone: bool) -> None:
    """Refuse numbers out of range, and settings that need others."""
    for key, least in (
        *(("epochs", 1), ("batch", 1), ("warm_up", 0)),
        *(("tune", 0), ("tune_from", 0), ("tune_keep", 0)),
    ):
        value = getattr(train, key)
        if not least <= value < math.inf:
            raise BadRecipe(
                f"train.{key} is {value}. Expected at least {least}; change train.{key}."
            )
    if not 0 < train.lr < math.inf:
        raise BadRecipe(f"train.lr is {train.lr}. Expected a number above 0; change train.lr.")
    if not 0 <= train.average < 1:
        raise BadRecipe(
            f"train.average is {train.average}. Expected 0 or more and below 1, such as 0.998; "
            "change train.average."
        )
    if train.tune and not train.photographs:
        raise BadRecipe(
            "train.tune is set and train.photographs is not. Expected both: a pixel network "
            "learns from photographs; name their folder with train.photographs."
        )
    if train.photographs and not has_backbone:
        raise BadRecipe(
            "train.photographs is set and the recipe has no [features]. Expected the pixel "
            "network to use there; add [features] with a backbone."
        )
