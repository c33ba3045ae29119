r"""A subjective opinion: what the evidence says, and how much of it there is.

A query has K candidates. The network gives each a non-negative *evidence*. Read as
the parameters of a Dirichlet distribution, evidence splits one unit of mass into a
*belief* per candidate and one *uncertainty* shared by all: "I don't know".

    similarity --exp/relu/softplus--> evidence --Opinion--> belief, uncertainty

An `Opinion` holds the *logarithm* of the evidence. With exponential evidence at
temperature 0.05 a similarity of 1 is exp(20), and exp(100) does not fit in float32;
its logarithm does, and so do all the quantities and losses below. Everything above this
module (losses, ranking, abstention) reads an `Opinion`; nothing above it touches a
Dirichlet parameter by hand.

Paper: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025, Eq. 3-14.
"""

from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from avow.core.errors import BadRecipe
from avow.core.evidence import SMALLEST as _SMALLEST
from avow.core.evidence import EvidenceKind
from avow.core.gamma import digamma, kl_to_flat

_LARGEST_LOG = 80.0  # exp of it, and that over a small tau, are still float32


@dataclass(frozen=True)
class Opinion:
    """One opinion per query, over its K candidates (the last axis).

    >>> opinion = avow.Opinion.from_similarity(torch.tensor([[0.6, 0.1, 0.0]]), tau=0.05)
    >>> opinion.belief.argmax().item()
    0
    >>> round(float(opinion.belief.sum() + opinion.uncertainty), 4)
    1.0
    """

    log_evidence: Float[Tensor, "*queries K"]

    @classmethod
    def from_similarity(
        cls,
        similarity: Float[Tensor, "*queries K"],
        tau: float = 0.05,
        kind: EvidenceKind = "exp",
    ) -> "Opinion":
        """Read similarities as evidence (TCL Eq. 3)."""
        return cls(log_evidence(similarity, tau, kind))

    @property
    def log_alpha(self) -> Float[Tensor, "*queries K"]:
        return softplus(self.log_evidence)

    @property
    def log_strength(self) -> Float[Tensor, "*queries 1"]:
        return self.log_alpha.logsumexp(-1, keepdim=True)

    @property
    def alpha(self) -> Float[Tensor, "*queries K"]:
        """Dirichlet parameters, evidence + 1; saturates below the largest float32."""
        return self.log_alpha.clamp(max=_LARGEST_LOG).exp()

    @property
    def strength(self) -> Float[Tensor, "*queries 1"]:
        """S, the sum of alpha; saturates below the largest float32."""
        return self.log_strength.clamp(max=_LARGEST_LOG).exp()

    @property
    def belief(self) -> Float[Tensor, "*queries K"]:
        """Mass committed to each candidate; with `uncertainty` it sums to one."""
        return (self.log_evidence - self.log_strength).exp()

    @property
    def uncertainty(self) -> Float[Tensor, "*queries"]:
        """Mass committed to no candidate: K / S, so it depends on K (the gallery)."""
        return self.log_evidence.shape[-1] * (-self.log_strength).exp().squeeze(-1)

    @property
    def probability(self) -> Float[Tensor, "*queries K"]:
        """Expected matching probability, alpha / S."""
        return (self.log_alpha - self.log_strength).exp()

    def without(self, match: Bool[Tensor, "*queries K"]) -> "Opinion":
        """The same opinion with the evidence of the true matches taken away."""
        return Opinion(self.log_evidence.masked_fill(match, -torch.inf))

    def discounted(self, target: Float[Tensor, "*queries K"]) -> "Opinion":
        """The same with a share of each candidate's evidence taken away, 0 to 1.

        With a target of zeros and ones this is `without`: alpha becomes
        target + (1 - target) alpha (DECL, below Eq. 6).
        """
        whole = target >= 1
        left = torch.log1p(-target.masked_fill(whole, 0))
        return Opinion((self.log_evidence + left).masked_fill(whole, -torch.inf))


