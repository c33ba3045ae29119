"""How much each query part looks at each context part: the attention of SCAN.

Words may look at regions or regions at words; the same functions serve both. They work on
the raw products, so that what is attended is never formed where only its products are
needed. With the weights w of one word over the parts c of an image,

    word . attended = sum of w (word . c)          |attended|^2 = w G w,  G = c . c

For L words that look at R regions of D numbers, per image and text (and as it comes out
for L = 12, R = 36, D = 1024):

                              multiplications              largest tensor, float32
    forming what is attended  2 LRD + 2 LD        909,000  4 LD bytes    49 kB
    from the products, here   LRD + LRR + 2 LR    459,000  4 LR bytes   1.7 kB

G costs RRD once per image, which all texts of a tile share. Parts may come in bfloat16:
products are then taken in it, and every norm, sum and softmax in float32.

Paper: Lee et al., "Stacked Cross Attention for Image-Text Matching", ECCV 2018.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.blocks.normalise import precise
from avow.core.contracts import Encoded

FocusNorm = Literal[
    "softmax", "l2norm", "clipped_l2norm", "l1norm", "clipped_l1norm", "clipped", "none"
]
_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it
_SLOPE = 0.1  # what is left of negative products once they are clipped


def focus(
    products: Float[Tensor, "*pairs queries context"],
    query_present: Bool[Tensor, "*#pairs queries"],
    context_present: Bool[Tensor, "*#pairs context"],
    smooth: float,
    norm: FocusNorm = "clipped_l2norm",
    slope: float = _SLOPE,
) -> Float[Tensor, "*pairs queries context"]:
    """Weights over the context that sum to one for every query part.

    The products are first made comparable *across query parts* (`norm`), so that a region
    that resembles every word is not chosen by every word; then sharpened by `smooth`.
    Padded query parts take no part in that, and get weights that mean nothing.
    """
    if norm.startswith("clipped"):
        products = torch.nn.functional.leaky_relu(products, slope)
    real = query_present[..., None]
    if norm == "softmax":
        products = products.masked_fill(~real, -torch.inf).softmax(-2)
    elif norm.endswith("l2norm"):
        products = products * real
        length = torch.linalg.vector_norm(products, dim=-2, keepdim=True)
        # dividing and sharpening in one would save a pass, and is rounded otherwise than in
        # published systems; training decides kinks by less
        return _chosen((products / (length + _EPSILON)).mul_(smooth), context_present)
    elif norm.endswith("l1norm"):
        products = products * real
        products = products / (products.abs().sum(-2, keepdim=True) + _EPSILON)
    return _chosen(smooth * products, context_present)


def _chosen(
    logits: Float[Tensor, "*pairs queries context"],
    context_present: Bool[Tensor, "*#pairs context"],
) -> Float[Tensor, "*pairs queries context"]:
    """Over the context that is there; `logits` are used up."""
    return logits.masked_fill_(~context_present[..., None, :], -torch.inf).softmax(-1)


@dataclass(frozen=True)
class Focus:
    """The settings of `focus`."""

    smooth: float = 9.0
    norm: FocusNorm = "clipped_l2norm"
    slope: float = _SLOPE

    def __call__(
        self,
        products: Float[Tensor, "contexts queries query_parts context_parts"],
        query: Encoded,
        context: Encoded,
    ) -> Float[Tensor, "contexts queries query_parts context_parts"]:
        return focus(
            products,
            query.present[None],
            context.present[:, None],
            self.smooth,
            self.norm,
            self.slope,
        )


def raw_products(
    query: Encoded, context: Encoded
) -> Float[Tensor, "contexts queries query_parts context_parts"]:
    """Every query part with every context part: one large matrix product."""
    flat = precise(context.parts.flatten(0, 1) @ query.parts.flatten(0, 1).T)
    shape = (*context.present.shape, *query.present.shape)
    return flat.view(shape).permute(0, 2, 3, 1)


def gram(
    context: Encoded,
) -> Float[Tensor, "contexts context_parts context_parts"]:
    """Every context part with every other one of its item."""
    return precise(context.parts @ context.parts.mT)


def attended_cosine(
    products: Float[Tensor, "contexts queries query_parts context_parts"],
    weights: Float[Tensor, "contexts queries query_parts context_parts"],
    query: Encoded,
    gram: Float[Tensor, "contexts context_parts context_parts"],
) -> Float[Tensor, "contexts queries query_parts"]:
    """The cosine of each query part with what it attends to, from products alone."""
    dot = (weights * products).sum(-1)
    square = (weights * (weights.flatten(1, 2) @ gram).view(weights.shape)).sum(-1)
    # at a length of 0 the root has no gradient
    own = torch.linalg.vector_norm(query.parts, dim=-1, dtype=square.dtype)
    length = square.clamp(min=_EPSILON**2).sqrt() * own
    return dot / length.clamp(min=_EPSILON)


def look(
    query: Encoded, context: Encoded, how: Focus
) -> Float[Tensor, "contexts queries query_parts"]:
    """How well each query part is met by what it looks at in each context item."""
    products = raw_products(query, context)
    weights = how(products, query, context)
    return attended_cosine(products, weights, query, gram(context))


def mean_of_present(
    values: Float[Tensor, "contexts queries parts"], present: Bool[Tensor, "queries parts"]
) -> Float[Tensor, "contexts queries"]:
    """The mean over the query parts that are there."""
    return (values * present).sum(-1) / present.sum(-1)
