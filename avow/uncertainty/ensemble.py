"""A deep ensemble: ask independently trained runs, and see how much they differ.

Paper: Lakshminarayanan et al., "Simple and Scalable Predictive Uncertainty Estimation using
Deep Ensembles", NeurIPS 2017; mutual information after Hama et al., arXiv 2019, Eq. 7-8.
"""

from dataclasses import dataclass

from avow.core.contracts import Probe, QueryBatch
from avow.uncertainty._answers import Measures, first, needed, tensor
from avow.uncertainty._posterior import Posteriors


@dataclass(frozen=True)
class Ensemble(Probe):
    """Disagreement among runs about the first answer."""

    temperature: float
    # pyrefly: ignore [bad-override]  (frozen)
    needs: frozenset[str] = frozenset({"runs"})

    def measure(self, asked: QueryBatch) -> Measures:
        """The first answer is that of the averaged similarity, as everywhere."""
        runs = tensor(needed(asked.runs, "runs", "the scores of independently trained runs"))
        answer = first(tensor(asked.together))
        scores = runs.gather(-1, answer[:, None].expand(len(runs), -1, 1))[..., 0]
        posteriors = Posteriors(runs[0], self.temperature)
        for run in runs:
            posteriors.add(run)
        return {
            "score variance": scores.var(0, correction=0),
            "mutual information": posteriors.mutual_information,
            "first answers differ": (runs.argmax(-1) != answer).to(scores.dtype).mean(0),
        }


def build(*, temperature: float = 0.001) -> Probe:
    """temperature: of the posteriors whose mutual information is taken."""
    return Ensemble(temperature)