def log_evidence(
    similarity: Float[Tensor, "*queries K"], tau: float, kind: EvidenceKind
) -> Float[Tensor, "*queries K"]:
    """Logarithm of exp(s/tau), relu(s/tau) or softplus(s/tau) (TCL Eq. 3)."""
    if not tau > 0:
        raise BadRecipe(f"The temperature tau is {tau!r}. Expected a number above 0, as 0.05.")
    scaled = similarity / tau
    if kind == "exp":
        return scaled
    if kind == "relu":
        return scaled.clamp(min=_SMALLEST).log()
    if kind == "softplus":
        # far below zero softplus(x) is exp(x), whose logarithm needs no softplus
        tail = scaled < -20
        return torch.where(tail, scaled, softplus(scaled.masked_fill(tail, 0)).log())
    raise BadRecipe(
        f"There is no evidence function {kind!r}. Expected one of: "
        f"{', '.join(get_args(EvidenceKind))}."
    )


def dirichlet_risk(
    opinion: Opinion, match: Bool[Tensor, "*queries K"] | Float[Tensor, "*queries K"]
) -> Float[Tensor, "*queries"]:
    r"""Expected cross-entropy of the match under the Dirichlet (TCL Eq. 7).

    A match may count in part, where it is not wholly believed.

    $$ \mathcal{L}_q = \sum_k y_{qk}\,\bigl(\psi(S_q) - \psi(\alpha_{qk})\bigr) $$

    | symbol   | here               |
    |----------|--------------------|
    | $\alpha$ | `opinion.alpha`    |
    | $S$      | `opinion.strength` |
    | $y$      | `match`            |
    """
    both = digamma(torch.cat([opinion.log_strength, opinion.log_alpha], -1))
    return ((both[..., :1] - both[..., 1:]) * match).sum(-1)


def squared_risk(
    opinion: Opinion, target: Float[Tensor, "*queries K"]
) -> Float[Tensor, "*queries"]:
    r"""Expected squared distance of the target under the Dirichlet (DECL Eq. 1).

    $$ \mathcal{L}_m = \sum_j (y_j - \hat p_j)^2 + \frac{\hat p_j (1 - \hat p_j)}{L + 1} $$

    | symbol    | here                  |
    |-----------|-----------------------|
    | $\hat p$  | `opinion.probability` |
    | $L$       | `opinion.strength`    |
    | $y$       | `target`              |
    """
    probability = opinion.probability
    # 1 / (L + 1), of which L alone may not fit in float32
    narrow = (-softplus(opinion.log_strength)).exp()
    spread = probability * (1 - probability) * narrow
    return ((target - probability).square() + spread).sum(-1)


def kl_to_uniform(opinion: Opinion) -> Float[Tensor, "*queries"]:
    r"""KL(Dir(alpha) || Dir(1, ..., 1)), the distance from "I don't know" (TCL Eq. 9).

    As printed, the equation subtracts terms of size S log S from each other, and float32
    has no digits left for the difference once S is large. Writing
    $\ln\Gamma(x) = (x-\tfrac12)\ln x - x + c + g(x)$ and
    $\psi(x) = \ln x - \tfrac1{2x} + h(x)$, with $c = \tfrac12\ln 2\pi$, those terms cancel
    on paper and leave, exactly,

    $$ (K-\tfrac12)\ln S - \tfrac12\sum_k\ln\alpha_k + \tfrac12\sum_k\tfrac1{\alpha_k}
       - \tfrac{K}{2S} + g(S) - \sum_k g(\alpha_k) + \sum_k(\alpha_k-1)h(\alpha_k)
       - (S-K)h(S) + (1-K)(c+\tfrac12) - \ln\Gamma(K) $$

    | symbol   | here          |
    |----------|---------------|
    | $\alpha$ | `alpha`       |
    | $S$      | `strength`    |
    | $g, h$   | see `gamma` |
    """
    return kl_to_flat(opinion.log_alpha)


def disagreement(student: Opinion, teacher: Opinion) -> Float[Tensor, ""]:
    """Mean absolute difference of belief; only the student learns (TCL Eq. 12-13).

    Its value bounds the difference of the two uncertainties from above (Eq. 14).
    """
    return (student.belief - teacher.belief.detach()).abs().mean()
