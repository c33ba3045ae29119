"""Vision towers from the model hub: CLIP, SigLIP, DINOv2, ViT and their like.

    photograph --stretch--> bytes --mean, std--> transformer --> patch tokens as a grid

The photograph is stretched to the input size, where these models' own preparation
crops its middle: no content is lost, and every cell has its place in the photograph.
Mean, deviation, size and interpolation are the model's own. Tokens that stand for no
patch (class, registers) are dropped. Only the vision half of a two-tower model is read.

Papers: Radford et al., "Learning Transferable Visual Models From Natural Language
Supervision", ICML 2021; Zhai et al., "Sigmoid Loss for Language Image Pre-Training",
ICCV 2023; Oquab et al., "DINOv2", TMLR 2024; Dosovitskiy et al., "An Image is Worth
16x16 Words", ICLR 2021.
"""

import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from avow.blocks.pretrained import load, model_files, of_weights, read_config
from avow.core.contracts import Backbone
from avow.core.documents import read_object
from avow.core.errors import BadRecipe
from avow.core.photographs import stretched

_LARGEST = 4096  # pixels per side
_TOWERS = {
    "clip_vision_model": ("clip.modeling_clip", "CLIPVisionModel"),
    "siglip_vision_model": ("siglip.modeling_siglip", "SiglipVisionModel"),
}
"""Halves of models with two towers, which the list of models does not have."""


class VisionTower(Backbone):
    """A vision transformer whose patch tokens are read as grid cells."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: Any, identity: dict[str, Any], patch: int):
        super().__init__()
        self.network = network
        self.identity = identity
        self.size: int = identity["size"]
        self.cells = self.size // patch
        self.dim = network.config.hidden_size
        self.resample = Image.Resampling[identity["resample"].upper()]
        self.register_buffer("mean", 255 * torch.tensor(identity["mean"]))
        self.register_buffer("deviation", 255 * torch.tensor(identity["std"]))
        self.options = _options(network, self.size)

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return stretched(photograph, self.size, self.resample)

    def forward(
        self, pixels: UInt8[Tensor, "items height width 3"]
    ) -> Float[Tensor, "items rows columns dim"]:
        scaled = (pixels.to(self.mean.dtype) - self.mean) / self.deviation
        planes = scaled.permute(0, 3, 1, 2)
        tokens = self.network(planes, **self.options).last_hidden_state
        patches = tokens[:, -(self.cells**2) :]  # class and register tokens come first
        return patches.unflatten(1, (self.cells, self.cells)).float()


def build(name: str = "openai/clip-vit-base-patch32", size: int = 0) -> VisionTower:
    """name: hub name, or a folder made by `save_pretrained` (image processor included).

    size: pixels per side of the stretched photograph; 0 for the model's own.
    """
    folder = model_files(name)
    config = vision_config(name, folder)
    processor = processor_settings(name, folder)
    size = size or own_size(processor) or config.image_size
    _check_size(name, size, config.patch_size)
    network = load(_network_class(config), name, config)
    identity = {
        "backbone": f"huggingface:{config.model_type}",
        "weights": of_weights(network),
        "size": size,
        "preprocessing": "rgb, upright, stretched",
        "resample": Image.Resampling(processor.get("resample", 3)).name.lower(),
        "mean": processor["image_mean"],
        "std": processor["image_std"],
    }
    frozen = network.eval().requires_grad_(False)
    return VisionTower(frozen, identity, config.patch_size).eval()


def vision_config(name: str, folder: Path) -> Any:
    """The configuration of the vision half, or of the whole where there is one half."""
    whole = read_config(name, folder)
    config = getattr(whole, "vision_config", whole)
    for wanted in ("image_size", "patch_size"):
        if not isinstance(getattr(config, wanted, None), int):
            raise BadRecipe(
                f"{name!r} is a {whole.model_type!r} model, which does not cut an "
                "image of one size into patches. Expected CLIP, SigLIP, DINOv2 or ViT; "
                "choose another model."
            )
    return config


def _network_class(config: Any) -> Any:
    if config.model_type in _TOWERS:
        module, name = _TOWERS[config.model_type]
        return getattr(importlib.import_module(f"transformers.models.{module}"), name)
    # from where it is: the list of everything takes a type checker long to read
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    return MODEL_MAPPING[type(config)]


def processor_settings(name: str, folder: Path) -> dict[str, Any]:
    """How the model wants its pixels; some nest it in 'processor_config.json'."""
    for file in ("preprocessor_config.json", "processor_config.json"):
        if (folder / file).is_file():
            settings = _processor(folder / file)
            if settings is not None:
                return settings
    raise BadRecipe(
        f"The model {name!r} has no 'preprocessor_config.json' with an 'image_mean' "
        "and an 'image_std'. Expected a vision model saved with its image processor. "
        "Save the processor into the same folder."
    )


def _processor(file: Path) -> dict[str, Any] | None:
    """The settings in a file, where they are those of photographs."""
    try:
        settings = read_object(file)
        settings = settings.get("image_processor", settings)
        if not isinstance(settings, dict) or not {"image_mean", "image_std"} <= settings.keys():
            return None
        for key in ("image_mean", "image_std"):
            numbers = np.array(settings[key], float)
            if numbers.shape != (3,) or not np.isfinite(numbers).all():
                raise ValueError(f"{key!r} is not three numbers")
        if not all(settings["image_std"]):
            raise ValueError("'image_std' has a 0")
        Image.Resampling(settings.get("resample", 3))
        size = own_size(settings)
        if not isinstance(size, int) or not 0 <= size <= _LARGEST:
            raise ValueError(f"its size is not a number from 0 to {_LARGEST}")
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise BadRecipe(
            f"The file {str(file)!r} cannot be used ({error}). Expected the settings of an "
            "image processor; save the processor into the same folder again."
        ) from error
    return settings


def own_size(processor: dict[str, Any]) -> int:
    """The size the processor ends with: that of its crop, where it crops."""
    crops = processor.get("do_center_crop") and processor.get("crop_size")
    chosen = processor["crop_size"] if crops else processor.get("size", 0)
    if isinstance(chosen, dict):
        return chosen.get("height") or chosen.get("shortest_edge") or 0
    return chosen


def _check_size(name: str, size: int, patch: int) -> None:
    if size < patch or size % patch:
        near = max(1, round(size / patch)) * patch
        raise BadRecipe(
            f"The size {size} does not fit {name!r}, which cuts images into patches of "
            f"{patch} pixels. Expected a multiple of {patch}; try {near}."
        )


def _options(network: Any, size: int) -> dict[str, bool]:
    """Tell networks that were trained at another size to stretch their positions."""
    parameters = inspect.signature(network.forward).parameters
    other = size != network.config.image_size
    needed = other and "interpolate_pos_encoding" in parameters
    return {"interpolate_pos_encoding": True} if needed else {}
