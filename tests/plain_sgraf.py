"""SAF and SGR as published systems go about them: a loop over captions, nothing saved up.

What `score` must equal, in training and in evaluation. It looks at one caption at a time,
cut to its own words, and uses torch's own batch normalisation.
"""

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, leaky_relu, linear, relu, softmax

from avow.core.contracts import Encoded
from avow.methods._similarity_vectors import SimilarityVectors
from avow.methods.saf import AttentionFiltration
from avow.methods.sgr import GraphReasoning


def length_one(x: Tensor) -> Tensor:
    return x / (x.pow(2).sum(-1, keepdim=True).sqrt() + 1e-8)


def plain_scores(method: SimilarityVectors, visual: Encoded, text: Encoded) -> Tensor:
    """Every image with every text; moves the running statistics as training does."""
    columns = []
    for caption, present in zip(text.parts, text.present, strict=True):
        gist, *words = caption[present]
        rows = [
            nodes_of_pair(method, parts[here], gist, torch.stack(words))
            for parts, here in zip(visual.parts, visual.present, strict=True)
        ]
        columns.append(read(method, torch.stack(rows)))
    return torch.stack(columns, 1)


def nodes_of_pair(
    method: SimilarityVectors, image: Tensor, text_gist: Tensor, words: Tensor
) -> Tensor:
    image_gist, regions = image[0], image[1:]
    products = leaky_relu(regions @ words.T, 0.1)
    looks = softmax(method.smooth * length_one(products).T, dim=-1)
    attended = length_one(looks @ regions)
    local = length_one(method.local((attended - words) ** 2))
    whole = length_one(method.whole((image_gist - text_gist) ** 2))
    return torch.cat([whole[None], local])


def read(method: SimilarityVectors, nodes: Tensor) -> Tensor:
    """All images with one caption: [images, nodes, dim] to one number each."""
    head = method.head
    if isinstance(head, GraphReasoning):
        for step in head.steps:
            edges = softmax(step.query(nodes) @ step.key(nodes).mT, dim=-1)
            nodes = relu(step.update(edges @ nodes))
        return head.judge(nodes[:, 0]).squeeze(-1)
    assert isinstance(head, AttentionFiltration)
    norm = head.norm
    values = batch_norm(
        linear(nodes, head.weigh.weight).transpose(1, 2),
        norm.running_mean,
        norm.running_var,
        norm.weight,
        norm.bias,
        method.training,
        0.1,
        1e-5,
    )
    gates = values.sigmoid()
    gates = gates / (gates.abs().sum(-1, keepdim=True) + 1e-8)
    return head.judge(length_one((gates @ nodes).squeeze(1))).squeeze(-1)
