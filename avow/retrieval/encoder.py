"""The joint space a search stands on, found by name.

"default"                the model that comes with Avow
a folder                 a run of `avow train`, what `save_pretrained` wrote, or a
                         two-tower model saved by transformers
"siglip2", "clip"        short for the usual models of that name
anything else            a name on the model hub
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Num
from PIL import Image
from torch import Tensor

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import DEFAULT, Model, packaged_folder
from avow.assembly.pairs import some
from avow.assembly.photographs import pixel_regions
from avow.assembly.scores import batches, encode
from avow.core.contracts import Backbone, Method, Regions, VectorMethod
from avow.core.errors import BadRecipe, WrongCheckpoint
from avow.core.fingerprint import of_text
from avow.core.searching import Encoder
from avow.data._captions import TokenTable
from avow.retrieval import bank
from avow.retrieval.deferred import MODULE, outside
from avow.retrieval.hub import HubEncoder
from avow.retrieval.quick import Texts, quick_texts

ALIASES = {
    "siglip2": "google/siglip2-base-patch16-224",
    "clip": "openai/clip-vit-base-patch32",
}
_AT_ONCE = 256
_FEW = 4  # texts of a question; many texts are encoded by length, without padding


def open_encoder(name: str = DEFAULT, device: str = "cpu") -> Encoder:
    """The encoder called `name`, as listed at the head of this file."""
    if name == DEFAULT:
        return ModelEncoder.open(packaged_folder(), name, device)
    folder = Path(name).expanduser()
    if (folder / "avow.json").is_file() or (folder / "best").is_file():
        return ModelEncoder.open(folder, str(folder.resolve()), device)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise WrongCheckpoint(
            f"There is no model in {name!r}. Expected a folder made by `avow train` or "
            "`save_pretrained`, or a two-tower model saved by transformers; check the path."
        )
    if not folder.is_dir() and MODULE.fullmatch(name):
        return outside(name)
    known = str(folder.resolve()) if folder.is_dir() else ALIASES.get(name, name)
    return HubEncoder.open(known, device)


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
        identity = json.dumps(model.visual.get("identity"), sort_keys=True)
        self.fingerprint = of_text([model.fingerprint, identity])
        self._quick: Texts | None = None
        self.dim = self.encode_texts(["a"]).shape[1]

    @classmethod
    def open(cls, folder: Path, name: str, device: str = "cpu") -> "ModelEncoder":
        pointer = folder / "best"
        inside = folder / pointer.read_text().strip() if pointer.is_file() else folder
        home = folder if (folder / "avow.json").is_file() else inside
        return cls(Model.from_pretrained(folder, device), name, home)

    @cached_property
    def backbone(self) -> Backbone:
        """The pixel network of the model, by its fastest way on this machine."""
        found = self.model.backbone
        quicken = getattr(found, "quicken", None)
        return found if quicken is None or self.model.device.type != "cpu" else quicken()

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
