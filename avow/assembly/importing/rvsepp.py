"""RVSE++: the encoders of VSE-infinity, trained with selectively hard negatives.

Paper: Li et al., "Selectively Hard Negative Mining for Alleviating Gradient Vanishing in
Image-Text Matching", IEEE TCSVT 2025. The checkpoint holds `model` = [image encoder, text
encoder].
"""

from typing import Any

from avow.assembly.importing._names import renamed, two_way
from avow.assembly.importing._translated import Translated

IMAGE = {
    "fc.": "visual.straight.",
    "mlp.layers.0.": "visual.bend.narrow.",
    "mlp.bns.0.": "visual.bend.norm.",
    "mlp.layers.1.": "visual.bend.widen.",
    "gpool.gru.": "visual_pool.gru.",
    "gpool.linear.": "visual_pool.weigh.",
}
TEXT = {
    "embed.": "text.words.",
    "rnn.": "text.gru.",
    "gpool.gru.": "text_pool.gru.",
    "gpool.linear.": "text_pool.weigh.",
}
UNUSED = ("mlp.bns.1.",)  # made there, and never asked


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    image, text = published["model"]
    view = renamed(image, IMAGE, "image encoder", UNUSED)
    view |= renamed(text, TEXT, "text encoder")
    for gru in ("visual_pool.gru.", "text_pool.gru.", "text.gru."):
        view = two_way(gru, view)
    dim, visual_dim = view["visual.straight.weight"].shape
    vocabulary, word_dim = view["text.words.weight"].shape
    method = {
        "name": "vse_infty",
        "visual_dim": visual_dim,
        "vocabulary": vocabulary,
        "dim": dim,
        "word_dim": word_dim,
        "text": "gru",
        "bend_from": "projection",
    }
    loss = {
        "name": "selhn",
        "margin": float(options.get("margin", 0.2)),
        "near": float(options.get("epsilon", 0.01)),
    }
    return Translated(method, loss, [view])
