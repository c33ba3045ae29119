"""The gist of an item: one vector out of its parts, weighed by how they fit their mean.

    mean of the parts --> whole --.
                                  +-- product --> a weight per part --> weighted sum
    each part ----------> local --'

Images normalise both branches over the batch, and the local one per place: the third
region of every image has statistics of its own. That fixes how many regions there may be.

Paper: Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching",
AAAI 2021, Eq. 2 and what its published system does.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.normalise import precise, unit
from avow.blocks.projection import spread
from avow.blocks.running_norm import RunningNorm
from avow.core.contracts import Encoded


class PlaceNorm(RunningNorm):
    """Batch normalisation per place among the parts, over the parts that are present."""

    def forward(
        self,
        parts: Float[Tensor, "items parts dim"],
        present: Bool[Tensor, "items parts"],
    ) -> Float[Tensor, "items parts dim"]:
        places = parts.shape[1]
        mean, var = self.running_mean[:places], self.running_var[:places]
        if self.training:
            mean, var = self._moments(precise(parts), present)
        scale = self.weight[:places] * (var + self.eps).rsqrt()
        shift = self.bias[:places] - mean * scale
        return parts * scale[:, None] + shift[:, None]

    def _moments(
        self, parts: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> tuple[Float[Tensor, " parts"], Float[Tensor, " parts"]]:
        """Mean and variance of this batch, which the running ones follow."""
        count = present.sum(0) * parts.shape[2]
        share = present.to(parts) / count.clamp(min=1)
        mean = (parts.sum(2) * share).sum(0)
        var = ((parts - mean[:, None]).square().sum(2) * share).sum(0)
        with torch.no_grad():
            places = slice(0, len(count))
            speed = self.momentum * (count > 0)
            unbiased = var * count / (count - 1).clamp(min=1)
            self.running_mean[places] += speed * (mean - self.running_mean[places])
            self.running_var[places] += speed * (unbiased - self.running_var[places])
        return mean, var


class Gist(nn.Module):
    """Many parts to one unit vector; with `places` both branches are normalised."""

    def __init__(self, dim: int, dropout: float, places: int = 0):
        super().__init__()
        self.local = spread(nn.Linear(dim, dim))
        # normalising takes a bias away again, and so does the softmax below
        self.whole = spread(nn.Linear(dim, dim, bias=not places))
        self.weigh = spread(nn.Linear(dim, 1, bias=False))
        self.local_norm = PlaceNorm(places) if places else None
        self.whole_norm = nn.BatchNorm1d(dim) if places else nn.Identity()
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        parts: Float[Tensor, "items parts dim"],
        present: Bool[Tensor, "items parts"],
    ) -> Float[Tensor, "items dim"]:
        """`parts` are 0 where nothing is present."""
        mean = parts.sum(1) / present.sum(1, keepdim=True)
        local = self.local(parts)
        if self.local_norm is not None:
            local = self.local_norm(local, present)
        whole = self.whole_norm(self.whole(mean))
        fit = self.drop(local.tanh()) * self.drop(whole.tanh())[:, None]
        scores = precise(self.weigh(fit).squeeze(-1))
        weights = scores.masked_fill(~present, -torch.inf).softmax(-1)
        return unit((weights[:, None] @ precise(parts)).squeeze(1))


def led_by_gist(
    gist: Gist,
    states: Float[Tensor, "items parts dim"],
    present: Bool[Tensor, "items parts"],
) -> Encoded:
    """Unit vectors with their gist before them, in the precision that products have here."""
    parts = unit(precise(states)).masked_fill(~present[..., None], 0)
    whole = gist(parts, present)
    device, kind = parts.device.type, parts.dtype
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
    return Encoded(
        torch.cat([whole[:, None], parts], 1).to(kind),
        torch.cat([torch.ones_like(present[:, :1]), present], 1),
    )
