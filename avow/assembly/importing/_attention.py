"""The encoders of SCAN under our names, and their settings; IMRAM shares them."""

from typing import Any, get_args

from torch import Tensor

from avow.assembly.importing._names import TEXT, State, renamed, sizes, two_way
from avow.assembly.importing._options import Options, choice, require
from avow.blocks.attention import FocusNorm

NORMS = {norm: norm for norm in get_args(FocusNorm)} | {"no_norm": "none"}


def encoders(image: State, text: State, linear: str) -> dict[str, Tensor]:
    """One linear map of the regions, called `linear` there, and a two-way GRU of words."""
    names = {f"{linear}.": "visual.straight."}
    return two_way(renamed(image, names, "img_enc") | renamed(text, TEXT, "txt_enc"))


def settings(image: State, text: State, linear: str, options: Options) -> dict[str, Any]:
    """What both methods take, from the weights where they tell and the options elsewhere."""
    meaning = ": one layer of a GRU read in both directions"
    require(options, {"bi_gru": True, "num_layers": 1}, meaning)
    images, texts = not options.get("no_imgnorm"), not options.get("no_txtnorm")
    norms = {(1, 1): "both", (1, 0): "image", (0, 1): "text", (0, 0): "none"}
    return {
        **sizes(image, text, linear),
        "norm": norms[images, texts],
        "smooth": float(options["lambda_softmax"]),
        "raw_feature_norm": choice(options, "raw_feature_norm", NORMS),
    }
