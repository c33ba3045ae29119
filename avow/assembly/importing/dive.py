"""DivE: sets of embeddings on region features and a two-way GRU.

Paper: Kim et al., "Improving Cross-Modal Retrieval with Set of Diverse Embeddings", CVPR
2023. The checkpoint holds `model`, one state for both encoders.
"""

from typing import Any

from torch import Tensor

from avow.assembly.importing._names import State, renamed, sizes, two_way, under
from avow.assembly.importing._options import hinge, require
from avow.assembly.translated import Translated

HEADS = 4  # fixed in the published system
WANTED = {
    "arch": "slot",
    "spm_weight_sharing": True,
    "spm_residual": True,
    "spm_residual_norm": True,
    "spm_pre_norm": True,
    "spm_post_norm": False,
    "spm_last_ln": True,
    "spm_activation": "gelu",
    "spm_img_pos_enc_type": "none",
    "spm_txt_pos_enc_type": "sine",
    "img_res_pool": "max",
    "txt_attention_input": "wemb",
    "txt_pooling": "rnn",
    "use_bert": False,
}
BLOCK = {
    "latents": "slots",
    "layers.0.0.norm.": "slot_norm.",
    "layers.0.0.norm_context.": "context_norm.",
    "layers.0.0.fn.to_q.": "query.",
    "layers.0.0.fn.to_k.": "key.",
    "layers.0.0.fn.to_v.": "value.",
    "layers.0.0.fn.to_out.0.": "join.",
    "layers.0.2.norm.": "think.0.",
    "layers.0.2.fn.net.0.": "think.1.",
    "layers.0.2.fn.net.3.": "think.3.",
    "last_layer.0.": "last_norm.",
}
IMAGE = {
    "img_enc.fc.": "visual.straight.",
    "img_enc.mlp.fc1.": "visual.bend.narrow.",
    "img_enc.mlp.bn.bn.": "visual.bend.norm.",
    "img_enc.mlp.fc2.": "visual.bend.widen.",
    "img_enc.spm.residual_norm.": "visual_norm.",
}
TEXT = {
    "txt_enc.embed.": "text.words.",
    "txt_enc.rnn.": "text.gru.",
    "txt_enc.spm.residual_norm.": "text_norm.",
}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    require(options, WANTED)
    state = published["model"]
    view = _view(state)
    method = {
        "name": "dive",
        **sizes(under(state, "img_enc."), under(state, "txt_enc.")),
        "slots": len(view["visual_slots.slots"]),
        "looks": int(options.get("spm_depth", 4)),
        "heads": HEADS,
        "head_dim": len(view["visual_slots.query.weight"]) // HEADS,
        "together_weight": float(options.get("mmd_weight", 0.01)),
        "apart_weight": float(options.get("unif_weight", 0.01)),
        "faithful": True,
    }
    return Translated(method, {**hinge(options), "reduce": "mean"}, [view])


def _view(state: State) -> dict[str, Tensor]:
    names, unused = IMAGE | TEXT, []
    for side, ours in (("img_enc", "visual_slots"), ("txt_enc", "text_slots")):
        block = f"{side}.spm.agg_block."
        names |= {block + old: f"{ours}.{new}" for old, new in BLOCK.items()}
        # the layers of later looks are the first ones under other names
        unused += [f"{block}layers.{look}." for look in range(1, 100)]
    return two_way(renamed(state, names, "model", tuple(unused)))
