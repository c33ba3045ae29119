"""Vectors of the default model for benchmarks: encoded once, kept in a folder."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from avow.core.background import Background
from avow.core.photographs import open_photograph
from avow.retrieval.encoders import bank
from avow.retrieval.encoders.onnx import OnnxEncoder
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.gallery import slices


class Lab:
    """The encoder and what it encoded, kept in a cache."""

    def __init__(self, cache: Path):
        encoder = open_encoder()
        if not isinstance(encoder, OnnxEncoder):
            raise TypeError(
                f"the default model is expected to be ONNX files, not {encoder.name}"
            )
        self.encoder = encoder
        self.cache = cache / encoder.fingerprint  # another model's vectors must not be taken
        self.bank = bank.encoded(self.encoder)
        self.cache.mkdir(parents=True, exist_ok=True)

    def kept(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        path = self.cache / f"{name}.npy"
        if not path.exists():
            np.save(path, make())
        return np.load(path)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        key = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        return self.kept(f"texts-model-{key}", lambda: self.encoder.encode_texts(texts))

    def photographs(self, name: str, files: Sequence[Path], part: str = "test") -> np.ndarray:
        def make() -> np.ndarray:
            starts = tqdm(range(0, len(files), 32), desc=name)
            opened = ([open_photograph(file) for file in files[i : i + 32]] for i in starts)
            return np.concatenate([self.encoder.encode_images(some) for some in opened])

        return self.kept(f"{name}-{part}-{len(files)}", make)

    def similarity(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Of every view."""
        views = self.encoder.views
        other = slices(items, views).swapaxes(1, 2)
        return (np.float32(views) * slices(queries, views) @ other).astype(np.float32)

    def usual(self, items: np.ndarray) -> Background:
        """What is usual for the items, over the model's bank."""
        return Background.from_scores([self.similarity(self.bank, items)], self.encoder.tau)
