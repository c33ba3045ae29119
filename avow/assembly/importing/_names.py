"""Published names of weights in ours, and the sizes that the weights tell."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

State = Mapping[str, Tensor]
TEXT = {
    "embed.glove.": "text.words.",
    "embed.": "text.words.",
    "rnn.": "text.gru.",
    "bert.": "text.transformer.",
    "linear.": "text.project.",
}
"""Captions are encoded alike in most published systems."""


def renamed(
    state: State, names: Mapping[str, str], side: str, unused: tuple[str, ...] = ()
) -> dict[str, Tensor]:
    """Known beginnings exchanged, `unused` ones left out.

    What is unknown keeps its name after that of its side, and is refused under it later.
    """
    out = {}
    for name, tensor in state.items():
        if name.startswith(unused):
            continue
        old = next((key for key in names if name.startswith(key)), None)
        new_name = f"{side}.{name}" if old is None else names[old] + name.removeprefix(old)
        out[new_name] = tensor
    return out


def two_way(view: State) -> dict[str, Tensor]:
    """The two directions of every GRU as the two modules they are here."""
    return {_way(name): tensor for name, tensor in view.items()}


def _way(name: str) -> str:
    way = "gru.back." if name.endswith("_reverse") else "gru.ahead."
    return name.removesuffix("_reverse").replace("gru.", way)


def under(state: State, prefix: str) -> dict[str, Tensor]:
    """The entries below `prefix`, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }


def multiplied_out(state: State, linear: str) -> dict[str, Tensor]:
    """The weights of a layer that were normalised as a whole: length times direction."""
    if f"{linear}.weight_v" not in state:
        return dict(state)
    out = dict(state)
    direction, length = out.pop(f"{linear}.weight_v"), out.pop(f"{linear}.weight_g")
    return {**out, f"{linear}.weight": length * direction / direction.norm()}


def sizes(image: State, text: State, linear: str = "fc") -> dict[str, Any]:
    """The settings that published weights tell; `linear` maps the image features."""
    dim, visual_dim = image[f"{linear}.weight"].shape
    settings = {"dim": dim, "visual_dim": visual_dim}
    if "linear.weight" in text:
        return {**settings, "text": "bert"}
    glove = "embed.glove.weight" in text
    vocabulary, word_dim = text["embed.glove.weight" if glove else "embed.weight"].shape
    kind = "glove" if glove else "gru"
    return {**settings, "text": kind, "vocabulary": vocabulary, "word_dim": word_dim}
