r"""Measures over stochastic passes, whatever made them stochastic.

Every pass is one model drawn from the posterior of its weights. How far the query's vector
moves is its *feature uncertainty*; how far the retrieval posterior moves is its *posterior
uncertainty*. Averaging the vectors or the posteriors over passes ranks better than either
alone; the plain pass without chance is *weight averaging*.

Paper: Hama et al., "Exploring Uncertainty Measures for Image-Caption
Embedding-and-Retrieval Task", arXiv 2019, section 3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from avow.blocks.normalise import unit
from avow.core.contracts import Draw, Probe, QueryBatch
from avow.core.errors import BadData
from avow.uncertainty._answers import Measures, first, needed
from avow.uncertainty._posterior import Posteriors

Draws = Callable[[], Iterator[Draw]]


@dataclass(frozen=True)
class Drawn(Probe):
    """Feature and posterior uncertainty over `passes` draws."""

    passes: int
    temperature: float
    # pyrefly: ignore [bad-override]  (frozen)
    needs: frozenset[str] = frozenset({"draws"})

    def measure(self, asked: QueryBatch) -> Measures:
        """Without the feature uncertainty where the method gives no vectors."""
        source = needed(asked.draws, "draws", "stochastic passes over the same queries")
        remaining = taken(source, self.passes)
        head = next(remaining)
        posteriors = Posteriors(head.similarity, self.temperature)
        features, answers = Features(), []
        for draw in chain([head], remaining):
            posteriors.add(draw.similarity)
            answers.append(first(draw.similarity))
            if draw.vectors is not None:
                features.add(draw.vectors)
        usual = torch.stack(answers).mode(0).values
        measures = {
            "posterior uncertainty": posteriors.mutual_information,
            "expected entropy": posteriors.expected_entropy,
            "variation ratio": (torch.stack(answers) != usual).double().mean(0),
        }
        if features.count:
            measures["feature uncertainty"] = features.variance
        return {name: values.cpu() for name, values in measures.items()}


class Features:
    r"""Sums over models of the query vectors and their squares.

    $$ U_f(x) = \mathrm{Var}_w[y], \text{ summed over the elements of } y \qquad (4) $$
    """

    def __init__(self) -> None:
        self.count = 0
        self._total, self._squares = torch.zeros(()), torch.zeros(())

    def add(self, vectors: Float[Tensor, "queries dim"]) -> None:
        """Take in one more model."""
        exact = vectors.to(torch.float64, copy=True)
        if self.count == 0:
            self._total = torch.zeros_like(exact)
            self._squares = exact.new_zeros(len(exact))
        self.count += 1
        self._total += exact
        self._squares += exact.square_().sum(-1)

    @property
    def mean(self) -> Float64[Tensor, "queries dim"]:
        return self._total / self.count

    @property
    def variance(self) -> Float64[Tensor, " queries"]:
        """Summed over the elements (Eq. 4)."""
        squares = self._squares / self.count
        return (squares - self.mean.square().sum(-1)).clamp(min=0)


def averaged_over_features(
    draws: Draws, candidates: Float[Tensor, "candidates dim"], passes: int = 50
) -> Float[Tensor, "queries candidates"]:
    """Cosine of the query vectors averaged over passes with the candidates' vectors."""
    features = Features()
    for draw in taken(draws, passes):
        if draw.vectors is None:
            raise BadData(
                "These passes have no 'vectors'. Expected a method that gives each query "
                "one vector; average over posteriors instead."
            )
        features.add(draw.vectors)
    mean = unit(features.mean).to(candidates)
    return mean @ unit(candidates).T


def averaged_over_posteriors(
    draws: Draws, passes: int = 50, temperature: float = 10.0
) -> Float64[Tensor, "queries candidates"]:
    """The posterior averaged over passes, to rank by (the paper's temperature is 10)."""
    remaining = taken(draws, passes)
    head = next(remaining)
    posteriors = Posteriors(head.similarity, temperature)
    for draw in chain([head], remaining):
        posteriors.add(draw.similarity)
    return posteriors.mean


def taken(draws: Draws, passes: int) -> Iterator[Draw]:
    """The first `passes` draws; fewer would make another measure of it."""
    count = 0
    for draw in islice(draws(), passes):
        count += 1
        yield draw
    if count < max(passes, 1):
        raise BadData(
            f"There were {count} stochastic passes. Expected {passes}, at least one; set "
            "`passes` to what there is."
        )
