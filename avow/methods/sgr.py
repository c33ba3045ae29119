"""SGR: similarity vectors that talk to each other in a small graph, then the whole's node.

Paper: Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching",
AAAI 2021 (similarity graph reasoning, Eq. 6-8). As published, the steps share no weights,
have no residual, and their softmax is not scaled.

`score` is the logit. Published systems rank by its sigmoid (SGRAF, TCL) or by
exp(tanh / tau) (DECL), and learn evidence from its tanh (TCL, DECL); all of them order the
candidates of one network alike, but a margin means something else under each, and so does
the average of two networks. `squash = "tanh"` is for evidence, `"sigmoid"` for the hinge
as SGRAF was trained, `"none"` leaves the range open.

SGRAF is the average of a SAF and an SGR that were trained apart: train the pair of recipes
`saf_hinge` and `sgr_hinge`, and `avow evaluate SAF_RUN SGR_RUN` averages their similarities.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import linear

from avow.blocks import fused
from avow.blocks.normalise import precise
from avow.blocks.projection import spread
from avow.core.errors import BadRecipe
from avow.core.keywords import with_keywords
from avow.methods._similarity_vectors import Head, Reader, SimilarityVectors, VectorSettings


class GraphStep(nn.Module):
    """x <- relu(W (softmax(Q(x) K(x)^T) x)): every node looks at every node (Eq. 7-8).

    | symbol           | here              |
    |------------------|-------------------|
    | $W_{in}$         | `query`           |
    | $W_{out}$        | `key`             |
    | $W_r$            | `update`          |

    A bias of the keys would add the same to all logits of a node, which the softmax takes
    away. Query and key then act through their product alone: q.k = (x Q^T K + b K) . x, one
    projection instead of two.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.query = spread(nn.Linear(dim, dim))
        self.key = spread(nn.Linear(dim, dim, bias=False))
        self.update = spread(nn.Linear(dim, dim))

    def asking(self) -> tuple[Float[Tensor, "dim dim"], Float[Tensor, " dim"]]:
        """The map whose product with a node is the logit of looking at it."""
        return self.key.weight.T @ self.query.weight, self.query.bias @ self.key.weight


class GraphReasoning(Head):
    """All steps but the last for every node; the last for node 0, which alone is read."""

    def __init__(self, dim: int, steps: int):
        super().__init__()
        self.steps = nn.ModuleList(GraphStep(dim) for _ in range(steps))
        self.judge = spread(nn.Linear(dim, 1))

    def reader(self, kind: torch.dtype) -> Reader:
        graph_steps = [step for step in self.steps if isinstance(step, GraphStep)]
        maps = [step.asking() for step in graph_steps]
        asking = [(matrix.to(kind), bias.to(kind)) for matrix, bias in maps]
        update = [
            (step.update.weight.to(kind), step.update.bias.to(kind)) for step in graph_steps
        ]

        def read(
            nodes: Float[Tensor, "images texts nodes dim"], present: Bool[Tensor, "texts nodes"]
        ) -> tuple[Float[Tensor, "images texts"], Float[Tensor, "texts moments"]]:
            for ask, change in zip(asking[:-1], update[:-1], strict=True):
                nodes = _stepped(nodes, present, ask, change)
            heard = _last_heard(linear(nodes[:, :, :1], *asking[-1]), nodes, present)
            top = linear(heard.squeeze(2), *update[-1]).relu()
            scores = linear(precise(top), self.judge.weight, self.judge.bias).squeeze(-1)
            return scores, scores.new_empty(len(present), 0)

        return read


def _stepped(
    nodes: Float[Tensor, "images texts nodes dim"],
    present: Bool[Tensor, "texts nodes"],
    ask: fused.Layer,
    change: fused.Layer,
) -> Float[Tensor, "images texts nodes dim"]:
    """Every node after it has heard every other."""
    if fused.is_possible(nodes):
        after = fused.graph_step(nodes, present, ask, change)
        if after is not None:
            return after
    return linear(_heard(linear(nodes, *ask), nodes, present), *change).relu_()


def _last_heard(
    question: Float[Tensor, "images texts 1 dim"],
    nodes: Float[Tensor, "images texts nodes dim"],
    present: Bool[Tensor, "texts nodes"],
) -> Float[Tensor, "images texts 1 dim"]:
    """What node 0 gathers."""
    if fused.is_possible(nodes):
        heard = fused.last_look(question, nodes, present)
        if heard is not None:
            return heard
    return _heard(question, nodes, present)


def _heard(
    question: Float[Tensor, "images texts asking dim"],
    nodes: Float[Tensor, "images texts nodes dim"],
    present: Bool[Tensor, "texts nodes"],
) -> Float[Tensor, "images texts asking dim"]:
    """What each asking node gathers from the nodes it looks at."""
    logits = precise(question @ nodes.mT).masked_fill(~present[:, None], -torch.inf)
    return logits.softmax(-1).to(nodes.dtype) @ nodes


@dataclass(frozen=True, kw_only=True)
class Settings(VectorSettings):
    """steps: of the graph."""

    steps: int = 3


def _build(chosen: Settings) -> SimilarityVectors:
    if chosen.steps < 1:
        raise BadRecipe(
            f"The graph has '{chosen.steps}' steps. Expected at least 1; change steps."
        )
    return SimilarityVectors(GraphReasoning(chosen.similarity_dim, chosen.steps), chosen)


build = with_keywords(Settings, _build)
