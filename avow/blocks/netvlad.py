"""NetVLAD: a set of parts as how far they lie from learnt centres, one vector of fixed size.

Paper: Arandjelovic et al., "NetVLAD: CNN Architecture for Weakly Supervised Place
Recognition", CVPR 2016; ghost clusters, which take what belongs nowhere and are then left
out, as in Zhong et al., "GhostVLAD for Set-Based Face Recognition", ACCV 2018.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import normalize


class NetVlad(nn.Module):
    """Every part belongs to every cluster to some degree; padding belongs to none."""

    def __init__(self, inside: int, clusters: int, ghosts: int = 0):
        super().__init__()
        self.clusters = clusters
        self.width = inside * clusters
        self.belonging = nn.Parameter(inside**-0.5 * torch.randn(inside, clusters + ghosts))
        self.norm = nn.BatchNorm1d(clusters + ghosts)
        self.centres = nn.Parameter(inside**-0.5 * torch.randn(inside, clusters))

    def forward(
        self, parts: Float[Tensor, "items parts inside"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items width"]:
        parts = parts.masked_fill(~present[..., None], 0)
        belonging = self.norm((parts @ self.belonging).flatten(0, 1)).softmax(-1)
        belonging = belonging[:, : self.clusters].unflatten(0, parts.shape[:2])
        belonging = belonging * present[..., None]
        apart = (
            parts.transpose(1, 2) @ belonging - belonging.sum(1, keepdim=True) * self.centres
        )
        return normalize(normalize(apart, dim=1).flatten(1))
