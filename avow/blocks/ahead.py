"""Reading forwards only: a GRU over parts, over words, and the one state it ends in.

What comes after the last part is padding, which a reader that goes forwards meets too late
to be changed by it; gaps between parts are closed first.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.text import TextEncoder, TextKind, WordGru, build_text


class OneWayGru(nn.Module):
    """A GRU read forwards; 0 on padding."""

    def __init__(self, inside: int, hidden: int):
        super().__init__()
        self.ahead = nn.GRU(inside, hidden, batch_first=True)

    def forward(
        self,
        steps: Float[Tensor, "items steps inside"],
        present: Bool[Tensor, "items steps"],
    ) -> Float[Tensor, "items steps hidden"]:
        states, _ = self.ahead(steps)
        return states * present[..., None]


def closed_up(
    parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
) -> tuple[Float[Tensor, "items parts dim"], Bool[Tensor, "items parts"]]:
    """The parts that are present first, in their order: no gap is read as a step."""
    order = (~present).to(torch.uint8).argsort(dim=1, stable=True)
    return parts.take_along_dim(order[..., None], 1), present.take_along_dim(order, 1)


def last_state(
    states: Float[Tensor, "items steps dim"], present: Bool[Tensor, "items steps"]
) -> Float[Tensor, "items dim"]:
    """The state at each item's last step, where only padding follows it."""
    last = present.sum(1)[:, None, None] - 1
    return states.take_along_dim(last, 1)[:, 0]


def summary(
    encoder: TextEncoder,
    states: Float[Tensor, "items parts dim"],
    present: Bool[Tensor, "items parts"],
) -> Float[Tensor, "items dim"]:
    """The state that stands for the whole caption.

    It is the one at the last word where a GRU read the words, and the one of the mark that
    begins every caption where a transformer did.
    """
    return last_state(states, present) if isinstance(encoder, WordGru) else states[:, 0]


def build_text_ahead(
    kind: TextKind,
    *,
    dim: int,
    vocabulary: int,
    word_dim: int,
    source: str,
    pretrained: bool,
    dropout: float,
) -> TextEncoder:
    """The text encoder called `kind`, whose GRU, where it has one, only reads forwards."""
    encoder = build_text(
        kind,
        dim=dim,
        vocabulary=vocabulary,
        word_dim=word_dim,
        source=source,
        pretrained=pretrained,
        dropout=dropout,
    )
    if isinstance(encoder, WordGru):
        encoder.gru = OneWayGru(word_dim, dim)  # type: ignore[assignment]
    return encoder
