"""An audit by an encoder that reads photographs, such as the model that comes with Avow.

    photographs, captions --Encoder--> vectors --> similarities per view --> `audit.run`

Needs neither torch nor stored features. The vectors of the photographs are kept in the
folder of the audit, so that running it again encodes only captions.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float32, Int
from tqdm import tqdm

from avow.assembly.model_files import learnt_from, read_json
from avow.audit.judge import refuse_too_few
from avow.audit.parts import Compare, Judges, Pairs, Part, Progress
from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadData
from avow.core.files import new_file
from avow.core.fingerprint import of_bytes, of_text
from avow.core.photographs import open_photograph
from avow.core.searching import Encoder

VECTORS = "photographs.npz"
_AT_ONCE = 64
_READERS = 4


def encoder_as_judge(
    encoder: Encoder, dataset: PairedDataset, split: str, out: Path, *, progress: bool = True
) -> Judges:
    """An encoder judges every pair of the split whose photograph can be read."""
    chosen = photographs_of(dataset, split)
    assert chosen is not None, "the split has photographs"
    out.mkdir(parents=True, exist_ok=True)
    vectors = _vectors(encoder, chosen, out / VECTORS, progress)
    readable = np.flatnonzero(np.isfinite(vectors).all(1))
    if not len(readable):
        raise BadData(
            f"None of the {len(vectors)} photographs of split {split!r} can be read. Expected "
            "image files; check the paths in the dataset, or name stored features with "
            "--features."
        )
    pairs = Pairs.of(chosen, readable)
    refuse_too_few(pairs, split)
    part = EncodedPart(encoder, pairs, vectors[readable])
    home = getattr(encoder, "home", None)
    learnt = split == "train" and home is not None and _has_learnt(home, dataset)
    seen = np.ones(len(pairs.captions), bool) if learnt else None
    return Judges(dataset, pairs, [part], seen, "judged by the model that comes with Avow")


def photographs_of(dataset: PairedDataset, name: str) -> Split | None:
    """The split called `name`; None where it has features and no photographs."""
    if name not in dataset.splits:
        raise BadData(
            f"The dataset {dataset.name!r} has no split {name!r}. "
            f"It has: {', '.join(dataset.splits)}."
        )
    split = dataset.splits[name]
    return split if split.files is not None else None


def _has_learnt(home: Path, dataset: PairedDataset) -> bool:
    """Whether the model in `home` was trained on `dataset`, as far as its name tells."""
    return learnt_from(read_json(home / "avow.json").get("history", {}), dataset)


@dataclass(frozen=True)
class EncodedPart(Part):
    """All pairs of a split, judged by one encoder."""

    encoder: Encoder
    pairs: Pairs
    vectors: Float32[np.ndarray, "images dim"]

    @property
    def split(self) -> Pairs:
        return self.pairs

    @property
    def captions(self) -> Int[np.ndarray, " captions"]:  # type: ignore[override]
        return np.arange(len(self.split.captions))

    @property
    def views(self) -> int:  # type: ignore[override]
        return self.encoder.views

    @property
    def tau(self) -> float:  # type: ignore[override]
        return self.encoder.tau

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


def _vectors(
    encoder: Encoder, split: Split, cache_file: Path, progress: bool
) -> Float32[np.ndarray, "images dim"]:
    """One row per image of the split; rows of NaN for photographs that cannot be read."""
    assert split.files is not None, "the split has photographs"
    key = of_text([encoder.fingerprint, *map(_stamp, split.files)])
    try:
        with np.load(cache_file, allow_pickle=False) as stored:  # zip archives carry checksums
            if str(stored["key"]) == key:
                return stored["vectors"]
    except Exception:
        pass  # not there yet, or damaged in some way: it can be made again
    vectors = np.full((len(split.files), encoder.dim), np.nan, np.float32)
    with tqdm(total=len(split.files), desc="encoding", disable=not progress) as bar:
        for places, pixels in _prepared(encoder, split.files):
            vectors[places] = encoder.encode_prepared(pixels)
            bar.update(len(places))
    with new_file(cache_file) as fresh, fresh.open("r+b") as stream:
        np.savez(stream, key=np.array(key), vectors=vectors)
    return vectors


def _prepared(
    encoder: Encoder, files: Sequence[Path]
) -> Iterator[tuple[list[int], np.ndarray]]:
    """Photographs as the encoder takes them, in batches; unreadable ones are left out."""

    def prepare(file: Path) -> np.ndarray | None:
        try:
            return encoder.prepare(open_photograph(file))
        except BadData:
            return None

    with ThreadPoolExecutor(_READERS) as readers:
        for start in range(0, len(files), _AT_ONCE):
            batch = islice(files, start, start + _AT_ONCE)
            ready = [
                (start + place, pixels)
                for place, pixels in enumerate(readers.map(prepare, batch))
                if pixels is not None
            ]
            if ready:
                yield [place for place, _ in ready], np.stack([one for _, one in ready])


def _stamp(file: Path) -> str:
    try:
        about = file.stat()
    except OSError:
        return f"{file}\0missing"
    return f"{file}\0{about.st_size}\0{about.st_mtime_ns}"
