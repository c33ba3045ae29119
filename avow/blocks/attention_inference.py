"""The attention of `blocks.attention` in few passes, on a processor where nothing is learnt.

What is learnt keeps the published order of operations, because rounding decides kinks there.
A score that is only read may take a shorter way to the same number:

- weights are exponentials that nobody divides by their sum: what comes of them is divided
  instead. Products of l2 norm 1 lie within 1, and float32 holds exp(20) squared;
- items that ask lie along the last axis, their parts along the one before. Lengths are then
  sums over an outer axis, which read memory in order, many numbers at a time;
- masks are not applied where nothing is masked, and results go where they are read next.

    [contexts, context_parts, query_parts, queries]
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.blocks import attention
from avow.blocks.attention import Focus, gram
from avow.blocks.normalise import precise
from avow.core.contracts import Encoded

_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it
_SHARPEST = 20.0  # the largest logit whose exponential float32 holds, and its square

Turned = Float[Tensor, "contexts context_parts query_parts queries"]


@dataclass(frozen=True)
class Context(Encoded):
    """Items that are looked at, with the products of their parts among themselves."""

    among: Float[Tensor, "items parts parts"] | None = None


@dataclass(frozen=True)
class Query(Encoded):
    """Items that look, stored part after part as `raw_products` reads them."""

    lengths: Float[Tensor, "parts items"] | None = None


def as_query(items: Encoded) -> Query:
    parts = items.parts.transpose(0, 1).contiguous().transpose(0, 1)
    return Query(parts, items.present, lengths=lengths(items))


def as_context(items: Encoded) -> Context:
    return Context(items.parts.contiguous(), items.present, among=gram(items))


def is_worthwhile(like: Tensor) -> bool:
    """Whether there is a short way for numbers such as these."""
    return like.device.type == "cpu" and not torch.is_grad_enabled()


def is_possible(query: Encoded, context: Encoded, how: Focus) -> bool:
    """Whether a comparison of these may go the short way."""
    # a single pair may be one of many under `vmap`, where nothing may be asked of a mask
    several = len(query.parts) * len(context.parts) > 1
    return several and is_mild(how) and is_worthwhile(query.parts)


def is_mild(how: Focus) -> bool:
    """Whether float32 holds the exponentials of all logits."""
    return 0 < how.smooth <= _SHARPEST and how.norm == "clipped_l2norm"


def look(
    query: Encoded, context: Encoded, how: Focus
) -> Float[Tensor, "contexts queries query_parts"]:
    """How well each query part is met by what it looks at, this way where it is possible."""
    if not is_possible(query, context, how):
        return attention.look(query, context, how)
    products = raw_products(query, context)
    weights = focus(products, query.present.T, context.present[:, :, None, None], how)
    square = squares(weights, among(context))
    total = weights.sum(1)
    return cosine(products.mul_(weights).sum(1), square, total, lengths(query)).mT


def lengths(query: Encoded) -> Float[Tensor, "parts items"]:
    """How long every part is."""
    held = query.lengths if isinstance(query, Query) else None
    if held is not None:
        return held
    kind = torch.promote_types(query.parts.dtype, torch.float32)
    return torch.linalg.vector_norm(query.parts, dim=-1, dtype=kind).T


def among(context: Encoded) -> Float[Tensor, "items parts parts"]:
    """The products of the parts of an item with each other."""
    held = context.among if isinstance(context, Context) else None
    return gram(context) if held is None else held


def unit_weights(
    asking: Float[Tensor, "query_parts queries dim"],
    asking_present: Bool[Tensor, "query_parts queries"],
    context: Context,
    how: Focus,
) -> Float[Tensor, "contexts context_parts rows"]:
    """Weights scaled, so that what is attended has length 1; a row is a query part."""
    products = precise(context.parts.flatten(0, 1) @ asking.flatten(0, 1).T)
    products = products.view(*context.present.shape, *asking.shape[:2])
    weights = focus(products, asking_present, context.present[:, :, None, None], how)
    small = weights.sum(1).mul_(_EPSILON)  # weights do not sum to one here
    length = squares(weights, among(context)).clamp_(min=small.square()).sqrt_()
    return weights.div_(length.add_(small)[:, None]).flatten(2).to(asking.dtype)


def raw_products(query: Encoded, context: Encoded) -> Turned:
    """Every query part with every context part."""
    asking = query.parts.transpose(0, 1)
    flat = precise(context.parts.flatten(0, 1) @ asking.flatten(0, 1).T)
    return flat.view(*context.present.shape, *asking.shape[:2])


def focus(
    products: Float[Tensor, "*shape"],
    asking: Bool[Tensor, "*#shape"],
    shown: Bool[Tensor, "*#shape"],
    how: Focus,
    along: int = -2,
) -> Float[Tensor, "*shape"]:
    """Weights over the context, as long as they come.

    asking, shown: which parts of queries and of contexts are there. along: the axis on
    which the query parts lie, whose products are made comparable.
    """
    weights = torch.nn.functional.leaky_relu(products, how.slope)
    if not asking.all():
        weights.mul_(asking)
    # not `vector_norm`, which takes some twenty times as long over an outer axis
    length = weights.square().sum(along, keepdim=True).sqrt_()
    weights.mul_(how.smooth / length.add_(_EPSILON)).exp_()
    if not shown.all():
        weights.mul_(shown)
    return weights


def squares(
    weights: Turned, gram: Float[Tensor, "contexts context_parts context_parts"]
) -> Float[Tensor, "contexts query_parts queries"]:
    """The squared length of what is attended."""
    return torch.bmm(gram, weights.flatten(2)).view_as(weights).mul_(weights).sum(1)


def cosine(
    dot: Float[Tensor, "*shape"],
    square: Float[Tensor, "*shape"],
    total: Float[Tensor, "*#shape"],
    own: Float[Tensor, "*#shape"],
) -> Float[Tensor, "*shape"]:
    """Of query parts of length `own` with what they attend to.

    dot, square: products with it and its squared length, both used up, by weights that
    sum to `total`.
    """
    length = square.div_(total.square()).clamp_(min=_EPSILON**2).sqrt_().mul_(own)
    return dot.div_(total).div_(length.clamp_(min=_EPSILON))
