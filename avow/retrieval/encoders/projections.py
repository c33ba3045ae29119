"""The directions in which int8x256 keeps the vectors of a model.

MODEL/projection.safetensors    fitted on queries and pictures, where the model brings it

Without it they are fitted on reference queries alone: the model's, or those of the default one.
"""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from avow.assembly.model_files import damaged
from avow.core import seals
from avow.core.files import new_file
from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.core.vector_forms import fit_projection
from avow.retrieval.encoders import bank

FILE = "projection.safetensors"


def fitted(encoder: Encoder) -> Float32[np.ndarray, "kept dim"]:
    """The projection that comes with a model, else one of its reference queries."""
    packed = _packed(encoder)
    if packed is not None:
        return packed
    queries = bank.encoded(encoder) if encoder.bank else bank.usual_queries(encoder)
    return fit_projection(queries, encoder.views)


def pack(encoder: Encoder, home: Path, pictures: Float32[np.ndarray, "items dim"]) -> None:
    """Fit the projection of a model on its reference queries and on pictures; write it."""
    projection = fit_projection(bank.encoded(encoder), encoder.views, pictures)
    with new_file(home / FILE) as fresh:
        save_file(
            {"projection": projection.astype(np.float16)}, fresh, {"of": encoder.fingerprint}
        )
    seals.write_list(home)


def _packed(encoder: Encoder) -> Float32[np.ndarray, "kept dim"] | None:
    home = getattr(encoder, "home", None)
    path = None if home is None else home / FILE
    if path is None or not path.is_file():
        return None
    try:
        seals.check(path)
        with safe_open(path, "numpy") as opened:
            if (opened.metadata() or {}).get("of") != encoder.fingerprint:
                return None
            projection = opened.get_tensor("projection").astype(np.float32)
    except seals.Damaged as error:
        raise damaged(path, error) from error
    except (OSError, SafetensorError):
        return None  # of another program: it can be fitted again
    return projection if projection.ndim == 2 and projection.shape[1] == encoder.dim else None
