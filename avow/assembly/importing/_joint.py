"""The encoders of VSE-infinity under our names; TCL and RVSE++ share them."""

from collections.abc import Sequence

from torch import Tensor

from avow.assembly.importing._names import TEXT, State, renamed, two_way

IMAGE = {
    "fc.": "visual.straight.",
    "mlp.layers.0.": "visual.bend.narrow.",
    "mlp.bns.0.": "visual.bend.norm.",
    "mlp.layers.1.": "visual.bend.widen.",
}
UNUSED = ("mlp.bns.1.", "bert.pooler.", "bert.embeddings.position_ids")


def joint_view(parts: Sequence[State], learnt: bool) -> dict[str, Tensor]:
    """Image encoder and text encoder as one of our views.

    learnt: whether the pooling is learnt; where it is not, its weights lie there unused.
    """
    image, text = parts
    unused = UNUSED if learnt else (*UNUSED, "gpool.")
    out = renamed(image, IMAGE | _pool("visual_pool"), "img_enc", unused)
    out |= renamed(text, TEXT | _pool("text_pool"), "txt_enc", unused)
    return two_way(out)


def _pool(ours: str) -> dict[str, str]:
    return {"gpool.gru.": f"{ours}.gru.", "gpool.linear.": f"{ours}.weigh."}
