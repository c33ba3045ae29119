"""Photographs to stored features: decode on many cores, run on the device, store.

    files --threads--> bytes --device--> grid --pool--> grid x grid cells --> shards

Every shard covers a fixed range of a split's images, whatever could be read of it, and
batches never cross a shard. So a run that was killed at any moment continues with the
first shard that is missing, and ends with the same bytes as a run that was not.
"""

import json
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Float16
from torch import Tensor
from tqdm import tqdm

import avow
from avow.core import checksums, photographs
from avow.core.contracts import Backbone, PairedDataset, Split
from avow.core.errors import BadData, BadFeatures, BadRecipe, UnknownName
from avow.core.files import write_text
from avow.core.places import avow_home
from avow.core.seals import write_document
from avow.data.features import BOXES, FORMAT, MANIFEST, PLAN, FeatureStore
from avow.data.shards import DTYPE, ShardWriter, blocks_of, read_json

_WRITES_WAITING = 2

Item = TypeVar("Item")
Made = TypeVar("Made")


def default_folder(dataset_name: str, backbone_name: str, size: int, grid: int) -> Path:
    """Where features go when nobody says where."""
    made_by = re.sub(r"[^\w.-]+", "-", f"{backbone_name}-{size}px-{grid}x{grid}")
    return avow_home() / "features" / re.sub(r"[^\w.-]+", "-", dataset_name) / made_by


@dataclass(frozen=True)
class Extraction:
    """How photographs become features."""

    grid: int = 6
    """Cells per side after pooling."""
    batch: int = 128
    workers: int | None = None
    """Threads that decode, one per processor core by default."""
    device: str = "cpu"
    shard: int = 1024
    """Images per file."""


def extract(
    dataset: PairedDataset,
    backbone: Backbone,
    out: Path,
    how: Extraction | None = None,
    *,
    splits: Sequence[str] | None = None,
    progress: bool = True,
) -> FeatureStore:
    """Store the features of every photograph that can be read, and list the others.

    Images that were skipped are not tried again while their shard exists.
    """
    how = how or Extraction()
    grid, device = how.grid, how.device
    chosen = _chosen_splits(dataset, splits)
    plan = {
        "format": FORMAT,
        "dataset": dataset.name,
        "fingerprint": dataset.fingerprint,
        "backbone": backbone.identity,
        "grid": grid,
        "shard": how.shard,
    }
    _begin(out, json.loads(json.dumps(plan)))
    row = grid * grid * backbone.dim * DTYPE.itemsize
    writer = ShardWriter(out, sum(len(s.image_ids) for s in chosen.values()) * row)
    network = fastest(backbone.to(device).eval(), device)
    run = _Run(network, device, grid, how.batch, writer)
    cores = how.workers or _cores()
    with _careful_decoding(), ThreadPoolExecutor(cores) as decoders:
        ahead = 2 * how.batch + cores
        for name, split in chosen.items():
            run.split(name, split, how.shard, decoders, ahead, progress)
    _finish(out, plan, dataset, backbone.dim, writer)
    return FeatureStore.open(out)


def fastest(backbone: Backbone, device: torch.device | str) -> Backbone:
    """The same backbone by its fastest way on a device; features differ by rounding only.

    `avow features` and indexing both run it, so that their features are interchangeable.
    """
    quicken = getattr(backbone, "quicken", None)
    if quicken is None or torch.device(device).type != "cpu":
        return backbone
    return quicken()


