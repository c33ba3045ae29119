"""Two-tower models of the hub as a joint space: CLIP, SigLIP and SigLIP 2.

    photograph --stretch--> bytes --mean, std--> vision tower --project--> unit vector
    text --tokens, padded as in training-------> text tower ---project--> unit vector

As in `backbones/huggingface.py` the photograph is stretched rather than cropped: nothing of
it is lost, and every block of pixels has its place in it. SigLIP learnt texts of one fixed
length without a mask, so its padding must be the same here.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Num, UInt8
from PIL import Image
from torch import Tensor, nn

from avow.backbones.huggingface import own_size, processor_settings, vision_config
from avow.blocks.normalise import unit
from avow.blocks.pretrained import load, model_files, of_weights, read_config
from avow.core.captions import check_caption
from avow.core.errors import BadRecipe
from avow.core.fingerprint import of_file, of_text
from avow.core.opinion import EvidenceKind
from avow.core.photographs import stretched
from avow.core.searching import Encoder

_AT_ONCE = 64
_PANIC = "PanicException"
"""What the library of tokenisers raises where its own code gives up; no Exception."""


class HubEncoder(Encoder):
    """One view: the projected vectors of both towers."""

    views = 1
    tau: float = 0.05
    kind: EvidenceKind = "exp"

    def __init__(
        self, name: str, network: nn.Module, words: Any, look: dict[str, Any], device: str
    ):
        """words: the model's tokeniser. look: size, resample, mean and std of its pixels."""
        self.name = name
        self.network: Any = network.to(device).eval().requires_grad_(False)
        self.words = words
        self.device = torch.device(device)
        self.size: int = look["size"]
        self.resample = Image.Resampling[look["resample"].upper()]
        self.mean = 255 * torch.tensor(look["mean"], device=self.device)
        self.deviation = 255 * torch.tensor(look["std"], device=self.device)
        config: Any = self.network.config
        self.fixed_length = config.model_type.startswith("siglip")
        self.longest: int = config.text_config.max_position_embeddings
        self.fingerprint = of_text([of_weights(network), json.dumps(look, sort_keys=True)])
        self.dim = self.encode_texts(["a"]).shape[1]

    @classmethod
    def open(cls, name: str, device: str = "cpu", place: str = "") -> "HubEncoder":
        """name: a folder made by `save_pretrained` (processor and tokeniser included), or a
        name on the hub. place: the folder to read it from, where it is known."""
        from transformers.models.auto.modeling_auto import MODEL_MAPPING
        from transformers.models.auto.tokenization_auto import AutoTokenizer

        place = place or name
        folder = model_files(place, needed=("config.json", "tokenizer.json"))
        config = read_config(name, folder)
        network_class: Any = (
            MODEL_MAPPING[type(config)] if type(config) in MODEL_MAPPING else None
        )
        if not hasattr(network_class, "get_image_features") or not hasattr(
            config, "text_config"
        ):
            raise BadRecipe(
                f"{name!r} is a {config.model_type!r} model, which has no vectors for both "
                "images and texts. Expected CLIP, SigLIP or SigLIP 2; choose another model."
            )
        network = load(network_class, place, config)
        look = _look(name, folder)
        try:
            words = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            return cls(name, network, words, look, device)
        except BadRecipe:
            raise
        except Exception as error:  # its tokeniser and its first text meet any setting
            raise _encodes_nothing(name, error) from error

    def prepare(self, photograph: Image.Image) -> UInt8[np.ndarray, "size size 3"]:
        return stretched(photograph, self.size, self.resample)

    @torch.inference_mode()
    def encode_prepared(
        self, pixels: Num[np.ndarray, "items ..."]
    ) -> Float[np.ndarray, "items dim"]:
        parts = []
        for start in range(0, len(pixels), _AT_ONCE):
            batch = torch.from_numpy(pixels[start : start + _AT_ONCE]).to(self.device)
            scaled = ((batch.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)
            parts.append(_pooled(self.network.get_image_features(pixel_values=scaled)))
        return unit(torch.cat(parts)).cpu().numpy()

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Float[np.ndarray, "items dim"]:
        for number, text in enumerate(texts, 1):
            check_caption(text, f"Text {number}")
        parts = []
        for start in range(0, len(texts), _AT_ONCE):
            tokens = self._tokens([*texts[start : start + _AT_ONCE]])
            parts.append(_pooled(self.network.get_text_features(**tokens)))
        return unit(torch.cat(parts)).cpu().numpy()

    def _tokens(self, texts: list[str]) -> dict[str, Tensor]:
        try:
            tokens = self.words(
                [text.lower() for text in texts] if self.fixed_length else texts,
                padding="max_length" if self.fixed_length else True,
                max_length=self.longest,
                truncation=True,
                return_tensors="pt",
            )
        except BaseException as error:
            if type(error).__name__ != _PANIC:
                raise
            raise _encodes_nothing(self.name, error) from None
        needed = ("input_ids",) if self.fixed_length else ("input_ids", "attention_mask")
        return {key: tokens[key].to(self.device) for key in needed}


def _encodes_nothing(name: str, error: BaseException) -> BadRecipe:
    message = " ".join(str(error).split())[:200]
    return BadRecipe(
        f"The model {name!r} encodes no text ({message}). Expected a model whose "
        "tokeniser, sizes and weights go together; save or download it again."
    )


def _look(name: str, folder: Path) -> dict[str, Any]:
    """How the model wants its pixels, and what its tokeniser is."""
    settings = processor_settings(name, folder)
    return {
        "size": own_size(settings) or vision_config(name, folder).image_size,
        "resample": Image.Resampling(settings.get("resample", 3)).name.lower(),
        "mean": settings["image_mean"],
        "std": settings["image_std"],
        "preprocessing": "rgb, upright, stretched",
        "tokeniser": of_file(folder / "tokenizer.json"),
    }


def _pooled(output: Any) -> Float[Tensor, "items dim"]:
    """The vectors; newer versions of transformers hand them over inside a record."""
    vectors = output if isinstance(output, Tensor) else output.pooler_output
    return vectors.float()
