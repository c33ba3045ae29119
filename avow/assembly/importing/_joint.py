"""The encoders of VSE-infinity under our names; TCL and VSE++ on regions share them."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from avow.core.errors import WrongCheckpoint

State = Mapping[str, Tensor]
IMAGE = {
    "fc": "visual.straight",
    "mlp.layers.0": "visual.bend.narrow",
    "mlp.bns.0": "visual.bend.norm",
    "mlp.layers.1": "visual.bend.widen",
}
TEXT = {
    "embed.glove": "text.words",
    "embed": "text.words",
    "rnn": "text.gru",
    "bert": "text.transformer",
    "linear": "text.project",
}
UNUSED = ("mlp.bns.1.", "bert.pooler.", "bert.embeddings.position_ids")


def joint_view(parts: Sequence[State], learnt: bool) -> dict[str, Tensor]:
    """Image encoder and text encoder as one of our views.

    learnt: whether the pooling is learnt; where it is not, its weights lie there unused.
    """
    image, text = parts
    unused = UNUSED if learnt else (*UNUSED, "gpool.")
    out = renamed(image, IMAGE | _pool("visual_pool"), unused, "img_enc")
    out |= renamed(text, TEXT | _pool("text_pool"), unused, "txt_enc")
    return {two_way(name): tensor for name, tensor in out.items()}


def _pool(ours: str) -> dict[str, str]:
    return {"gpool.gru": f"{ours}.gru", "gpool.linear": f"{ours}.weigh"}


def renamed(
    state: State, names: Mapping[str, str], unused: tuple[str, ...], side: str
) -> dict[str, Tensor]:
    """Known beginnings exchanged; what is unknown keeps its name, after that of its side."""
    out = {}
    for name, tensor in state.items():
        if name.startswith(unused):
            continue
        old = next((key for key in names if name.startswith(f"{key}.")), None)
        known = f"{side}.{name}" if old is None else names[old] + name.removeprefix(old)
        out[known] = tensor
    return out


def two_way(name: str) -> str:
    """The two directions of a GRU are two modules here."""
    if name.endswith("_reverse"):
        return name.removesuffix("_reverse").replace("gru.", "gru.back.")
    return name.replace("gru.", "gru.ahead.")


def sizes(parts: Sequence[State]) -> dict[str, Any]:
    """What the weights themselves say of the settings they need."""
    image, text = parts
    dim, visual_dim = image["fc.weight"].shape
    found = {"dim": dim, "visual_dim": visual_dim}
    if "linear.weight" in text:
        return {**found, "text": "bert"}
    glove = "embed.glove.weight" in text
    vocabulary, word_dim = text["embed.glove.weight" if glove else "embed.weight"].shape
    kind = "glove" if glove else "gru"
    return {**found, "text": kind, "vocabulary": vocabulary, "word_dim": word_dim}


def refuse_lengths(options: Mapping[str, Any]) -> None:
    """Refuse a model whose vectors are not unit vectors."""
    for key in ("no_imgnorm", "no_txtnorm", "use_abs"):
        if options.get(key):
            raise WrongCheckpoint(
                f"The checkpoint was trained with {key!r}. Expected vectors of length one, "
                "which cosines compare. Import a checkpoint trained without it."
            )