# --- one run --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """What stays the same from the first photograph to the last."""

    backbone: Backbone
    device: str
    grid: int
    batch: int
    writer: ShardWriter

    def split(
        self,
        name: str,
        split: Split,
        shard: int,
        decoders: ThreadPoolExecutor,
        ahead: int,
        progress: bool,
    ) -> None:
        """Every shard of a split that is not there yet."""
        blocks = list(enumerate(blocks_of(len(split.image_ids), shard)))
        missing = [(n, block) for n, block in blocks if not self.writer.has(name, n)]
        left = [image for _, block in missing for image in block]
        done = len(split.image_ids) - len(left)
        self._forget(done)
        files = [(split.files or ())[image] for image in left]
        bar = tqdm(
            total=len(split.image_ids),
            initial=done,
            desc=name,
            unit=" images",
            disable=not progress,
        )
        with (
            bar,
            closing(_in_order(decoders, self._prepare, files, ahead)) as prepared,
            ThreadPoolExecutor(1) as background,
        ):
            writes: deque[Future[None]] = deque()
            for number, block in missing:
                ids = [split.image_ids[image] for image in block]
                features, kept_ids, skipped = self._shard(name, ids, prepared, bar.update)
                if len(writes) == _WRITES_WAITING:
                    writes.popleft().result()
                writes.append(
                    background.submit(
                        self.writer.write, name, number, features, kept_ids, skipped
                    )
                )
            for write in writes:
                write.result()
        self._check_any(name, len(blocks))

    def _shard(
        self,
        split: str,
        ids: Sequence[str],
        prepared: Iterator["np.ndarray | _Skipped"],
        advance: Callable[[int], Any],
    ) -> tuple[Float16[np.ndarray, "images parts dim"], list[str], list[dict[str, str]]]:
        """The features of one range of images, which of them they are, and the rest."""
        dim = self.backbone.dim
        features = np.empty((len(ids), self.grid**2, dim), DTYPE)
        kept_ids: list[str] = []
        skipped: list[dict[str, str]] = []
        for block in blocks_of(len(ids), self.batch):
            arrays = []
            start = len(kept_ids)
            for image in block:
                outcome = next(prepared)
                if isinstance(outcome, _Skipped):
                    reason = {"id": ids[image], "split": split, "reason": outcome.reason}
                    skipped.append(reason)
                else:
                    arrays.append(outcome)
                    kept_ids.append(ids[image])
            if arrays:
                features[start : len(kept_ids)] = self._cells(arrays, kept_ids[start:])
            advance(len(block))
        return features[: len(kept_ids)], kept_ids, skipped

    @torch.inference_mode()
    def _cells(
        self, arrays: list[np.ndarray], ids: Sequence[str]
    ) -> Float16[np.ndarray, "images parts dim"]:
        pixels = torch.from_numpy(np.stack(arrays))
        if torch.device(self.device).type == "cuda":
            pixels = pixels.pin_memory()
        features = self.backbone(pixels.to(self.device, non_blocking=True))
        cells = pooled(features, self.grid, self.backbone.identity).half()
        good = torch.isfinite(cells).flatten(1).all(1).cpu()
        if not good.all():
            raise BadFeatures(
                f"The backbone {self.backbone.identity.get('backbone')!r} gave values "
                f"that are not finite in float16 for image "
                f"{ids[int((~good).nonzero()[0, 0])]!r}. Expected numbers. Use another "
                "backbone, or remove the image."
            )
        return cells.cpu().numpy()

    def _prepare(self, file: Path) -> "np.ndarray | _Skipped":
        """One photograph's bytes, or why there are none; runs on many threads."""
        try:
            with photographs.opened(file) as one:
                return self.backbone.prepare(one.image)
        except Exception as error:  # decoders of broken files raise almost anything
            return _Skipped(photographs.why_unreadable(error))

    def _forget(self, images: int) -> None:
        """Images that are stored already need no more room."""
        size = images * self.grid**2 * self.backbone.dim * DTYPE.itemsize
        self.writer.remaining = max(0, self.writer.remaining - size)

    def _check_any(self, split: str, shards: int) -> None:
        """A split without one readable image is a wrong path, not a bad photograph."""
        summaries = [self.writer.about(split, number) for number in range(shards)]
        if not shards or any(about["ids"] for about in summaries):
            return
        for number in range(shards):
            self.writer.remove(split, number)
        skipped = [reason for about in summaries for reason in about["skipped"]]
        raise BadData(
            f"None of the {len(skipped)} images of split {split!r} could be read. "
            f"The first, {skipped[0]['id']!r}: {skipped[0]['reason']}. Expected "
            "photographs. Check the folder of images."
        )


@dataclass(frozen=True)
class _Skipped:
    reason: str


def pooled(
    features: Float[Tensor, "items rows columns dim"],
    grid: int,
    identity: dict[str, Any],
) -> Float[Tensor, "items parts dim"]:
    """Average the feature map to `grid` x `grid` cells, left to right, top down."""
    _, rows, columns, _ = features.shape
    if not 1 <= grid <= min(rows, columns):
        raise BadRecipe(
            f"A grid of {grid} does not fit {identity.get('backbone')!r}, which gives "
            f"{rows} x {columns} cells at size {identity.get('size')}. Expected 1 to "
            f"{min(rows, columns)}. Choose another grid, or a larger size."
        )
    planes = features.permute(0, 3, 1, 2)
    cells = torch.nn.functional.adaptive_avg_pool2d(planes, grid)
    return cells.flatten(2).transpose(1, 2)


