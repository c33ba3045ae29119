"""How fast a folder is indexed, beside the bare encoder on the same photographs.

    python -m benchmarks.speed.indexing FOLDER [--model default] [--files 1000]

The bare encoder gets photographs that were decoded and prepared before: it is what
indexing could reach if reading cost nothing. Both run in turn, several times.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from avow.core.device import best_device
from avow.core.formats import is_picture
from avow.core.searching import Encoder
from avow.retrieval.encoders.lazy import Deferred
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import BATCH, index_folders
from avow.retrieval.store.walk import walk
from benchmarks._report import keep


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--files", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unchanged", type=int, default=8000)
    chosen = parser.parse_args()
    encoder = open_encoder(chosen.model, best_device())
    found = [
        path for path, seen in walk([chosen.folder]).files.items() if is_picture(seen.suffix)
    ]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        some = linked(place / "some", found[: chosen.files])
        bare, indexed = [], []
        for number in range(chosen.rounds):
            bare.append(bare_rate(encoder, found[: chosen.files]))
            indexed.append(index_rate(encoder, some, place / f"index{number}"))
        many = linked(place / "many", found[: chosen.unchanged])
        again = unchanged_seconds(many, place / "light")
    figures = {
        "files": min(chosen.files, len(found)),
        "load_before": round(load, 1),
        "bare_per_second": round(statistics.median(bare), 1),
        "indexed_per_second": round(statistics.median(indexed), 1),
        "share": round(statistics.median(indexed) / statistics.median(bare), 3),
        "shares": [round(one / other, 3) for one, other in zip(indexed, bare, strict=True)],
        "unchanged_files": min(chosen.unchanged, len(found)),
        "unchanged_seconds": round(again, 2),
    }
    path = keep("indexing", figures)
    for key, value in figures.items():
        print(f"{key}: {value}")
    print("->", path)


def linked(place: Path, files: list[str]) -> Path:
    """A folder of the same files, without copying them where the disk allows it."""
    place.mkdir()
    for number, path in enumerate(files):
        fresh = place / f"{number:06}{Path(path).suffix}"
        try:
            os.link(path, fresh)
        except OSError:
            fresh.write_bytes(Path(path).read_bytes())
    return place


def bare_rate(encoder: Encoder, files: list[str]) -> float:
    """Photographs per second, decoding left out."""
    taken = 0.0
    for start in range(0, len(files), BATCH):
        pixels = []
        for path in files[start : start + BATCH]:
            with Image.open(path) as photograph:
                pixels.append(encoder.prepare(photograph))
        stacked = np.stack(pixels)
        started = time.perf_counter()
        encoder.encode_prepared(stacked)
        taken += time.perf_counter() - started
    return len(files) / taken


def index_rate(encoder: Encoder, folder: Path, index: Path) -> float:
    report = index_folders([folder], index=index, encoder=encoder)
    return report.new / report.seconds


def unchanged_seconds(folder: Path, index: Path) -> float:
    """A second run over a folder that did not change, by any encoder: it is not opened."""

    class Constant(Encoder):
        name, fingerprint, dim, views, tau, kind = "constant", "0" * 16, 8, 1, 0.05, "exp"

        def prepare(self, photograph: Image.Image) -> np.ndarray:
            return np.zeros(1)

        def encode_prepared(self, pixels: np.ndarray) -> np.ndarray:
            return np.full((len(pixels), 8), 8**-0.5, np.float32)

        def encode_texts(self, texts: object) -> np.ndarray:
            raise NotImplementedError

    model = Deferred("constant", "same", Constant)
    index_folders([folder], index=index, encoder=model)
    return index_folders([folder], index=index, encoder=model).seconds


if __name__ == "__main__":
    main()
