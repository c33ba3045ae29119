"""Train from photographs themselves: kept on the device, changed anew in every batch.

    bytes on the device --crop, turn, colour--> pixel network --> cells --> a batch

Stored features see every photograph once. A pixel network is quick enough on an
accelerator to look at a fresh crop each time, and the head then meets no picture twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from avow.assembly.features import cell_boxes, pooled
from avow.assembly.pairs import whole
from avow.assembly.recipe import Training
from avow.core.contracts import Backbone, Lesson, Regions
from avow.core.errors import BadData
from avow.core.seeds import generator
from avow.data.captions import TokenTable
from avow.data.corruption import corrupt_words, drop_regions
from avow.training.batches import Batch
from avow.training.graphs import DEVICE

SMALLEST_CROP = 0.55
COLOUR = 0.3
_AT_ONCE = 512


@dataclass(frozen=True)
class Telling:
    """Photographs and all that may be said of each; one text per telling."""

    image: Int[np.ndarray, " tellings"]
    """Which photograph; one that stands several times is seen as often in an epoch."""
    texts: Sequence[Int[np.ndarray, " _"]]
    """Rows of the table of texts, of which one is drawn each time."""

    def drawn(
        self, chosen: Int[np.ndarray, " pairs"], rng: np.random.Generator
    ) -> Int[np.ndarray, " pairs"]:
        """One text for each of some tellings."""
        luck = rng.random(len(chosen))
        lists = [self.texts[one] for one in chosen]
        return np.array([own[int(x * len(own))] for own, x in zip(lists, luck, strict=True)])


class PixelBatches:
    """Batches of changed photographs, each with one of its texts."""

    def __init__(
        self,
        photographs: UInt8[Tensor, "images size size 3"],
        telling: Telling,
        table: TokenTable,
        same_text: Int[np.ndarray, " texts"],
        train: Training,
        views: int,
        look: Callable[[UInt8[Tensor, "items size size 3"]], Regions],
    ):
        """same_text: texts that say the same of what they are told of share a number.

        look: what a backbone makes of changed photographs, as a method takes it.
        """
        self.photographs, self.look = photographs, look
        self.telling, self.table, self.train, self.views = telling, table, train, views
        self.same_text = torch.from_numpy(same_text)
        if len(self) == 0:
            raise BadData(
                f"An epoch shows {len(telling.image)} photographs and a batch takes "
                f"{train.batch}. Expected at least one whole batch; lower train.batch."
            )

    def __len__(self) -> int:
        return len(self.telling.image) // self.train.batch

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch, from batch `start` on."""
        rng = np.random.default_rng((self.train.seed, epoch))
        order = rng.permutation(len(self.telling.image))
        for place in range(len(self)):
            chosen = order[place * self.train.batch : (place + 1) * self.train.batch]
            texts = self.telling.drawn(chosen, rng)  # also of batches that are left out
            if place >= start:
                yield self._batch(chosen, texts, epoch, epoch * len(self) + place)

    def _batch(
        self,
        chosen: Int[np.ndarray, " pairs"],
        texts: Int[np.ndarray, " pairs"],
        epoch: int,
        step: int,
    ) -> Batch:
        images = torch.from_numpy(self.telling.image[chosen])
        rows = torch.from_numpy(texts)
        draw = generator(self.train.seed, "augment", step, 0)
        text = corrupt_words(self.table, rows, self.train.words_changed, draw)
        same = self.same_text[rows]
        match = (images[:, None] == images[None]) | (same[:, None] == same[None])
        device = self.photographs.device
        with DEVICE:
            regions = self._regions(images.to(device), draw)
            regions = drop_regions(regions, self.train.regions_changed, draw)
            trust = torch.ones(self.views, len(rows), device=device)
            lesson = Lesson(rows.to(device), match.to(device), trust, epoch, step)
            return Batch(regions, text.to(device), lesson)

    def _regions(self, images: Int[Tensor, " items"], draw: torch.Generator) -> Regions:
        return self.look(changed(self.photographs[images], draw))


def changed(
    photographs: UInt8[Tensor, "items size size 3"], draw: torch.Generator
) -> UInt8[Tensor, "items size size 3"]:
    """A random crop of each, perhaps turned around, in slightly other colours."""
    count, device = len(photographs), photographs.device

    def chance(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=draw).to(device)

    size = SMALLEST_CROP + (1 - SMALLEST_CROP) * chance(count, 2)
    shift = (1 - size) * (2 * chance(count, 2) - 1)
    turned = torch.where(chance(count) < 0.5, -1.0, 1.0)
    frame = torch.zeros(count, 2, 3, device=device)
    frame[:, 0, 0], frame[:, 1, 1] = size[:, 0] * turned, size[:, 1]
    frame[:, :, 2] = shift
    planes = photographs.permute(0, 3, 1, 2).float()
    where = affine_grid(frame, list(planes.shape), align_corners=False)
    cut = grid_sample(planes, where, padding_mode="reflection", align_corners=False)
    light, contrast, colour = (1 + COLOUR * (2 * chance(3, count, 1, 1, 1) - 1)).unbind()
    cut = cut * light
    cut = cut.mean((1, 2, 3), keepdim=True).lerp(cut, contrast)
    cut = cut.mean(1, keepdim=True).lerp(cut, colour)
    return cut.clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1)


@torch.no_grad()
def seen(
    backbone: Backbone, photographs: UInt8[Tensor, "items size size 3"], grid: int
) -> Regions:
    """What the backbone makes of photographs, as a method takes it."""
    cells: list[Float[Tensor, "some parts dim"]] = []
    for part in photographs.split(_AT_ONCE):
        cells.append(pooled(backbone(part), grid, backbone.identity).half().float())
    return whole(torch.cat(cells), cell_boxes(grid)[None])
