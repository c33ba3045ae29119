"""SAF: similarity vectors weighed by how much they say, then summed.

Paper: Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching",
AAAI 2021 (similarity attention filtration, Eq. 9-10).

Published systems go through the captions one by one, so the batch normalisation of the
weights sees one caption with all images at a time: it normalises by that caption's own
statistics, and its running ones move once per caption, in order. Here all captions are
normalised at once, each by its own, and the moves are summed up in closed form.

`score` is the logit; what published systems rank by and what `squash` means is explained in
`sgr`, and so is SGRAF, the average of the two.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import linear

from avow.blocks import fused
from avow.blocks.normalise import precise, unit
from avow.blocks.projection import spread
from avow.blocks.running_norm import RunningNorm
from avow.core.keywords import with_keywords
from avow.methods._similarity_vectors import Head, Reader, SimilarityVectors, VectorSettings


class CaptionNorm(RunningNorm):
    """Batch normalisation of one number per node, for each caption by itself."""

    def __init__(self) -> None:
        super().__init__(1)

    def forward(
        self,
        values: Float[Tensor, "images texts nodes"],
        present: Bool[Tensor, "texts nodes"],
    ) -> tuple[Float[Tensor, "images texts nodes"], Float[Tensor, "texts moments"]]:
        """The values normalised, and what to remember of each caption."""
        if not self.training:
            mean, var = self.running_mean, self.running_var
            moments = values.new_empty(len(present), 0)
        else:
            count = present.sum(1) * len(values)
            share = present.to(values) / count[:, None]
            mean = (values * share).sum((0, 2))[:, None]
            var = ((values - mean).square() * share).sum((0, 2))[:, None]
            unbiased = var[:, 0] * count / (count - 1)
            moments = torch.stack([mean[:, 0], unbiased], 1).detach()
        scale = self.weight * (var + self.eps).rsqrt()
        return (values - mean) * scale + self.bias, moments

    def line(self) -> tuple[Float[Tensor, "1"], Float[Tensor, "1"]]:
        """a and b of the normalised a x + b, where nothing is learnt any more."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return scale, self.bias - self.running_mean * scale

    @torch.no_grad()
    def remember(self, moments: Float[Tensor, "texts 2"]) -> None:
        """One step of the running statistics per caption, in order, all at once.

        r <- (1 - m) r + m s, n times, is (1 - m)^n r + sum of m (1 - m)^(n - 1 - t) s_t.
        """
        count, keep = len(moments), 1 - self.momentum
        ages = torch.arange(count - 1, -1, -1, dtype=moments.dtype, device=moments.device)
        mean, var = (self.momentum * keep**ages) @ moments
        self.running_mean.mul_(keep**count).add_(mean)
        self.running_var.mul_(keep**count).add_(var)


class AttentionFiltration(Head):
    """A weighted sum of the nodes, normalised, to one number."""

    def __init__(self, dim: int):
        super().__init__()
        self.weigh = spread(nn.Linear(dim, 1, bias=False))
        self.norm = CaptionNorm()
        self.judge = spread(nn.Linear(dim, 1))

    def reader(self, kind: torch.dtype) -> Reader:
        weigh = self.weigh.weight.to(kind)

        def read(
            nodes: Float[Tensor, "images texts nodes dim"], present: Bool[Tensor, "texts nodes"]
        ) -> tuple[Float[Tensor, "images texts"], Float[Tensor, "texts moments"]]:
            if not self.training and fused.is_possible(nodes):
                numbers = torch.cat([*self.norm.line(), self.judge.bias])
                judge = self.judge.weight[0]
                scores = fused.gated_scores(nodes, present, weigh[0], judge, numbers)
                if scores is not None:
                    return scores, scores.new_empty(len(present), 0)
            values, moments = self.norm(precise(linear(nodes, weigh).squeeze(-1)), present)
            open_ = values.sigmoid() * present
            # open gates are positive, so their sum is their l1 norm
            share = open_ / (open_.sum(-1, keepdim=True) + 1e-8)
            summed = (share[:, :, None].to(kind) @ nodes).squeeze(2)
            vector = unit(precise(summed))
            return linear(vector, self.judge.weight, self.judge.bias).squeeze(-1), moments

        return read

    def remember(self, moments: Float[Tensor, "texts moments"]) -> None:
        self.norm.remember(moments)


def _build(chosen: VectorSettings) -> SimilarityVectors:
    return SimilarityVectors(AttentionFiltration(chosen.similarity_dim), chosen)


build = with_keywords(VectorSettings, _build)