def cell_boxes(grid: int) -> Float[np.ndarray, "parts 4"]:
    """Where each cell lies in the photograph: x1, y1, x2, y2 in 0..1."""
    edges = np.linspace(0, 1, grid + 1, dtype=np.float32)
    top, left = np.divmod(np.arange(grid * grid), grid)
    return np.stack([edges[left], edges[top], edges[left + 1], edges[top + 1]], axis=1)


def _in_order(
    pool: ThreadPoolExecutor,
    make: Callable[[Item], Made],
    items: Sequence[Item],
    ahead: int,
) -> Generator[Made, None, None]:
    """Make every item on the pool, in order, at most `ahead` of the reader."""
    waiting: deque[Future[Made]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@contextmanager
def _careful_decoding() -> Iterator[None]:
    """What Pillow warns of, it still decodes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _cores() -> int:
    """The processor cores this process may use, where the system can tell."""
    may_use = getattr(os, "sched_getaffinity", None)
    return len(may_use(0)) if may_use else os.cpu_count() or 1


# --- the folder -----------------------------------------------------------------------


def _chosen_splits(dataset: PairedDataset, splits: Sequence[str] | None) -> dict[str, Split]:
    chosen = {}
    for name in splits if splits is not None else dataset.splits:
        if name not in dataset.splits:
            raise UnknownName(f"the splits of {dataset.name!r}", name, list(dataset.splits))
        if dataset.splits[name].files is None:
            raise BadData(
                f"The split {name!r} of {dataset.name!r} has no photographs. Expected "
                "image files to make features from. Use the features it comes with."
            )
        chosen[name] = dataset.splits[name]
    return chosen


def _begin(out: Path, plan: dict[str, Any]) -> None:
    """Write the plan, or check that what is there was begun with the same one."""
    if (out / PLAN).is_file():
        begun = read_json(out / PLAN)
        for key in plan:
            if begun.get(key) != plan[key]:
                raise BadFeatures(
                    f"The folder {str(out)!r} holds features of another plan: its "
                    f"{key} is {begun.get(key)!r}, this run's is {plan[key]!r}. "
                    "Expected the same plan to continue. Choose another --out, or "
                    "delete that folder."
                )
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadFeatures(
            f"{str(out)!r} exists and holds something other than features. Expected an "
            "empty or a new folder. Choose another --out."
        )
    out.mkdir(parents=True, exist_ok=True)
    write_document(out / PLAN, plan, indent=2)


def _finish(
    out: Path,
    plan: dict[str, Any],
    dataset: PairedDataset,
    dim: int,
    writer: ShardWriter,
) -> None:
    """List what is stored of every split that is complete, and seal the folder."""
    splits: dict[str, Any] = {}
    skipped: list[dict[str, str]] = []
    written: dict[str, list[str] | None] = {}
    for name, split in dataset.splits.items():
        numbers = range(len(list(blocks_of(len(split.image_ids), plan["shard"]))))
        if not numbers or not all(writer.has(name, number) for number in numbers):
            continue
        summaries = [writer.about(name, number) for number in numbers]
        ids = [image for about in summaries for image in about["ids"]]
        write_text(out / f"{name}-ids.json", json.dumps(ids))
        files = [writer.file(name, number).name for number in numbers]
        splits[name] = {"images": len(ids), "shards": files}
        written |= {
            file: about.get("crc32") for file, about in zip(files, summaries, strict=True)
        }
        skipped += [reason for about in summaries for reason in about["skipped"]]
    writer.save(out / BOXES, cell_boxes(plan["grid"]))
    small = [BOXES, *(f"{name}-ids.json" for name in splits)]
    manifest = {
        **plan,
        "dim": dim,
        "parts": plan["grid"] ** 2,
        "dtype": DTYPE.name,
        "splits": splits,
        "skipped": skipped,
        "avow": avow.__version__,
        "checksums": {
            "files": {name: checksums.of_file(out / name) for name in small},
            "shards": {name: crc32 for name, crc32 in written.items() if crc32},
        },
    }
    write_document(out / MANIFEST, manifest, indent=2)
