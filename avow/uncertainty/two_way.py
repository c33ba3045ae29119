"""Ask the answer back: would the candidate, looking at many queries, choose this one?

A hub scores well with every query, so its high score says little. The candidate's own
opinion tells it apart: its evidence for this query beside what a bank of reference queries
gave it. The bank is summed up per candidate beforehand (`core.background`), so asking back
costs nothing at search time.

Papers: Smith et al., "Offline bilingual word vectors, orthogonal transformations and the
inverted softmax", ICLR 2017 (softmax over the queries); Cheng et al., "Improving
Video-Text Retrieval by Multi-Stream Corpus Alignment and Dual Softmax Loss", arXiv 2021
(product of both softmaxes).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.core.background import Background
from avow.core.contracts import Probe, QueryBatch
from avow.core.errors import BadData
from avow.uncertainty._answers import Measures, first, in_blocks, nearest, needed, tensor

_LEAST_SPREAD = 1e-6  # a bank of one query has none


@dataclass(frozen=True)
class TwoWay(Probe):
    """How unusual this query is among all that might have asked for the answer."""

    shortlist: int
    # pyrefly: ignore [bad-override]  (frozen)
    needs: frozenset[str] = frozenset({"background"})

    def measure(self, asked: QueryBatch) -> Measures:
        """Averaged over the views, each of which has its own opinion."""
        background = needed(asked.background, "background", "scores of reference queries")
        _check(background, asked.similarity)
        usual = Bank.of(background)
        return in_blocks(asked.similarity, lambda views: self._look(views, usual, asked.own))

    def _look(
        self, views: Float[Tensor, "views queries candidates"], usual: "Bank", own: int
    ) -> Measures:
        answer = first(views.mean(0))
        score = _at(views, answer[:, None])[..., 0]
        back = log_back(score, usual.log_mean[:, answer], usual)
        forth = score / usual.tau - (views / usual.tau).logsumexp(-1)
        near = nearest(views.mean(0), self.shortlist)
        near_back = log_back(_at(views, near), usual.log_mean[:, near], usual)
        measures = {
            "back": -back.mean(0),
            "back shortlist": -near_back.mean(0).amax(-1),
            "both ways": -(back + forth).mean(0),
            "inverted softmax": -_chosen(inverted_softmax(views, usual), answer),
            "reciprocal rank": -(1 / rank(score, answer, usual)).mean(0),
            "standard score": -standard_score(score, answer, usual).mean(0),
            "hub": usual.log_mean[:, answer].mean(0),
        }
        if len(views) > 1:
            others = [view for view in range(len(views)) if view != own]
            measures |= {"back own": -back[own], "back other": -back[others].mean(0)}
        return measures


@dataclass(frozen=True)
class Bank:
    """A `Background` as tensors."""

    queries: int
    tau: float
    log_mean: Float[Tensor, "views candidates"]
    mean: Float[Tensor, "views candidates"]
    spread: Float[Tensor, "views candidates"]
    top: Float[Tensor, "views candidates kept"]

    @classmethod
    def of(cls, background: Background) -> "Bank":
        parts = (background.log_mean, background.mean, background.spread, background.top)
        return cls(background.queries, background.tau, *map(tensor, parts))


def log_back(
    score: Float[Tensor, "*shape"], log_mean: Float[Tensor, "*shape"], usual: "Bank"
) -> Float[Tensor, "*shape"]:
    """Logarithm of p(query | candidate): its evidence over the bank's and its own.

    s/tau - log(queries * mean evidence + exp(s/tau))
    """
    own = score / usual.tau
    return own - torch.logaddexp(log_mean + math.log(usual.queries), own)


def inverted_softmax(
    views: Float[Tensor, "views queries candidates"], usual: "Bank"
) -> Float[Tensor, "queries candidates"]:
    """Belief in every candidate once each one's evidence is divided by its usual."""
    relative = views / usual.tau - usual.log_mean[:, None]
    return relative.mean(0).softmax(-1)


def rank(
    score: Float[Tensor, "views queries"],
    answer: Int[Tensor, " queries"],
    usual: "Bank",
) -> Float[Tensor, "views queries"]:
    """The place of this query among the bank's for the candidate; ties count against it.

    Exact within the kept scores. Beyond them it is an estimate: as many as would score
    higher if the bank's scores were normal with their mean and spread.
    """
    stored = usual.top.shape[-1]
    above = (usual.top[:, answer] >= score[..., None]).sum(-1).to(score.dtype)
    tail = torch.special.ndtr(-standard_score(score, answer, usual))
    guessed = (usual.queries * tail).clamp(min=stored)
    return 1 + torch.where(above < stored, above, guessed)


def standard_score(
    score: Float[Tensor, "views queries"],
    answer: Int[Tensor, " queries"],
    usual: "Bank",
) -> Float[Tensor, "views queries"]:
    """How many standard deviations above what the candidate usually gets."""
    spread = usual.spread[:, answer].clamp(min=_LEAST_SPREAD)
    return (score - usual.mean[:, answer]) / spread


def _at(
    views: Float[Tensor, "views queries candidates"], places: Int[Tensor, "queries some"]
) -> Float[Tensor, "views queries some"]:
    return views.gather(-1, places.expand(len(views), -1, -1))


def _chosen(
    values: Float[Tensor, "queries candidates"], answer: Int[Tensor, " queries"]
) -> Float[Tensor, " queries"]:
    return values.gather(-1, answer[:, None])[:, 0]


def _check(
    usual: Background, similarity: Float[np.ndarray, "views queries candidates"]
) -> None:
    wanted = (similarity.shape[0], similarity.shape[2])
    shape = tuple(usual.log_mean.shape)
    if shape != wanted:
        raise BadData(
            f"The background knows {shape[0]} views and {shape[1]} candidates, and the "
            f"scores have {wanted[0]} and {wanted[1]}. Expected the same; make it from the "
            "same views and gallery."
        )


def build(*, shortlist: int = 128) -> Probe:
    """shortlist: among how many of the best candidates one may ask back."""
    return TwoWay(shortlist)
