"""Measures of a study that ask the same queries many times, each time of another model.

    mc_dropout                 dropout stays on, where a network has it
    stochastic_bn              the method's own batch normalisation, with drawn statistics
    stochastic_bn from pixels  that of the backbone; photographs pass it in every draw

What a network does not have is no mistake of whoever asks: a sentence takes its place. Only
some photographs may be asked about, since each passes the backbone once per draw; all other
queries then have no number (NaN), and are left out wherever the measure is judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from avow import uncertainty
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.photographs import open_photograph, prepared
from avow.assembly.stochastic.batch_statistics import (
    BatchStatistics,
    DrawnStatistics,
    collect_from_split,
    has_batch_norm,
)
from avow.assembly.stochastic.chance import KeptDropout
from avow.assembly.stochastic.passes import Drawing, Passes, Pixels
from avow.core import folder
from avow.core.contracts import QueryBatch, Split
from avow.core.errors import BadData
from avow.data.captions import TokenTable
from avow.trust.gallery_sampling import Query

FROM_PIXELS = "stochastic_bn from pixels"
PIXEL_PASSES = 50
"""Passes where no number is given; Hama et al. draw 100 models."""
PIXEL_BATCH, PIXEL_BATCHES = 64, 20

Measured = dict[str, Float[np.ndarray, " queries"]]


@dataclass(frozen=True)
class Repeated:
    """One kind of repeated passes over the same queries, or why there is none."""

    name: str
    count: int = 0
    passes: Passes | None = None
    images: Int[np.ndarray, " some"] | None = None
    """Which image queries are asked; None for all."""
    note: str = ""

    def measure(self, asked: QueryBatch, query: Query) -> Measured:
        """Empty if the passes do not change the answers to these queries."""
        if self.passes is None or not self.passes.is_random(query):
            return {}
        some = QueryBatch(
            asked.similarity, asked.own, asked.tau, draws=self.passes.draws(query)
        )
        probe = folder.build(uncertainty, self.name.partition(" ")[0], passes=self.count)
        measures = {
            key: value.cpu().double().numpy() for key, value in probe.measure(some).items()
        }
        queries = asked.similarity.shape[1]
        return {
            f"{self.name}: {key}": _spread_out(values, self.images, queries)
            for key, values in measures.items()
        }

    def notes(self) -> list[str]:
        """What a reader of its figures has to know."""
        notes = [f"{self.name}: {self.note}"] if self.note else []
        if self.passes is not None:
            notes += [
                f"{self.name}: {query} queries pass nothing that is left to chance"
                for query in ("text", "image")
                if not self.passes.is_random(query)
            ]
        return notes


def dropped(model: Model, split: FeaturedSplit, count: int, seed: int = 0) -> Repeated:
    """MC-dropout over a split."""
    chance = KeptDropout(model.views)
    if not chance.layers:
        return Repeated("mc_dropout", note="the method has no dropout above 0; left out")
    return Repeated("mc_dropout", count, _over(model, split, split, chance, seed))


def drawn_statistics(
    model: Model, split: FeaturedSplit, training: FeaturedSplit, count: int, seed: int = 0
) -> Repeated:
    """The method's own batch normalisation, with statistics of training batches."""
    if not has_batch_norm(nn.ModuleList(model.views)):
        note = "the method has no batch normalisation; left out"
        return Repeated("stochastic_bn", note=note)
    statistics = collect_from_split(model.views, training, model.device, seed=seed)
    chance = DrawnStatistics(nn.ModuleList(model.views), statistics)
    return Repeated("stochastic_bn", count, _over(model, split, split, chance, seed))


def from_pixels(
    model: Model,
    split: FeaturedSplit,
    photographs: Split,
    training: Split,
    *,
    count: int = PIXEL_PASSES,
    most: int = 0,
    seed: int = 0,
) -> Repeated:
    """The backbone's batch normalisation; photographs of the split pass it in every draw.

    photographs, training: where the photographs of the split and of the training split lie.
    most: of so many images of the split, drawn with `seed`; 0 for all.
    """
    if model.recipe.features is None:
        note = "the run reads features that came with its dataset, not photographs; left out"
        return Repeated(FROM_PIXELS, note=note)
    backbone = model.backbone
    if not has_batch_norm(backbone):
        note = "the backbone has no batch normalisation; left out"
        return Repeated(FROM_PIXELS, note=note)
    rng = np.random.default_rng(seed)
    images = rng.permutation(len(split.image_ids))[: most or None]
    files = _files_of(photographs, [split.image_ids[image] for image in images])
    training_files = _files_of(training, training.image_ids)
    chosen = [rng.choice(len(training_files), PIXEL_BATCH) for _ in range(PIXEL_BATCHES)]

    def batches() -> Iterator[np.ndarray]:
        for numbers in chosen:
            yield prepared(
                backbone, [open_photograph(training_files[number]) for number in numbers]
            )

    def forward(pixels: np.ndarray) -> None:
        backbone(torch.from_numpy(pixels).to(model.device))

    chance = DrawnStatistics(backbone, BatchStatistics.collect(backbone, forward, batches()))
    pixels = Pixels(
        backbone,
        np.concatenate([prepared(backbone, [open_photograph(file)]) for file in files]),
        model.recipe.features.grid,
        model.device,
    )
    note = (
        f"{count} passes of {len(images)} of {len(split.image_ids)} photographs (drawn with "
        f"seed {seed}), statistics of {PIXEL_BATCHES} batches of {PIXEL_BATCH} training "
        "photographs"
    )
    return Repeated(FROM_PIXELS, count, _over(model, split, pixels, chance, seed), images, note)


def _over(
    model: Model,
    split: FeaturedSplit,
    images: FeaturedSplit | Pixels,
    chance: KeptDropout | DrawnStatistics,
    seed: int,
) -> Passes:
    table = TokenTable.from_captions(model.tokeniser, split.captions)
    return Passes(model.views, images, table, chance, model.device, Drawing(seed=seed))


def _files_of(split: Split, wanted: Sequence[str]) -> list[Path]:
    if split.files is None:
        raise BadData(
            "The dataset has no photographs, and --from-pixels passes them through the "
            "backbone. Expected a dataset with files; leave --from-pixels out."
        )
    place = dict(zip(split.image_ids, split.files, strict=True))
    return [place[image] for image in wanted]


def _spread_out(
    values: Float[np.ndarray, " some"], images: Int[np.ndarray, " some"] | None, queries: int
) -> Float[np.ndarray, " queries"]:
    """The numbers of all queries; NaN for those that were not asked."""
    if images is None:
        return values
    out = np.full(queries, np.nan)
    out[images] = values
    return out
