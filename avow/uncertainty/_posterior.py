r"""The retrieval posterior under one model after another, and how much the models differ.

Only sums are kept, so any number of models costs the memory of one. Probabilities at a low
temperature lie so close to 0 and 1 that a plain entropy is all rounding; here the mass
beside the best candidate is always summed by itself, never as one minus something.

Paper: Hama et al., "Exploring Uncertainty Measures for Image-Caption
Embedding-and-Retrieval Task", arXiv 2019, Eq. 7-8.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64
from torch import Tensor

_AT_ONCE = 2**20  # scores; small enough to stay in a processor's cache


class Posteriors:
    r"""Sums over models of $p(c|x_q, w)$ (Eq. 8) and of its entropy.

    $$ p(c_j|x_q) = \frac{\exp(s(y_q, y_j)/T)}{\sum_k \exp(s(y_q, y_k)/T)}, \qquad
       U_p = H(E_w[p]) - E_w[H(p)] $$

    | symbol       | here                     |
    |--------------|--------------------------|
    | $s(y_q,y_j)$ | `similarity`             |
    | $T$          | `temperature`            |
    | $E_w[p]$     | `mean`                   |
    | $U_p$        | `mutual_information`     |
    """

    def __init__(self, like: Float[Tensor, "queries candidates"], temperature: float):
        self.temperature = temperature
        self.count = 0
        self._total = torch.zeros_like(like, dtype=torch.float64)
        self._entropy = self._total.new_zeros(len(like))

    def add(self, similarity: Float[Tensor, "queries candidates"]) -> None:
        """Take in one more model."""
        for rows in _blocks(similarity):
            scores = similarity[rows].to(torch.float64, copy=True)
            best = scores.max(-1, keepdim=True)
            fall = scores.sub_(best.values).div_(self.temperature)
            weight = fall.exp()
            rest = weight.scatter_(-1, best.indices, 0).sum(-1, keepdim=True)
            share = weight.scatter_(-1, best.indices, 1).div_(1 + rest)
            self._total[rows] += share
            # -sum p log p with log p = fall - log(1 + rest): no term is negative
            self._entropy[rows] += rest.log1p().squeeze(-1) - share.mul_(fall).sum(-1)
        self.count += 1

    @property
    def mean(self) -> Float64[Tensor, "queries candidates"]:
        """The posterior averaged over models; rank by it for posterior averaging."""
        return self._total / self.count

    @property
    def expected_entropy(self) -> Float64[Tensor, " queries"]:
        return self._entropy / self.count

    @property
    def mutual_information(self) -> Float64[Tensor, " queries"]:
        """Between answer and model: 0 where all models have the same posterior (Eq. 7)."""
        entropies = [entropy(self._total[rows] / self.count) for rows in _blocks(self._total)]
        return (torch.cat(entropies) - self.expected_entropy).clamp(min=0)


def entropy(
    probability: Float64[Tensor, "queries candidates"],
) -> Float64[Tensor, " queries"]:
    """In nats, with all its digits even where one candidate has nearly everything."""
    best = probability.argmax(-1, keepdim=True)
    others = probability.scatter(-1, best, 0)
    rest = others.sum(-1)
    return torch.special.entr(others).sum(-1) - (1 - rest) * torch.log1p(-rest)


def _blocks(scores: Float[Tensor, "queries candidates"]) -> Iterator[slice]:
    """So many queries at once that what is computed on the way stays small."""
    size = max(1, _AT_ONCE // scores.shape[1])
    for start in range(0, max(len(scores), 1), size):
        yield slice(start, start + size)
