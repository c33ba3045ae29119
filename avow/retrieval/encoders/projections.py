"""The directions in which int8x256 keeps the vectors of a model: those of reference queries."""

import numpy as np

from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.core.vector_forms import fit_projection
from avow.retrieval.encoders import bank


def fitted(encoder: Encoder) -> Float32[np.ndarray, "kept dim"]:
    """Fitted on the model's reference queries, or on those of the default one."""
    queries = bank.encoded(encoder) if encoder.bank else bank.usual_queries(encoder)
    return fit_projection(queries, encoder.views)
