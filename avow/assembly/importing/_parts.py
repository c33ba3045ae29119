"""The encoders of SCAN under our names; IMRAM shares them."""

from collections.abc import Mapping
from typing import Any, get_args

from torch import Tensor

from avow.blocks.attention import FocusNorm
from avow.core.errors import WrongCheckpoint

TEXT = {"embed.": "text.words.", "rnn.": "text.gru."}
NORMS = {norm: norm for norm in get_args(FocusNorm)} | {"no_norm": "none"}


def encoders(
    image: Mapping[str, Tensor], text: Mapping[str, Tensor], linear: str
) -> dict[str, Tensor]:
    """One linear map of the regions, called `linear` there, and a two-way GRU of words."""
    out = {
        "visual.straight.weight": _weight(image, linear),
        "visual.straight.bias": image[f"{linear}.bias"],
    }
    for name, tensor in text.items():
        old = next((key for key in TEXT if name.startswith(key)), "")
        new = TEXT.get(old, "txt_enc.")  # what is unknown is refused under its own name
        out[_two_way(new + name.removeprefix(old))] = tensor
    return out


def settings(view: Mapping[str, Tensor], options: Mapping[str, Any]) -> dict[str, Any]:
    """What both methods take, from the weights where they tell and the options elsewhere."""
    _refuse(options)
    dim, visual_dim = view["visual.straight.weight"].shape
    vocabulary, word_dim = view["text.words.weight"].shape
    image, text = not options.get("no_imgnorm"), not options.get("no_txtnorm")
    return {
        "visual_dim": visual_dim,
        "vocabulary": vocabulary,
        "dim": dim,
        "word_dim": word_dim,
        "text": "gru",
        "norm": {(1, 1): "both", (1, 0): "image", (0, 1): "text", (0, 0): "none"}[image, text],
        "smooth": float(options["lambda_softmax"]),
        "raw_feature_norm": choice(options, "raw_feature_norm", NORMS),
    }


def hinge(options: Mapping[str, Any]) -> dict[str, Any]:
    """The loss it was trained with."""
    return {
        "name": "hinge",
        "margin": float(options["margin"]),
        "hardest": bool(options["max_violation"]),
        "warm_up": 0,
    }


def choice(options: Mapping[str, Any], key: str, known: Mapping[str, Any]) -> Any:
    """What `known` has for the option `key`."""
    if options[key] not in known:
        raise WrongCheckpoint(
            f"The checkpoint was trained with {key} = {options[key]!r}. Expected one of: "
            f"{', '.join(known)}. Import a checkpoint trained with one of those."
        )
    return known[options[key]]


def _refuse(options: Mapping[str, Any]) -> None:
    wanted = {"bi_gru": True, "num_layers": 1}
    for key, value in wanted.items():
        if options.get(key, value) != value:
            raise WrongCheckpoint(
                f"The checkpoint was trained with {key} = {options[key]!r}. Expected "
                f"{value!r}: one layer of a GRU read in both directions. Import a "
                "checkpoint trained with that."
            )


def _weight(image: Mapping[str, Tensor], linear: str) -> Tensor:
    """The weights; where they were normalised as a whole, length times direction."""
    if f"{linear}.weight" in image:
        return image[f"{linear}.weight"]
    direction = image[f"{linear}.weight_v"]
    return image[f"{linear}.weight_g"] * direction / direction.norm()


def _two_way(name: str) -> str:
    """The two directions of a GRU are two modules here."""
    if name.endswith("_reverse"):
        return name.removesuffix("_reverse").replace("gru.", "gru.back.")
    return name.replace("gru.", "gru.ahead.")
