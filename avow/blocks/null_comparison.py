"""How a pair compares with pairs that are wrong for certain: all others of its batch.

Of a batch of K pairs, K (K - 1) image-text combinations belong to nobody. Where a given pair
stands among them is a p-value: small for a right pair, anything at all for a wrong one. As
a normal score it is 0 on average for wrong pairs whatever the network, the epoch or the
share of noise, so it can be averaged, and the share of wrong pairs can be read off below 0,
where hardly any right pair lies.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.core import false_discovery

_FEW = 1e-12


def normal_scores(
    log_evidence: Float[Tensor, "pairs pairs"], match: Bool[Tensor, "pairs pairs"]
) -> Float[Tensor, " pairs"]:
    """Of each given pair: how it stands among the combinations that match nobody."""
    stand = _stand(log_evidence.double(), match)
    wrong = stand[~match].sort().values
    own = stand.diagonal().contiguous()
    above = len(wrong) - torch.searchsorted(wrong, own)
    chance = (above.double() + 0.5) / (len(wrong) + 1)
    return -torch.special.ndtri(chance).to(log_evidence.dtype)


def _stand(
    weight: Float[Tensor, "pairs pairs"], match: Bool[Tensor, "pairs pairs"]
) -> Float[Tensor, "pairs pairs"]:
    """Log-evidence of every combination over that of its rivals, both directions.

    A match of the image or of the text is no rival: a wrong pair has none in its batch, and
    neither may the combinations it is compared with.
    """
    rivals = weight.masked_fill(match, -torch.inf)
    return weight - (_others(rivals, 1) + _others(rivals, 0)) / 2


def _others(rivals: Float[Tensor, "pairs pairs"], side: int) -> Float[Tensor, "pairs pairs"]:
    """Log of the summed evidence along one side, but for each combination's own."""
    top = rivals.amax(side, keepdim=True).clamp(min=-1e30)
    part = (rivals - top).exp()
    return (part.sum(side, keepdim=True) - part).clamp(min=_FEW).log() + top


def chance_of_right(scores: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
    """One minus the local false discovery rate of each normal score."""
    right = false_discovery.chance_of_right(scores.detach().cpu().numpy())
    return torch.from_numpy(right).to(scores.device)
