"""Many questions at once: their texts are read by the model in batches, before any search."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from avow.core.searching import Encoder
from avow.core.shapes import Float
from avow.retrieval.question import ask, only_text, understood

AT_ONCE = 64


def read_ahead(
    encoder: Encoder, texts: Sequence[str], options: dict[str, Any]
) -> "AlreadyRead":
    """The same encoder, which has read what searches for `texts` will ask it to read."""
    wanted = _to_be_read(encoder, texts, options)
    vectors: dict[str, np.ndarray] = {}
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        vectors |= dict(zip(part, encoder.encode_texts(part), strict=True))
    return AlreadyRead(encoder, vectors)


def _to_be_read(encoder: Encoder, texts: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Every text that the searches will encode, once."""
    found: dict[str, None] = {}
    for text in texts:
        question = ask(text, None, options.get("without"), options.get("kind", "image"))
        question, _ = understood(question, encoder, options.get("rewrite", True))
        found[question.asked or question.text or ""] = None
        if question.without is not None:
            found |= dict.fromkeys((question.without, only_text(question.without).asked))
    return list(found)


class AlreadyRead(Encoder):
    """An encoder that knows the vectors of some texts; for all else it asks another one."""

    def __init__(self, inner: Encoder, vectors: dict[str, np.ndarray]):
        self.inner, self.vectors = inner, vectors
        for name in ("name", "fingerprint", "dim", "views", "tau", "kind", "bank"):
            setattr(self, name, getattr(inner, name))

    def __getattr__(self, name: str) -> Any:  # what only some encoders have
        return getattr(self.inner, name)

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return self.inner.prepare(photograph)

    def encode_prepared(self, pixels: np.ndarray) -> Float[np.ndarray, "items dim"]:
        return self.inner.encode_prepared(pixels)

    def packed_bank(self) -> Float[np.ndarray, "queries dim"] | None:
        return self.inner.packed_bank()

    def encode_texts(self, texts: Sequence[str]) -> Float[np.ndarray, "items dim"]:
        if all(text in self.vectors for text in texts):
            return np.stack([self.vectors[text] for text in texts])
        return self.inner.encode_texts(texts)
