r"""Digamma and the Dirichlet's divergence, of numbers given by their logarithms.

For $x \ge 1$, with $c = \tfrac12\ln 2\pi$:

$$ \ln\Gamma(x) = (x-\tfrac12)\ln x - x + c + g(x) \qquad
   \psi(x) = \ln x - \tfrac1{2x} + h(x) \qquad x\,\psi'(x) = 1 + u(x) $$

g, h and u are small where x is large, and come from three terms of their series there.
Gradients are written out: what autograd makes of these formulas is 700 small kernels for the
risk of one batch, which a processor takes longer to ask for than a device to run.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_SERIES_FROM = math.log(8.0)  # above it, three terms of the series are exact in float32


def digamma(log_x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Digamma of exp(log_x), for x >= 1."""
    return _Digamma.apply(log_x)  # type: ignore[return-value]


def kl_to_flat(log_alpha: Float[Tensor, "*queries K"]) -> Float[Tensor, "*queries"]:
    r"""KL(Dir(alpha) || Dir(1, ..., 1)), for alpha >= 1; see `opinion.kl_to_uniform`.

    $$ \frac{\partial\,\mathrm{KL}}{\partial\ln\alpha_k}
       = \alpha_k\bigl((\alpha_k-1)\psi'(\alpha_k) - (S-K)\psi'(S)\bigr)
       = (\alpha_k-1)u(\alpha_k) - 1 + \tfrac{\alpha_k}{S}\bigl(K - (S-K)u(S)\bigr) $$
    """
    return _KlToFlat.apply(log_alpha)  # type: ignore[return-value]


class _Halves:
    """Numbers x, the small ones as they are and the large ones as 1/x; harmless elsewhere."""

    def __init__(self, log_x: Tensor):
        self.large = log_x > _SERIES_FROM
        self.small = log_x.masked_fill(self.large, 0).exp()
        self.inverse = (-log_x.masked_fill(~self.large, _SERIES_FROM)).exp()
        self.square, self.log = self.inverse.square(), self.small.log()

    def h(self) -> tuple[Tensor, Tensor]:
        """h and x h: x alone may not fit in float32."""
        square = self.square
        series = -self.inverse * (1 / 12 - square * (1 / 120 - square / 252))
        direct = torch.digamma(self.small) - self.log + 0.5 / self.small
        return self._either(self.inverse * series, direct), self._either(
            series, self.small * direct
        )

    def u(self) -> tuple[Tensor, Tensor]:
        """u and x u."""
        square = self.square
        series = 0.5 + self.inverse * (1 / 6 - square * (1 / 30 - square / 42))
        direct = self.small * torch.special.polygamma(1, self.small) - 1
        return self._either(self.inverse * series, direct), self._either(
            series, self.small * direct
        )

    def g(self) -> Tensor:
        square = self.square
        series = self.inverse * (1 / 12 - square * (1 / 360 - square / 1260))
        stirling = (self.small - 0.5) * self.log - self.small + 0.5 * math.log(2 * math.pi)
        return self._either(series, torch.lgamma(self.small) - stirling)

    def _either(self, series: Tensor, direct: Tensor) -> Tensor:
        return torch.where(self.large, series, direct)


class _Digamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_x: Tensor) -> Tensor:
        halves = _Halves(log_x)
        ctx.save_for_backward(halves.u()[0])
        return torch.add(log_x, (-log_x).exp(), alpha=-0.5) + halves.h()[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:  # type: ignore[override]
        return torch.addcmul(slopes[0], slopes[0], ctx.saved_tensors[0])


class _KlToFlat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_alpha: Tensor) -> Tensor:
        count = log_alpha.shape[-1]
        log_strength = log_alpha.logsumexp(-1, keepdim=True)
        both = torch.cat([log_alpha, log_strength], -1)
        halves, inverse = _Halves(both), (-both).exp()
        (h, x_h), (u, x_u), g = halves.h(), halves.u(), halves.g()
        whole = slice(count, None)
        share = (log_alpha - log_strength).exp()
        slope = (x_u - u).narrow(-1, 0, count) - 1
        whole_slope = count - x_u[..., whole] + count * u[..., whole]
        ctx.save_for_backward(torch.addcmul(slope, share, whole_slope))
        terms = 0.5 * (inverse - both) - g + x_h - h
        per_candidate = terms.narrow(-1, 0, count).sum(-1)
        of_strength = (
            (count - 0.5) * log_strength
            - 0.5 * count * inverse[..., whole]
            + g[..., whole]
            - x_h[..., whole]
            + count * h[..., whole]
        )
        constant = (1 - count) * (math.log(2 * math.pi) + 1) / 2 - math.lgamma(count)
        return of_strength.squeeze(-1) + per_candidate + constant

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:  # type: ignore[override]
        return slopes[0][..., None] * ctx.saved_tensors[0]
