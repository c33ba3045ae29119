"""VSRN: a graph over regions, with or without the network that wrote captions in training.

Paper: Li et al., "Visual Semantic Reasoning for Image-Text Matching", ICCV 2019. The
checkpoint holds `model` = [image encoder, text encoder], and may hold `caption_model`.
"""

from typing import Any

from torch import Tensor

from avow.assembly.importing._names import TEXT, State, renamed, sizes, two_way
from avow.assembly.importing._options import hinge
from avow.assembly.translated import Translated

IMAGE = {"fc.": "project.", "img_rnn.": "gather.ahead.", "bn.": "norm."}
BLOCK = {"theta.": "query.", "phi.": "key.", "g.": "value.", "W.0.": "mix.", "W.1.": "norm."}
CAPTIONER = {
    "encoder.vid2hid.": "narrow.",
    "encoder.rnn.": "read.",
    "decoder.embedding.": "lexicon.",
    "decoder.attention.linear2.": "glance.weigh.",
    "decoder.rnn.": "write.",
    "decoder.out.": "say.",
}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    image, text = published["model"]
    view = _image(image) | two_way(renamed(text, TEXT, "txt_enc"))
    captions = published.get("caption_model")
    method = {
        "name": "vsrn",
        **sizes(image, text),
        "variant": "f30k" if "bn.weight" in image else "coco",
        "caption_weight": 1.0 if captions else 0.0,
    }
    if captions:
        view |= {f"captioner.{name}": tensor for name, tensor in _captioner(captions).items()}
        dim, width = captions["decoder.rnn.weight_ih_l0"].shape
        method["caption_dim"] = dim // 3
        method["caption_word_dim"] = width - dim // 3
        method["dropout_caption"] = float(options.get("input_dropout_p", 0.2))
    return Translated(method, hinge(options), [view])


def _image(state: State) -> dict[str, Tensor]:
    blocks = {
        f"Rs_GCN_{number + 1}.{old}": f"graph.{number}.{new}"
        for number in range(4)
        for old, new in BLOCK.items()
    }
    out = renamed(state, IMAGE | blocks, "img_enc")
    # a convolution of width 1 is a linear map; ours does not count its batches
    return {
        name: tensor.squeeze(-1) if tensor.ndim == 3 else tensor
        for name, tensor in out.items()
        if not (name.startswith("graph.") and name.endswith("num_batches_tracked"))
    }


def _captioner(state: State) -> dict[str, Tensor]:
    """The look back at the regions is one map of regions and state there, two here."""
    both = state["decoder.attention.linear1.weight"]
    out = renamed(state, CAPTIONER, "captioner", unused=("decoder.attention.linear1.",))
    out = {
        name.removesuffix("_l0") if name.startswith("write.") else name: tensor
        for name, tensor in out.items()
    }
    by_region, by_state = both.chunk(2, dim=1)
    return out | {
        "glance.by_region.weight": by_region.contiguous(),
        "glance.by_region.bias": state["decoder.attention.linear1.bias"],
        "glance.by_state.weight": by_state.contiguous(),
    }
