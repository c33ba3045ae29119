"""Joint spaces that need torch: a trained model, or a two-tower model of the hub.

`encoders/opening.py` opens an encoder by name, and comes here where torch is needed.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Num
from PIL import Image
from torch import Tensor

from avow.assembly.evaluate import encode_captions
from avow.assembly.features import fastest
from avow.assembly.model import DEFAULT, Model, packaged_folder
from avow.assembly.model_files import pointed
from avow.assembly.opening import error_line
from avow.assembly.pairs import some
from avow.assembly.photographs import pixel_regions
from avow.assembly.scores import batches, encode
from avow.blocks.pretrained import at_hand
from avow.core.contracts import Backbone, Method, Regions, VectorMethod
from avow.core.errors import (
    AvowError,
    BadRecipe,
    WrongCheckpoint,
)
from avow.core.files import recover
from avow.core.fingerprint import of_text
from avow.core.searching import Encoder
from avow.data.captions import TokenTable
from avow.retrieval.encoders import bank
from avow.retrieval.encoders.hub import HubEncoder
from avow.retrieval.encoders.onnx_text import Texts, quick_texts
from avow.retrieval.spelling import mostly_english

ALIASES = {
    "siglip2": "google/siglip2-base-patch16-224",
    "clip": "openai/clip-vit-base-patch32",
}
_AT_ONCE = 256
_FEW = 4  # texts of a question; many texts are encoded by length, without padding


def use_threads(count: int) -> None:
    """Let torch compute with so many threads in this process; 0: leave it as it is."""
    if count:
        torch.set_num_threads(count)


def open_with_torch(
    name: str = DEFAULT, device: str = "cpu", *, allow_code: bool = False
) -> Encoder:
    """The encoder called `name`, as `encoders.opening` lists them."""
    if name == DEFAULT:
        return ModelEncoder.open(packaged_folder(), name, device)
    folder = Path(name).expanduser()
    recover(folder)
    if (folder / "avow.json").is_file() or (folder / "best").is_file():
        return ModelEncoder.open(folder, str(folder.resolve()), device, allow_code=allow_code)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise WrongCheckpoint(
            f"There is no model in {name!r}. Expected a folder made by `avow train` or "
            "`save_pretrained`, or a two-tower model saved by transformers; check the path."
        )
    source = str(folder.resolve()) if folder.is_dir() else ALIASES.get(name, name)
    return HubEncoder.open(source, device)


def open_cached(name: str, device: str = "cpu") -> Encoder | None:
    """A model in the local cache of the hub; None where it is not there."""
    source = ALIASES.get(name, name)
    place = at_hand(source)
    return None if place is None else HubEncoder.open(source, device, place)


class ModelEncoder(Encoder):
    """The views of a trained model, whose vectors stand one after the other."""

    def __init__(self, model: Model, name: str, home: Path | None = None):
        self.model = model
        self.name = name
        self.home = home
        """The folder it was opened from; trust and reference queries lie there too."""
        self.networks = [_vectors_only(view, model, name) for view in model.views]
        self.views = len(self.networks)
        settings = model.evidence_settings
        self.tau, self.kind = float(settings["tau"]), settings["kind"]
        self.grid = model.recipe.features.grid if model.recipe.features else 0
        if not self.grid:
            _ = model.backbone  # says what is missing
        self.bank = bank.texts(home)
        words = frozenset(model.tokeniser.own_words())
        self.english = mostly_english(words)
        self.vocabulary = words if model.tokeniser.whole_words else None
        identity = json.dumps(model.visual.get("identity"), sort_keys=True)
        self.fingerprint = of_text([model.fingerprint, identity])
        self._quick: Texts | None = None
        self.dim = self.encode_texts(["a"]).shape[1]

    @classmethod
    def open(
        cls, folder: Path, name: str, device: str = "cpu", *, allow_code: bool = False
    ) -> "ModelEncoder":
        own = (folder / "avow.json").is_file()
        home = folder if own else pointed(folder, "best") or folder
        model = Model.from_pretrained(folder, device, allow_code=allow_code)
        try:
            return cls(model, name, home)
        except AvowError:
            raise
        except Exception as error:  # whatever PyTorch makes of weights that do not fit
            raise WrongCheckpoint(
                f"The model {name!r} encodes no text ({error_line(error)}). Expected a model "
                "whose settings and weights go together; copy it again or train it anew."
            ) from error

    @cached_property
    def backbone(self) -> Backbone:
        """The pixel network of the model, by its fastest way on this machine."""
        return fastest(self.model.backbone, self.model.device)

    def quicken(self) -> None:
        if self.model.device.type == "cpu":
            self._quick = quick_texts(self.networks, self.fingerprint)

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return self.model.backbone.prepare(photograph)

    def encode_prepared(
        self, pixels: Num[np.ndarray, "items ..."]
    ) -> Float[np.ndarray, "items dim"]:
        return self.encode_regions(self.regions(pixels))

    def regions(self, pixels: Num[np.ndarray, "items ..."]) -> Regions:
        """What the views see of prepared photographs: grid cells."""
        return pixel_regions(self.backbone, pixels, self.grid, self.model.device)

    def encode_regions(self, regions: Regions) -> Float[np.ndarray, "items dim"]:
        device, count = self.model.device, len(regions.features)
        return self._together(
            view.vectors(
                encode(
                    view.encode_visual,
                    (some(regions, part) for part in batches(count, _AT_ONCE)),
                    device,
                )
            )
            for view in self.networks
        )

    def encode_cells(
        self, pixels: Num[np.ndarray, "..."], present: Bool[np.ndarray, "ways cells"]
    ) -> Float[np.ndarray, "ways dim"]:
        regions, count = self.regions(pixels[None]), len(present)
        boxes = None if regions.boxes is None else regions.boxes.expand(count, -1, -1)
        features = regions.features.expand(count, -1, -1)
        return self.encode_regions(Regions(features, torch.from_numpy(present), boxes))

    def encode_texts(self, texts: Sequence[str]) -> Float[np.ndarray, "items dim"]:
        table = TokenTable.from_captions(self.model.tokeniser, texts)
        if self._quick is not None and 0 < len(texts) <= _FEW:
            return self._together(self._quick(table.tokens(torch.arange(len(texts)))))
        return self._together(
            view.vectors(encode_captions(view, table, self.model.device, _AT_ONCE))
            for view in self.networks
        )

    def packed_bank(self) -> Float[np.ndarray, "queries dim"] | None:
        return bank.packed(self, self.home)

    def _together(self, vectors: Iterable[Tensor]) -> Float[np.ndarray, "items dim"]:
        joined = torch.cat([part.float() for part in vectors], -1)
        return (joined / self.views**0.5).numpy()


def _vectors_only(view: Method, model: Model, name: str) -> VectorMethod:
    if not isinstance(view, VectorMethod):
        raise BadRecipe(
            f"The model {name!r} compares images and texts pair by pair "
            f"({model.recipe.method['name']}). Expected a method that gives every item one "
            "vector, such as vse_infty or tcvse; train one of those to search with."
        )
    return view
