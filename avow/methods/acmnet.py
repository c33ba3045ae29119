"""ACMNet: each region (or word) counts as far as it belongs to the whole text (or image).

The local similarity of a region is that of SCAN; a gate that sees the region and the text
as a whole says how far it may be trusted. `grounded = "image"` is ACMNet-GI, `"text"` is
ACMNet-GT, where words are weighed by the whole image.

Paper: Chen et al., "ACMNet: Adaptive Confidence Matching Network for Human Behavior
Analysis via Cross-modal Retrieval", ACM TOMM 2020, Eq. 1-19. There is no published system;
where the paper leaves a choice, ours is

- `reduce`: Eq. 13 averages over regions, Eq. 19 as printed sums over words. The default is
  the mean for both, so that scores stay bounded by 1 + lambda_3; a sum has no largest
  value, and its similarity passes tanh unless `squash` says otherwise;
- `norm`: the sides whose features are made unit vectors, before Eq. 2 and Eq. 7 (Eq. 6
  included); with "both", a product is the cosine that Eq. 7 prints. The paper's best is
  "both" for GI (smooth 6) and "image" for GT (smooth 9);
- Eq. 6 is where the two directions of a GRU end; a transformer has no such states, and the
  mean of its word states stands for them.

The losses of Eq. 20 and Eq. 22 are `hinge` with `hardest` false or true, and `warm_up = 0`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks.attention import Focus, mean_of_present
from avow.blocks.attention_inference import as_context, as_query, is_worthwhile, look
from avow.blocks.normalise import precise
from avow.blocks.projection import spread
from avow.core.contracts import Encoded
from avow.core.keywords import with_keywords
from avow.methods._partwise import Pairing, Partwise, PartwiseSettings, Side

Reduce = Literal["mean", "sum"]


@dataclass(frozen=True)
class _Led(Encoded):
    """Items of which all parts but the first are ready to be looked at."""

    rest: Encoded | None = None


class ConfidenceMatching(Pairing):
    """The context side has one part in front of the others: what it is as a whole.

    | symbol           | here                                    |
    |------------------|-----------------------------------------|
    | $R$ (Eq. 11, 17) | `local`                                 |
    | $C$ (Eq. 12, 18) | `confidence`                            |
    | $\\lambda_3$      | `base`                                  |
    """

    def __init__(self, grounded: Side, base: float, reduce: Reduce, dim: int, smooth: float):
        super().__init__()
        self.grounded, self.base, self.reduce = grounded, base, reduce
        self.gate = spread(nn.Linear(2 * dim, 1))
        self.how = Focus(smooth, "clipped_l2norm", slope=0.0)  # Eq. 8 and 14 clip at 0
        self.largest = max(abs(base), abs(1 + base)) if reduce == "mean" else None

    def forward(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        if self.grounded == "image":
            return self._match(visual, text).T
        return self._match(text, visual)

    def prepare(self, tile: Encoded, side: Side) -> Encoded:
        if not is_worthwhile(tile.parts):
            return tile
        if side == self.grounded:
            return as_query(tile)
        return _Led(tile.parts, tile.present, rest=as_context(_rest(tile)))

    def numbers(self, regions: int, words: int) -> int:
        return regions * words

    def _match(self, query: Encoded, led: Encoded) -> Float[Tensor, "contexts queries"]:
        """Eq. 13 or 19 for every pair."""
        whole = led.parts[:, 0]
        ready = led.rest if isinstance(led, _Led) else None
        context = _rest(led) if ready is None else ready
        local = look(query, context, self.how)
        weighed = local * (self._confidence(query.parts, whole) + self.base)
        if self.reduce == "mean":
            return mean_of_present(weighed, query.present)
        return (weighed * query.present).sum(-1)

    def _confidence(
        self, parts: Float[Tensor, "queries parts dim"], whole: Float[Tensor, "contexts dim"]
    ) -> Float[Tensor, "contexts queries parts"]:
        """Eq. 12 or 18: the layer of two vectors side by side is a sum of two halves."""
        of_part, of_whole = self.gate.weight[0].chunk(2)
        # queries that `lean` prepared lie part after part, and are not copied to be read
        turned = parts.transpose(0, 1)
        stored = turned if turned.is_contiguous() else parts
        own = precise(stored @ of_part.to(parts.dtype))
        own = own.T if stored is turned else own
        other = precise(whole @ of_whole.to(whole.dtype)) + self.gate.bias
        return torch.sigmoid(own + other[:, None, None])


def _rest(led: Encoded) -> Encoded:
    return Encoded(led.parts[:, 1:], led.present[:, 1:])


@dataclass(frozen=True, kw_only=True)
class Settings(PartwiseSettings):
    """grounded: whose parts are matched, and weighed by the other side as a whole.

    smooth: lambda_1 or lambda_2, how sharply attention chooses (in the paper 4 for GI and
    9 for GT unless it says otherwise). base: lambda_3, what counts without any confidence.
    """

    grounded: Side = "text"
    smooth: float = 9.0
    base: float = 0.5
    reduce: Reduce = "mean"


def _build(chosen: Settings) -> Partwise:
    pairing = ConfidenceMatching(
        chosen.grounded, chosen.base, chosen.reduce, chosen.dim, chosen.smooth
    )
    return Partwise(pairing, chosen, whole="text" if chosen.grounded == "image" else "image")


build = with_keywords(Settings, _build)
