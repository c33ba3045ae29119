"""The reference queries of a model, which tell what is usual for an item, and their vectors.

MODEL/bank.json                 the queries
MODEL/bank.safetensors          their vectors in bytes, where the model brings them
$AVOW_HOME/banks/<what>.npz     their vectors, encoded once for all indexes of this user
"""

from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from avow.assembly.model_files import damaged
from avow.core import seals
from avow.core.errors import NoRoom, WrongCheckpoint
from avow.core.files import new_file
from avow.core.fingerprint import of_text
from avow.core.places import avow_home, packaged_folder
from avow.core.searching import Encoder
from avow.core.shapes import Float32

TEXTS, VECTORS = "bank.json", "bank.safetensors"


def texts(home: Path | None) -> tuple[str, ...]:
    """The reference queries beside a model, where it brings some."""
    path = None if home is None else home / TEXTS
    if path is None or not path.is_file():
        return ()
    try:
        queries = seals.read_document(path)["texts"]
        if not all(isinstance(text, str) and text for text in queries):
            raise ValueError("not all of them are texts")
        return tuple(queries)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongCheckpoint(
            f"The reference queries {str(path)!r} cannot be read ({error}). Expected "
            '{"texts": [...]} with the queries as strings; copy the model again.'
        ) from error


def encoded(encoder: Encoder) -> Float32[np.ndarray, "queries dim"]:
    """The vectors of an encoder's reference queries, encoded only if they are not cached."""
    packed_vectors = encoder.packed_bank()
    if packed_vectors is not None:
        return packed_vectors
    path = avow_home() / "banks" / f"{_identity(encoder)}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:  # zip archives carry checksums
            cached = stored["vectors"]
        if cached.shape == (len(encoder.bank), encoder.dim):
            return cached.astype(np.float32)
    except Exception:
        pass  # not there yet, or damaged in some way: it can be made again
    vectors = np.asarray(encoder.encode_texts(encoder.bank), np.float32)
    with suppress(OSError, NoRoom):  # it saves time next time, and nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as fresh, fresh.open("r+b") as stream:
            np.savez(stream, vectors=vectors)
    return vectors


def usual_queries(encoder: Encoder) -> Float32[np.ndarray, "queries dim"]:
    """The reference queries of the default model, as a model without its own reads them."""
    return np.asarray(encoder.encode_texts(texts(packaged_folder())), np.float32)


def packed(encoder: Encoder, home: Path | None) -> Float32[np.ndarray, "queries dim"] | None:
    """The vectors beside a model, unless they are of other weights or other queries."""
    path = None if home is None else home / VECTORS
    if path is None or not path.is_file():
        return None
    try:
        seals.check(path)
        with safe_open(path, "numpy") as opened:
            if (opened.metadata() or {}).get("of") != _identity(encoder):
                return None
            middle, scale, steps = map(opened.get_tensor, ("middle", "scale", "steps"))
    except seals.Damaged as error:  # made again they would differ in the last digits
        raise damaged(path, error) from error
    except (OSError, SafetensorError):
        return None  # written by an earlier version or another program: they can be made again
    shapes = ((encoder.dim,), (encoder.dim,), (len(encoder.bank), encoder.dim))
    if (middle.shape, scale.shape, steps.shape) != shapes:
        return None
    return (middle + steps.astype(np.float32) * scale).astype(np.float32)


def pack(encoder: Encoder, home: Path) -> None:
    """Write the vectors of the reference queries beside the model.

    In bytes: 127 steps from the middle of a column to its ends, a quarter of the room of
    all digits. What is usual for an item comes from so many queries that it hardly moves.
    """
    vectors = np.asarray(encoder.encode_texts(encoder.bank), np.float32)
    lowest, highest = vectors.min(0), vectors.max(0)
    middle, scale = (lowest + highest) / 2, np.maximum((highest - lowest) / 254, 1e-12)
    steps = np.round((vectors - middle) / scale).astype(np.int8)
    parts = {"middle": middle, "scale": scale, "steps": steps}
    with new_file(home / VECTORS) as fresh:
        save_file(parts, fresh, {"of": _identity(encoder)})
    seals.write_list(home)


def _identity(encoder: Encoder) -> str:
    return of_text([encoder.fingerprint, *encoder.bank])
