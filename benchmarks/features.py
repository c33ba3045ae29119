"""Photographs per second of `avow features`, decoding included, against a plain loop.

python benchmarks/features.py flickr8k --device cuda
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _report import keep
from PIL import Image

from avow import backbones
from avow.assembly.features import extract, pooled
from avow.core import folder
from avow.core.contracts import Backbone, PairedDataset
from avow.core.device import best_device
from avow.data._open import open_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", nargs="?", default="flickr8k")
    parser.add_argument("--backbone", default="efficientnet_lite2")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--grid", type=int, default=6)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--plain", type=int, default=512, help="photographs of the loop")
    parser.add_argument("--out", type=Path, help="keep the features here")
    parser.add_argument("--images", default="", help="another folder of photographs")
    chosen = parser.parse_args()
    settings = {"images": chosen.images} if chosen.images else {}
    dataset = open_dataset(chosen.dataset, **settings)
    network = folder.build(backbones, chosen.backbone, size=chosen.size).to(chosen.device)
    plain = plain_loop(dataset, network, chosen.grid, chosen.device, chosen.plain)
    with tempfile.TemporaryDirectory() as place:
        where = chosen.out or Path(place) / "features"
        started = time.perf_counter()
        store = extract(dataset, network, where, grid=chosen.grid, device=chosen.device)
        took = time.perf_counter() - started
        count = sum(len(store.split(name)) for name in store.names)
    rate = count / took
    path = keep(
        "features",
        {
            "dataset": dataset.name,
            "backbone": network.identity,
            "photographs": count,
            "skipped": len(store.skipped),
            "per_second": round(rate, 1),
            "plain_per_second": round(plain, 1),
            "ratio": round(rate / plain, 2),
        },
    )
    print(f"ours {rate:.0f} photographs/s, plain {plain:.0f}, ratio {rate / plain:.2f}")
    print(f"-> {path}")


@torch.inference_mode()
def plain_loop(
    dataset: PairedDataset, network: Backbone, grid: int, device: str, count: int
) -> float:
    """Decode one after the other, then run the network on batches of 128."""
    files = next(split.files for split in dataset.splits.values() if split.files)[:count]
    network(torch.from_numpy(np.stack([prepared(files[0], network)] * 8)).to(device))
    started = time.perf_counter()
    for start in range(0, len(files), 128):
        pixels = np.stack([prepared(file, network) for file in files[start : start + 128]])
        features = network(torch.from_numpy(pixels).to(device))
        pooled(features, grid, network.identity).half().cpu()
    return len(files) / (time.perf_counter() - started)


def prepared(file: Path, network: Backbone) -> np.ndarray:
    with Image.open(file) as photograph:
        return network.prepare(photograph)


if __name__ == "__main__":
    main()
