"""Dual Encoding: GRU and CNN over frames and words, with or without a concept space.

Papers: Dong et al., "Dual Encoding for Zero-Example Video Retrieval", CVPR 2019, and "Dual
Encoding for Video Retrieval by Text", TPAMI 2021. The checkpoint holds `model` = [video
encoder, text encoder], of the hybrid space also [..., video mapping, text mapping]. Sizes are
those of the weights. A bias before a batch norm is taken off the mean of that norm, which is
the same. The words that are counted have a vocabulary of their own there, which
the checkpoint does not hold.
"""

from typing import Any

from torch import Tensor

from avow.assembly.importing._names import State, renamed, two_way
from avow.assembly.importing._options import hinge, require
from avow.assembly.translated import Translated

MAPPED = {
    "{}_mapping.": "{}_mapping.",
    "mapping.": "{}_mapping.",
    "tag_fc_batch_norm.": "{}_concepts.norm.",
    "tag_fc.": "{}_concepts.linear.",
}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    require(options, {"concate": "full", "gru_pool": "mean", "measure": "cosine"})
    require(options, {"visual_norm": True, "text_norm": True}, " (vectors of length one)")
    video, text, *mappings = published["model"]
    video_mapping, text_mapping = mappings or ({}, {})
    method = {
        "name": "dual_encoding",
        "faithful": True,
        **_sizes(video, text, {**text, **text_mapping}),
        "concepts": len(video_mapping.get("tag_fc.bias", ())),
        "concept_margin": float(options.get("margin_2", 0.2)),
    }
    view = {
        **_side(video, "visual", {"rnn.": "visual.gru."}),
        **_side(text, "text", {"embed.": "text.encoder.words.", "rnn.": "text.encoder.gru."}),
        **_side(video_mapping, "visual", {}),
        **_side(text_mapping, "text", {}),
    }
    return Translated(method, hinge(options), [two_way(_without_bias(view))])


def _without_bias(view: State) -> dict[str, Tensor]:
    out = dict(view)
    for name in [name for name in view if name.endswith(".linear.bias")]:
        mean = name.replace(".linear.bias", ".norm.running_mean")
        out[mean] = out[mean] - out.pop(name)
    return out


def _side(state: State, side: str, names: dict[str, str]) -> dict[str, Tensor]:
    mapped = {old.format(side): new.format(side) for old, new in MAPPED.items()}
    names = {**names, **mapped, "convs1.": f"{side}.levels.kernels."}
    layers = {".fc1.": ".linear.", ".bn_1.": ".norm."}
    out = {}
    for name, tensor in renamed(state, names, f"{side}_encoding").items():
        for old, new in layers.items():
            name = name.replace(old, new)
        # a kernel over all channels at once is one of a single dimension
        flat = tensor.ndim == 4 and tensor.shape[1] == 1
        out[name] = tensor[:, 0].transpose(1, 2).contiguous() if flat else tensor
    return out


def _sizes(video: State, text: State, mapped: State) -> dict[str, Any]:
    """The settings that the weights tell. mapped: the text encoder with its mapping."""
    vocabulary, word_dim = text["embed.weight"].shape
    hidden = {"visual": video["rnn.weight_hh_l0"], "text": text["rnn.weight_hh_l0"]}
    settings: dict[str, Any] = {
        "visual_dim": video["rnn.weight_ih_l0"].shape[1],
        "vocabulary": vocabulary,
        "word_dim": word_dim,
        **{f"{side}_hidden": weight.shape[1] for side, weight in hidden.items()},
    }
    for side, state in (("visual", video), ("text", text)):
        kernels = [
            tensor
            for name, tensor in sorted(state.items())
            if name.startswith("convs1.") and name.endswith(".weight")
        ]
        settings[f"{side}_kernels"] = "-".join(str(kernel.shape[2]) for kernel in kernels)
        settings[f"{side}_maps"] = kernels[0].shape[0]
        levels = sum(kernel.shape[0] for kernel in kernels) + 2 * settings[f"{side}_hidden"]
    linear = next(tensor for name, tensor in mapped.items() if name.endswith("fc1.weight"))
    return {**settings, "dim": linear.shape[0], "bag": linear.shape[1] - levels}
