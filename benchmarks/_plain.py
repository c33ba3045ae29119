"""Scoring as published systems go about it: one caption after the other, all images at once.

What `benchmarks/speed/methods.py` runs beside ours, with the same weights on the same items.
Every caption is cut to its own words and compared with all images by batched products; what is
attended is formed in full. Nothing is shared between captions.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, leaky_relu, softmax

from avow.core.contracts import Encoded, Method, VectorMethod
from avow.methods._partwise import Partwise
from avow.methods._similarity_vectors import SimilarityVectors
from avow.methods.acmnet import ConfidenceMatching
from avow.methods.dive import Dive
from avow.methods.gsmn import Gsmn
from avow.methods.imram import Memory, RecurrentAttention
from avow.methods.saf import AttentionFiltration
from avow.methods.scan import CrossAttention
from avow.methods.sgr import GraphReasoning

OneCaption = Callable[[Tensor], Tensor]
"""From the parts of a caption to its score with every image."""


def plain_scores(method: Method, visual: Encoded, text: Encoded) -> Tensor:
    """`score` of every pair, one column after the other; all regions are present."""
    one = one_caption(method, visual)
    columns = [one(parts[here]) for parts, here in zip(text.parts, text.present, strict=True)]
    return torch.stack(columns, 1)


def one_caption(method: Method, visual: Encoded) -> OneCaption:
    images = visual.parts
    if isinstance(method, SimilarityVectors):
        return lambda caption: _similarity_vectors(method, images, caption)
    if isinstance(method, Gsmn):
        return lambda caption: _gsmn(method, visual, caption)
    if isinstance(method, VectorMethod):
        return lambda caption: images[:, 0] @ caption[0]
    if isinstance(method, Dive):
        return lambda caption: _dive(method, images, caption)
    assert isinstance(method, Partwise), f"there is no plain loop of {type(method).__name__}"
    pairing = method.pairing
    if isinstance(pairing, CrossAttention):
        return lambda caption: _scan(pairing, images, caption)
    if isinstance(pairing, RecurrentAttention):
        return lambda caption: _imram(pairing, images, caption)
    assert isinstance(pairing, ConfidenceMatching)
    return lambda caption: _acmnet(pairing, images, caption)


def _length_one(x: Tensor) -> Tensor:
    return x / (x.pow(2).sum(-1, keepdim=True).sqrt() + 1e-8)


def _attended(query: Tensor, context: Tensor, smooth: float, slope: float = 0.1) -> Tensor:
    """What each query part looks at, [images, parts, dim]."""
    products = leaky_relu(context @ query.mT, slope)
    return softmax(smooth * _length_one(products).mT, -1) @ context


def _both(images: Tensor, caption: Tensor) -> tuple[Tensor, Tensor]:
    return images, caption.expand(len(images), -1, -1)


def _scan(pairing: CrossAttention, images: Tensor, caption: Tensor) -> Tensor:
    regions, words = _both(images, caption)
    query, context = (words, regions) if pairing.direction == "t2i" else (regions, words)
    local = cosine_similarity(query, _attended(query, context, pairing.how.smooth), dim=-1)
    if pairing.aggregate == "mean":
        return local.mean(-1)
    return (pairing.lse_scale * local).logsumexp(-1) / pairing.lse_scale


def _imram(pairing: RecurrentAttention, images: Tensor, caption: Tensor) -> Tensor:
    regions, words = _both(images, caption)
    total = images.new_zeros(len(images))
    if pairing.mode != "image":
        total = total + _looks(pairing, words, regions, pairing.words)
    if pairing.mode != "text":
        total = total + _looks(pairing, regions, words, pairing.regions)
    return total


def _looks(
    pairing: RecurrentAttention, query: Tensor, context: Tensor, memory: Memory | None
) -> Tensor:
    state, scores = query, []
    for step in range(pairing.steps):
        seen = _attended(state, context, pairing.how.smooth)
        scores.append(cosine_similarity(query, seen, dim=-1).mean(-1))
        if memory is not None and step + 1 < pairing.steps:
            beside = torch.cat([state, seen], -1)
            gate, fresh = memory.gate(beside).sigmoid(), memory.fresh(beside).tanh()
            state = state * gate + fresh * (1 - gate)
            state = _length_one(state) if memory.norm else state
    return torch.stack(scores).sum(0)


def _acmnet(pairing: ConfidenceMatching, images: Tensor, caption: Tensor) -> Tensor:
    regions, words = _both(images, caption)
    query, led = (regions, words) if pairing.grounded == "image" else (words, regions)
    whole, context = led[:, :1].expand_as(query), led[:, 1:]
    seen = _attended(query, context, pairing.how.smooth, slope=0.0)
    local = cosine_similarity(query, seen, dim=-1)
    trust = pairing.gate(torch.cat([query, whole], -1)).sigmoid().squeeze(-1)
    weighed = local * (trust + pairing.base)
    return weighed.mean(-1) if pairing.reduce == "mean" else weighed.sum(-1)


def _similarity_vectors(method: SimilarityVectors, images: Tensor, caption: Tensor) -> Tensor:
    regions, words = _both(images[:, 1:], caption[1:])
    attended = _length_one(_attended(words, regions, method.smooth))
    local = _length_one(method.local((attended - words).pow(2)))
    whole = _length_one(method.whole((images[:, :1] - caption[0]).pow(2)))
    nodes = torch.cat([whole, local], 1)
    head = method.head
    if isinstance(head, GraphReasoning):
        for step in head.steps:
            edges = softmax(step.query(nodes) @ step.key(nodes).mT, -1)  # type: ignore[operator]
            nodes = step.update(edges @ nodes).relu()  # type: ignore[operator]
        return head.judge(nodes[:, 0]).squeeze(-1)
    assert isinstance(head, AttentionFiltration)
    norm = head.norm
    values = (head.weigh(nodes) - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    gates = (values * norm.weight + norm.bias).sigmoid().mT
    gates = gates / (gates.abs().sum(-1, keepdim=True) + 1e-8)
    return head.judge(_length_one((gates @ nodes).squeeze(1))).squeeze(-1)


def _gsmn(method: Gsmn, visual: Encoded, caption: Tensor) -> Tensor:
    regions, words = _both(visual.parts, caption)
    alone = Encoded(caption[None], torch.ones(1, len(caption), dtype=torch.bool))
    by_region = _blocks(regions, _attended(regions, words, method.smooth), method.blocks)
    by_word = _blocks(words, _attended(words, regions, method.smooth), method.blocks)
    one = alone.to(caption.device)
    first = method.visual_graph(by_region[:, None], method.weights(visual), visual.present)
    second = method.textual_graph(by_word[:, None], method.links(one), one.present)
    return (first + second)[:, 0]


def _blocks(one: Tensor, other: Tensor, count: int) -> Tensor:
    return cosine_similarity(
        one.unflatten(-1, (count, -1)), other.unflatten(-1, (count, -1)), dim=-1
    )


def _dive(method: Dive, images: Tensor, caption: Tensor) -> Tensor:
    cosines = images @ caption.T
    if method.kind == "max":
        return cosines.amax((1, 2))
    if method.kind == "chamfer":
        return (cosines.amax(2).mean(1) + cosines.amax(1).mean(1)) / 2
    soft = method.sharpness * cosines
    both = soft.logsumexp(2).mean(1) + soft.logsumexp(1).mean(1)
    return both / (2 * method.sharpness)
