"""Training batches: pairs in a seeded order, augmented, on the device before they are due.

Every draw depends on (seed, epoch, step) alone. Features that fit are kept on the device
for the whole run; otherwise each batch is read from the memory-mapped shards while the
one before it is being learnt.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from avow.assembly.pairs import FeaturedSplit, whole
from avow.assembly.recipe import Training
from avow.core.contracts import Lesson, Regions, Tokens
from avow.core.errors import BadData
from avow.core.seeds import generator
from avow.data.captions import TokenTable
from avow.data.corruption import corrupt_words, drop_regions, mask_regions
from avow.training.caption_agreement import CaptionAgreement
from avow.training.graphs import DEVICE

RESIDENT = 24 * 2**30  # bytes of features that may live on an accelerator


@dataclass(frozen=True)
class Batch:
    """What one optimisation of the loss sees."""

    visual: Regions
    text: Tokens
    lesson: Lesson


class Batches:
    """The batches of one process out of `processes`."""

    def __init__(
        self,
        split: FeaturedSplit,
        table: TokenTable,
        train: Training,
        views: int,
        device: torch.device,
        process: int = 0,
        processes: int = 1,
        keeps_regions: bool = False,
    ):
        """keeps_regions: whether regions are masked, whatever the recipe says of them."""
        masks = keeps_regions or train.region_change == "mask"
        self.change = mask_regions if masks else drop_regions
        self.split, self.table, self.train = split, table, train
        self.views, self.device = views, device
        self.process, self.processes = process, processes
        if len(self) == 0:
            raise BadData(
                f"The training split has {len(split.captions)} captions and a batch takes "
                f"{train.batch * processes}. Expected at least one whole batch; lower "
                "train.batch."
            )
        self.resident = self._load() if device.type != "cpu" else None
        self.trust: Float[Tensor, "views captions"] | None = None
        """How far each view believes each pair of the split; None believes all."""
        self.agreement: CaptionAgreement | None = None
        """Tells which pairs fit besides the matches, for a loss that asks."""

    def __len__(self) -> int:
        """Whole batches in an epoch; what is left over waits for the next epoch."""
        return len(self.split.captions) // (self.train.batch * self.processes)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch, from batch `start` on."""
        with ThreadPoolExecutor(1) as reader:
            order = self._order(epoch)
            ahead = reader.submit(self._make, order, epoch, start)
            for place in range(start, len(self)):
                batch = ahead.result()
                if place + 1 < len(self):
                    ahead = reader.submit(self._make, order, epoch, place + 1)
                yield batch

    def _order(self, epoch: int) -> Int[Tensor, " captions"]:
        """Shuffled; in a pool of several batches captions of a length then come together."""
        draw = generator(self.train.seed, "order", epoch)
        order = torch.randperm(len(self.split.captions), generator=draw)
        if self.train.pool <= 1:
            return order
        size = self.train.batch * self.processes
        order = order[: len(self) * size]
        pool = torch.arange(len(order)) // (self.train.pool * size)
        length = self.table.lengths[order]
        order = order[(pool * (length.max() + 1) + length).argsort(stable=True)]
        return order.view(-1, size)[torch.randperm(len(self), generator=draw)].flatten()

    def _make(self, order: Int[Tensor, " captions"], epoch: int, place: int) -> Batch:
        train, step = self.train, epoch * len(self) + place
        size = train.batch * self.processes
        everyone = order[place * size : (place + 1) * size]
        pairs = everyone[self.process * train.batch :][: train.batch]
        draw = generator(train.seed, "augment", step, self.process)
        text = corrupt_words(self.table, pairs, train.words_changed, draw)
        seen = everyone if train.gather else pairs
        match = self._match(seen)
        with DEVICE:
            visual = self._regions(self.split.image_of[pairs.numpy()])
            lesson = Lesson(
                seen.to(self.device),
                match.to(self.device),
                self._trust(seen),
                epoch,
                step,
                None if self.agreement is None else self.agreement.fits(seen),
            )
            visual = self.change(visual, train.regions_changed, draw)
            return Batch(visual, text.to(self.device), lesson)

    def unchanged(self, epoch: int) -> Iterator[Batch]:
        """Every pair once, not augmented, in a shuffled order of its own.

        The last batch is filled up from the front, so that all have as many candidates.
        """
        size, count = self.train.batch, len(self.split.captions)
        draw = generator(self.train.seed, "sifting", epoch)
        order = torch.randperm(count, generator=draw)
        order = torch.cat([order, order[: -count % size]])
        for pairs in order.split(size):
            lesson = Lesson(pairs, self._match(pairs), self._trust(pairs), epoch, 0)
            visual = self._regions(self.split.image_of[pairs.numpy()])
            yield Batch(visual, self.table.tokens(pairs).to(self.device), lesson)

    def _trust(self, pairs: Int[Tensor, " pairs"]) -> Float[Tensor, "views pairs"]:
        if self.trust is None:
            return torch.ones(self.views, len(pairs), device=self.device)
        return self.trust[:, pairs].to(self.device)

    def _match(self, pairs: Int[Tensor, " pairs"]) -> Bool[Tensor, "pairs pairs"]:
        if not self.train.same_image_matches:
            return torch.eye(len(pairs), dtype=torch.bool)
        image = torch.from_numpy(self.split.image_of)[pairs]
        return image[:, None] == image[None]

    def _regions(self, images: Int[np.ndarray, " items"]) -> Regions:
        if self.resident is None:
            features = self.split.features(images)
            self.split.refuse_broken(features, images)
            if self.device.type == "cuda":
                features = features.pin_memory()
            features = features.to(self.device, non_blocking=True)
        else:
            features = self.resident[torch.from_numpy(images).to(self.device)]
        return whole(features.float(), self.split.boxes_of(images), self.split.padded)

    def _load(self) -> Tensor | None:
        """All features on the device, where they fit."""
        count, parts, dim = len(self.split.rows), self.split.parts, self.split.dim
        probe = self.split.features(np.arange(1))
        if count * parts * dim * probe.element_size() > RESIDENT:
            return None
        out = torch.empty(count, parts, dim, dtype=probe.dtype, device=self.device)
        for start in range(0, count, 2048):
            index = np.arange(start, min(start + 2048, count))
            out[start : start + len(index)] = self.split.features(index).to(self.device)
            self.split.refuse_broken(out[start : start + len(index)], index)
        return out
