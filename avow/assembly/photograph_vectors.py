"""Vectors of the photographs of a dataset, by an encoder that reads them; needs no torch."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadData
from avow.core.files import new_file
from avow.core.fingerprint import of_text
from avow.core.photographs import open_photograph
from avow.core.searching import Encoder

_AT_ONCE = 64
_READERS = 4


def photographs_of(dataset: PairedDataset, name: str) -> Split | None:
    """The split called `name`; None where it has features and no photographs."""
    if name not in dataset.splits:
        raise BadData(
            f"The dataset {dataset.name!r} has no split {name!r}. "
            f"It has: {', '.join(dataset.splits)}."
        )
    split = dataset.splits[name]
    return split if split.files is not None else None


def photograph_vectors(
    encoder: Encoder, split: Split, cache_file: Path | None, progress: bool
) -> Float32[np.ndarray, "images dim"]:
    """One row per image of the split; rows of NaN for photographs that cannot be read.

    cache_file: where they are kept; None: nowhere.
    """
    assert split.files is not None, "the split has photographs"
    key = of_text([encoder.fingerprint, *map(_stamp, split.files)])
    stored = None if cache_file is None else _stored(cache_file, key)
    if stored is not None:
        return stored
    vectors = np.full((len(split.files), encoder.dim), np.nan, np.float32)
    with tqdm(total=len(split.files), desc="encoding", disable=not progress) as bar:
        for places, pixels in _prepared(encoder, split.files):
            vectors[places] = encoder.encode_prepared(pixels)
            bar.update(len(places))
    if cache_file is not None:
        with new_file(cache_file) as fresh, fresh.open("r+b") as stream:
            np.savez(stream, key=np.array(key), vectors=vectors)
    return vectors


def _stored(file: Path, key: str) -> Float32[np.ndarray, "images dim"] | None:
    """What was kept for the same photographs and encoder."""
    try:
        with np.load(file, allow_pickle=False) as stored:  # zip archives carry checksums
            return stored["vectors"] if str(stored["key"]) == key else None
    except Exception:
        return None  # not there yet, or damaged in some way: it can be made again


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
