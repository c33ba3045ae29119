"""MC-dropout: keep dropout on, ask many times, and see how much the answers differ.

`assembly.stochastic.passes` makes the draws. They are worth something only for a model that was
trained with dropout (`dropout_word`, `dropout_image`, `dropout_head` of its method).

Paper: Hama et al., "Exploring Uncertainty Measures for Image-Caption
Embedding-and-Retrieval Task", arXiv 2019, Eq. 4, 7 and 8; after Gal & Ghahramani,
"Dropout as a Bayesian Approximation", ICML 2016.
"""

from avow.core.contracts import Probe
from avow.uncertainty._drawn import Drawn


def build(*, passes: int = 50, temperature: float = 0.001) -> Probe:
    """passes: the paper's L. temperature: the paper's T of the retrieval posterior."""
    return Drawn(passes, temperature)
