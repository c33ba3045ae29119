"""SGRAF: one network, SAF or SGR, as SGRAF, DECL and TCL save it.

Paper: Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching",
AAAI 2021. The checkpoint holds `model` = [image encoder, text encoder, similarity
encoder]. The average of the two networks, which the paper calls SGRAF, is two checkpoints.

Four biases are not taken over as they are, because they change no score. That of the keys
and that of the weights of a gist disappear in a softmax. Those before a batch
normalisation are subtracted from its running mean.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from avow.assembly.translated import Translated
from avow.core.errors import WrongCheckpoint

State = Mapping[str, Tensor]
IMAGE = {"fc.": "visual.straight."}
TEXT = {"embed.glove.": "text.words.", "embed.": "text.words.", "cap_rnn.": "text.gru."}
COMPARISON = {
    "v_global_w.embedding_local.0.": "visual_gist.local.",
    "v_global_w.embedding_local.1.": "visual_gist.local_norm.",
    "v_global_w.embedding_global.0.": "visual_gist.whole.",
    "v_global_w.embedding_global.1.": "visual_gist.whole_norm.",
    "v_global_w.embedding_common.0.": "visual_gist.weigh.",
    "t_global_w.embedding_local.0.": "text_gist.local.",
    "t_global_w.embedding_global.0.": "text_gist.whole.",
    "t_global_w.embedding_common.0.": "text_gist.weigh.",
    "sim_tranloc_w.": "local.",
    "sim_tranglo_w.": "whole.",
    "sim_eval_w.": "head.judge.",
    "SAF_module.attn_sim_w.": "head.weigh.",
    "SAF_module.bn.": "head.norm.",
    "SGR_module.": "head.steps.",
}
STEP = {
    ".graph_query_w.": ".query.",
    ".graph_key_w.": ".key.",
    ".sim_graph_w.": ".update.",
}
WITHOUT_EFFECT = ("visual_gist.weigh.bias", "text_gist.weigh.bias")
UNUSED = ("visual_gist.local_norm", "head.norm")  # they count no batches here
FOLDED = {
    "visual_gist.whole.bias": "visual_gist.whole_norm.running_mean",
    "head.weigh.bias": "head.norm.running_mean",
}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    """`options` with a `tau` are those of a system that reads evidence from the tanh."""
    image, text, comparison = published["model"]
    _refuse(text, options)
    view = _renamed(image, IMAGE, "img_enc.") | _renamed(text, TEXT, "txt_enc.")
    view |= _renamed(comparison, COMPARISON, "sim_enc.")
    view = {_two_way(name): tensor for name, tensor in _settled(view).items()}
    words = "glove" if "embed.glove.weight" in text else "gru"
    method = {
        **_sizes(view),
        "text": words,
        "squash": "tanh" if "tau" in options else "sigmoid",
    }
    loss = {
        "name": "hinge",
        "margin": float(options.get("margin", 0.2)),
        "hardest": bool(options.get("max_violation", True)),
        "warm_up": 0,
    }
    return Translated(method, loss, [view])


def _renamed(state: State, names: Mapping[str, str], side: str) -> dict[str, Tensor]:
    """Known beginnings exchanged; what is unknown keeps its name, after that of its side."""
    out = {}
    for name, tensor in state.items():
        old = next((key for key in names if name.startswith(key)), None)
        new = side + name if old is None else names[old] + name.removeprefix(old)
        for theirs, ours in STEP.items():
            new = new.replace(theirs, ours)
        out[new] = tensor.float() if tensor.is_floating_point() else tensor
    return out


def _settled(view: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the biases that change no score, and without counters nobody reads."""
    out = {
        name: tensor
        for name, tensor in view.items()
        if name not in (*WITHOUT_EFFECT, *FOLDED)
        and not name.endswith(".key.bias")
        and name not in [f"{norm}.num_batches_tracked" for norm in UNUSED]
    }
    for bias, mean in FOLDED.items():
        if bias in view and mean in view:
            out[mean] = view[mean] - view[bias]
    return out


def _sizes(view: State) -> dict[str, Any]:
    """What the weights themselves say of the settings they need."""
    dim, visual_dim = view["visual.straight.weight"].shape
    vocabulary, word_dim = view["text.words.weight"].shape
    steps = {name.split(".")[2] for name in view if name.startswith("head.steps.")}
    if not steps and "head.weigh.weight" not in view:
        raise WrongCheckpoint(
            "The checkpoint has neither a 'SAF_module' nor an 'SGR_module'. Expected a "
            "network of SGRAF, which has one of them. Import such a checkpoint."
        )
    return {
        "name": "sgr" if steps else "saf",
        "visual_dim": visual_dim,
        "vocabulary": vocabulary,
        "dim": dim,
        "word_dim": word_dim,
        "regions": len(view["visual_gist.local_norm.weight"]),
        "similarity_dim": len(view["local.weight"]),
        **({"steps": len(steps)} if steps else {}),
    }


def _refuse(text: State, options: Mapping[str, Any]) -> None:
    """Refuse a network whose parts are no unit vectors, or of another GRU."""
    for key in ("no_imgnorm", "no_txtnorm"):
        if options.get(key):
            raise WrongCheckpoint(
                f"The checkpoint was trained with {key!r}. Expected parts of length one. "
                "Import a checkpoint trained without it."
            )
    one_way = "cap_rnn.weight_hh_l0_reverse" not in text
    if one_way or "cap_rnn.weight_hh_l1" in text:
        layout = "one direction" if one_way else "several layers"
        raise WrongCheckpoint(
            f"The checkpoint has a GRU of '{layout}'. Expected one layer, read in both "
            "directions. Import a checkpoint trained with that."
        )


def _two_way(name: str) -> str:
    """The two directions of a GRU are two modules here."""
    if name.endswith("_reverse"):
        return name.removesuffix("_reverse").replace("gru.", "gru.back.")
    return name.replace("gru.", "gru.ahead.")
