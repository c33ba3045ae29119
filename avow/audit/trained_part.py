"""A part of the pairs judged by a trained run or a fold model, from stored features."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.audit.parts import Compare, Part, Progress
from avow.core.fingerprint import of_bytes
from avow.data.captions import TokenTable


@dataclass(frozen=True)
class TrainedPart(Part):
    """Images with features, and the model that never saw them, or did."""

    split: FeaturedSplit
    model: Model

    def identity(self) -> Iterator[str]:
        """The model, the images, and their features block by block: they may be made anew."""
        yield self.model.fingerprint
        yield from self.split.image_ids
        for images in batches(len(self.split.rows), Blocks().encode):
            yield of_bytes(self.split.features(images).numpy().tobytes())

    def encode(self, device: str, progress: Progress) -> Compare:
        split, block = self.split, Blocks().encode
        table = TokenTable.from_captions(self.model.tokeniser, split.captions)
        encoded = []
        for view in self.model.views:
            view.eval()
            regions = (split.regions(images) for images in batches(len(split.rows), block))
            visual = encode(view.encode_visual, regions, device)
            encoded.append((view, visual, encode_captions(view, table, device, block)))
            progress(len(split.captions))

        def scores(
            images: Int[np.ndarray, " images"], texts: Int[np.ndarray, " texts"]
        ) -> Sequence[Float[np.ndarray, "images texts"]]:
            chosen, asked = torch.from_numpy(images), torch.from_numpy(texts)
            return [
                compare(
                    view, visual.rows(chosen), text.rows(asked), device, Blocks(), len(encoded)
                )
                for view, visual, text in encoded
            ]

        return scores


def parted(
    split: FeaturedSplit, images: Sequence[str], model: Model, start: int = 0
) -> TrainedPart:
    """What one model judges of a split: some of its images, by name.

    start: pairs of other splits that come before, where several are judged as one.
    """
    wanted = set(images)
    chosen = np.array([name in wanted for name in split.image_ids], bool)
    captions = np.flatnonzero(chosen[split.image_of])
    place = np.cumsum(chosen) - 1
    inside = FeaturedSplit(
        split.source,
        tuple(name for name in split.image_ids if name in wanted),
        split.rows[chosen],
        tuple(split.captions[n] for n in captions),
        place[split.image_of[captions]],
        split.boxes,
    )
    tau = float(model.evidence_settings["tau"])
    return TrainedPart(start + captions, inside, len(model.views), tau, model)
