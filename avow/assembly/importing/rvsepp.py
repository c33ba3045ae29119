"""RVSE++: the encoders of VSE-infinity, trained with selectively hard negatives.

Paper: Li et al., "Selectively Hard Negative Mining for Alleviating Gradient Vanishing in
Image-Text Matching", IEEE TCSVT 2025. The checkpoint holds `model` = [image encoder, text
encoder].
"""

from typing import Any

from avow.assembly.importing._joint import joint_view
from avow.assembly.importing._names import sizes
from avow.assembly.translated import Translated


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    parts = published["model"]
    method = {"name": "vse_infty", **sizes(*parts), "bend_from": "projection"}
    loss = {
        "name": "selhn",
        "margin": float(options.get("margin", 0.2)),
        "near": float(options.get("epsilon", 0.01)),
    }
    return Translated(method, loss, [joint_view(parts, learnt=True)])
