"""Arrays that losses share: what is compared, which of it belongs together, and the costs."""

from jaxtyping import Bool, Float
from torch import Tensor

QueryScores = Float[Tensor, "queries K"]
"""Scores or targets of one direction: a row is a query, a column a candidate."""
QueryMatches = Bool[Tensor, "queries K"]
PerQuery = Float[Tensor, " queries"]

PairScores = Float[Tensor, "pairs pairs"]
"""Scores of a batch whose images and texts are paired in order."""
PairMatches = Bool[Tensor, "pairs pairs"]
PerPair = Float[Tensor, " pairs"]

Value = Float[Tensor, ""]
"""What a training step minimises."""
