"""Stochastic batch normalisation: draw the statistics of a mini-batch, ask many times.

In training every mini-batch had its own mean and variance;
`assembly.stochastic.batch_statistics` learns how they vary and `assembly.stochastic.passes`
draws them, once per pass. The measures are those of MC-dropout; what differs is where chance
comes from, so no dropout is needed.

Paper: Hama et al., "Exploring Uncertainty Measures for Image-Caption
Embedding-and-Retrieval Task", arXiv 2019, section 4.1; after Atanov et al., "Uncertainty
Estimation via Stochastic Batch Normalization", ICLR workshop 2018.
"""

from avow.core.contracts import Probe
from avow.uncertainty._drawn import Drawn


def build(*, passes: int = 50, temperature: float = 0.001) -> Probe:
    """passes: the paper's L. temperature: the paper's T of the retrieval posterior."""
    return Drawn(passes, temperature)
