"""What a batch normalisation of our own keeps: scale, shift, and statistics for evaluation."""

import torch
from torch import Tensor, nn


class RunningNorm(nn.Module):
    """The state alone, named as torch names it; `forward` says what counts as a batch."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, size: int, weight: float = 1.0, momentum: float = 0.1, eps: float = 1e-5
    ):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.full((size,), weight))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))
