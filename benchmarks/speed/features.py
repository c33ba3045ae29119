"""Photographs per second of `avow features`, decoding included: fast path, torch, plain loop.

python -m benchmarks.speed.features flickr8k --device cuda
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from avow import backbones
from avow.assembly import features
from avow.assembly.features import pooled
from avow.blocks import onnx_export
from avow.core import folder
from avow.core.contracts import Backbone, PairedDataset
from avow.core.device import best_device
from avow.data.opening import open_dataset
from benchmarks._report import keep


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", nargs="?", default="flickr8k")
    parser.add_argument("--backbone", default="efficientnet_lite2")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--grid", type=int, default=6)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--plain", type=int, default=512, help="photographs of the loop")
    parser.add_argument("--photographs", type=int, default=0, help="only so many; 0: all")
    parser.add_argument("--out", type=Path, help="keep the features here")
    parser.add_argument("--images", default="", help="another folder of photographs")
    chosen = parser.parse_args()
    settings = {"images": chosen.images} if chosen.images else {}
    dataset = open_dataset(chosen.dataset, **settings)
    network = folder.build(backbones, chosen.backbone, size=chosen.size).to(chosen.device)
    if chosen.photographs:
        dataset = first(dataset, chosen.photographs)
    plain = plain_loop(dataset, network, chosen.grid, chosen.device, chosen.plain)
    torch_rate = None
    if chosen.device == "cpu":
        features.fastest(network, chosen.device)  # exported once, before any clock runs
        slow = folder.build(backbones, chosen.backbone, size=chosen.size)
        with by_torch(), tempfile.TemporaryDirectory() as place:
            torch_rate = rate_of(dataset, slow, Path(place) / "features", chosen)[0]
    with tempfile.TemporaryDirectory() as place:
        where = chosen.out or Path(place) / "features"
        rate, count, skipped = rate_of(dataset, network, where, chosen)
    path = keep(
        "features" if torch_rate is None else "features_cpu",
        {
            "dataset": dataset.name,
            "backbone": network.identity,
            "photographs": count,
            "skipped": skipped,
            "device": chosen.device,
            "load": round(os.getloadavg()[0], 1),
            "per_second": round(rate, 1),
            "torch_per_second": None if torch_rate is None else round(torch_rate, 1),
            "plain_per_second": round(plain, 1),
            "network_per_second": round(network_rate(network, chosen.device), 1),
            "ratio": round(rate / plain, 2),
        },
    )
    print(f"ours {rate:.1f} photographs/s, plain {plain:.1f}, ratio {rate / plain:.2f}")
    if torch_rate is not None:
        print(f"by torch alone {torch_rate:.1f}; ours / torch {rate / torch_rate:.2f}")
    print(f"-> {path}")


def rate_of(
    dataset: PairedDataset, network: Backbone, where: Path, chosen: argparse.Namespace
) -> tuple[float, int, int]:
    """Photographs a second, how many were read, and how many were skipped."""
    started = time.perf_counter()
    how = features.Extraction(chosen.grid, device=chosen.device)
    store = features.extract(dataset, network, where, how, progress=False)
    took = time.perf_counter() - started
    count = sum(len(store.split(name)) for name in store.names)
    return count / took, count, len(store.skipped)


@contextmanager
def by_torch() -> Iterator[None]:
    """As without onnxruntime: the only way there was before."""
    packages = onnx_export._PACKAGES
    setattr(onnx_export, "_PACKAGES", ("no_such_package",))  # noqa: B010
    try:
        yield
    finally:
        onnx_export._PACKAGES = packages


def first(dataset: PairedDataset, count: int) -> PairedDataset:
    """The first photographs of the first split alone."""
    name, split = next(iter(dataset.splits.items()))
    few = replace(
        split,
        image_ids=split.image_ids[:count],
        files=None if split.files is None else split.files[:count],
        captions=(),
        image_of=np.zeros(0, int),
    )
    return replace(dataset, splits={name: few})


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
        cells = network(torch.from_numpy(pixels).to(device))
        pooled(cells, grid, network.identity).half().cpu()
    return len(files) / (time.perf_counter() - started)


@torch.inference_mode()
def network_rate(network: Backbone, device: str, batch: int = 256) -> float:
    """Photographs a second that the network takes by itself, from pixels on the device."""
    noise = np.random.default_rng(0).integers(0, 256, (320, 240, 3), np.uint8)
    one = network.prepare(Image.fromarray(noise))
    pixels = torch.from_numpy(np.stack([one] * batch)).to(device)
    network(pixels)
    batches, started = 0, time.perf_counter()
    while time.perf_counter() - started < 3:
        network(pixels).flatten()[0].item()  # waits for the device
        batches += 1
    return batches * batch / (time.perf_counter() - started)


def prepared(file: Path, network: Backbone) -> np.ndarray:
    with Image.open(file) as photograph:
        return network.prepare(photograph)


if __name__ == "__main__":
    main()
