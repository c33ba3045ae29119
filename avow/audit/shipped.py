"""An audit by an encoder that reads photographs, such as the model that comes with Avow.

    photographs, captions --Encoder--> vectors --> similarities per view --> `audit.run`

Needs neither torch nor stored features. The vectors of the photographs are kept in the
folder of the audit, so that running it again encodes only captions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Int

from avow.assembly.model_files import learnt_from, read_json
from avow.assembly.photograph_vectors import photograph_vectors, photographs_of
from avow.audit.every_pair import EVERY, every_pair, in_split
from avow.audit.judge import refuse_too_few
from avow.audit.parts import Compare, Judges, Pairs, Part, Progress
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.core.fingerprint import of_bytes
from avow.core.searching import Encoder

VECTORS = "photographs.npz"


def encoder_as_judge(
    encoder: Encoder, dataset: PairedDataset, split: str, out: Path, *, progress: bool = True
) -> Judges:
    """An encoder judges every pair of the split whose photograph can be read.

    split: the name of one; empty: all of them as one.
    """
    trained, origins = dataset, None
    if not split:
        (dataset, origins), split = every_pair(dataset), EVERY
    chosen = photographs_of(dataset, split)
    assert chosen is not None, "the split has photographs"
    out.mkdir(parents=True, exist_ok=True)
    vectors = photograph_vectors(encoder, chosen, out / VECTORS, progress)
    readable = np.flatnonzero(np.isfinite(vectors).all(1))
    if not len(readable):
        raise BadData(
            f"None of the {len(vectors)} photographs of split {split!r} can be read. Expected "
            "image files; check the paths in the dataset, or name stored features with "
            "--features."
        )
    pairs = Pairs.of(chosen, readable)
    refuse_too_few(pairs, split)
    part = EncodedPart.whole(encoder, pairs, vectors[readable])
    home = getattr(encoder, "home", None)
    seen = None
    if home is not None and _has_learnt(home, trained):
        kept = np.arange(len(pairs.captions)) if pairs.kept is None else pairs.kept
        seen = in_split("train", split, kept, origins)
    name = "judged by the model that comes with Avow"
    return Judges(dataset, pairs, [part], seen, name, split=split, origins=origins)


def _has_learnt(home: Path, dataset: PairedDataset) -> bool:
    """Whether the model in `home` was trained on `dataset`, as far as its name tells."""
    return learnt_from(read_json(home / "avow.json").get("history", {}), dataset)


@dataclass(frozen=True)
class EncodedPart(Part):
    """All pairs of a split, judged by one encoder."""

    encoder: Encoder
    vectors: Float32[np.ndarray, "images dim"]

    @classmethod
    def whole(
        cls, encoder: Encoder, pairs: Pairs, vectors: Float32[np.ndarray, "images dim"]
    ) -> "EncodedPart":
        every = np.arange(len(pairs.captions))
        return cls(every, pairs, encoder.views, encoder.tau, encoder, vectors)

    def identity(self) -> Iterator[str]:
        yield self.encoder.fingerprint
        yield from self.split.image_ids
        yield of_bytes(self.vectors.tobytes())

    def encode(self, device: str, progress: Progress) -> Compare:
        texts = np.asarray(self.encoder.encode_texts(self.split.captions), np.float32)
        progress(self.views * len(self.split.captions))

        def scores(
            images: Int[np.ndarray, " images"], chosen: Int[np.ndarray, " texts"]
        ) -> Sequence[Float[np.ndarray, "images texts"]]:
            left = np.split(self.vectors[images], self.views, axis=1)
            right = np.split(texts[chosen], self.views, axis=1)
            # each view's unit vector was divided by the root of their number
            return [self.views * (a @ b.T) for a, b in zip(left, right, strict=True)]

        return scores
