"""GSMN: node and structure matching, with the dense or the sparse graph of words.

Paper: Liu et al., "Graph Structured Network for Image-Text Matching", CVPR 2020. The
checkpoint holds `model` = [image encoder, text encoder, visual graph, textual graph].
"""

from typing import Any

import torch
from torch import Tensor

from avow.assembly.importing._names import TEXT, State, renamed, sizes, two_way
from avow.assembly.importing._options import hinge
from avow.assembly.translated import Translated

READOUT = {
    "out_1.bias": "readout.bend.bias",
    "out_1.weight_g": "readout.bend.parametrizations.weight.original0",
    "out_1.weight_v": "readout.bend.parametrizations.weight.original1",
    "out_2.bias": "readout.judge.bias",
    "out_2.weight_g": "readout.judge.parametrizations.weight.original0",
    "out_2.weight_v": "readout.judge.parametrizations.weight.original1",
}
KERNELS = {
    "mean_rho": "distance",
    "mean_theta": "angle",
    "precision_rho": "distance_width",
    "precision_theta": "angle_width",
}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    image, text, visual_graph, textual_graph = published["model"]
    view = renamed(image, {"fc.": "project."}, "img_enc")
    view |= two_way(renamed(text, TEXT, "txt_enc"))
    view |= _graph("visual_graph", visual_graph, "graph_convolution_1.")
    view |= _graph("textual_graph", textual_graph, "graph_convolution_3.")
    hidden, blocks = view["visual_graph.convolve.weight"].shape
    method = {
        "name": "gsmn",
        **sizes(image, text),
        "graph": "sparse" if options.get("is_sparse") else "dense",
        "smooth": float(options.get("lambda_softmax", 20.0)),
        "blocks": blocks,
        "hidden": hidden,
        "kernels": len(view["visual_graph.distance"]),
        "faithful": True,
    }
    return Translated(method, hinge(options), [view])


def _graph(side: str, state: State, convolution: str) -> dict[str, Tensor]:
    """One graph; its kernels' small linear maps become one."""
    out = {
        f"{side}.{new}": state[convolution + old].flatten()
        for old, new in KERNELS.items()
        if convolution + old in state
    }
    maps = f"{convolution}conv_weights."
    for kind in ("weight", "bias"):
        parts = [
            state[f"{maps}{number}.{kind}"]
            for number in range(len(state))
            if f"{maps}{number}.{kind}" in state
        ]
        if parts:
            out[f"{side}.convolve.{kind}"] = torch.cat(parts)
    names = {old: f"{side}.{new}" for old, new in READOUT.items()}
    return out | renamed(state, names, side, unused=(convolution,))
