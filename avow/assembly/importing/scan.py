"""SCAN: one network that looks from words at regions, or from regions at words.

Paper: Lee et al., "Stacked Cross Attention for Image-Text Matching", ECCV 2018. The
checkpoint holds `model` = [image encoder, text encoder].
"""

from typing import Any

from avow.assembly.importing._attention import encoders, settings
from avow.assembly.importing._names import multiplied_out
from avow.assembly.importing._options import choice, hinge
from avow.assembly.translated import Translated

AGGREGATES = {"Mean": "mean", "LogSumExp": "lse"}
DIRECTIONS = {"t2i": "t2i", "i2t": "i2t"}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    image, text = published["model"]
    image = multiplied_out(image, "fc")
    method = {
        "name": "scan",
        **settings(image, text, "fc", options),
        "direction": choice(options, "cross_attn", DIRECTIONS),
        "aggregate": choice(options, "agg_func", AGGREGATES),
        "lse_scale": float(options["lambda_lse"]),
    }
    return Translated(method, hinge(options), [encoders(image, text, "fc")])
