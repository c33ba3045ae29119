"""A frozen text network that reads every caption once, and keeps what it made of it.

    caption --network--> states --mean, max--> one vector, kept by the caption's numbers

Without an accelerator a text network is what an epoch waits for. One that is frozen says the
same of a caption in every epoch, every view and every fold, so all of them share one reader,
and from the second time on a caption costs a look into a table. Captions that are augmented
are other captions each time, and gain nothing.
"""

from collections import defaultdict
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.blocks.adapted import AdaptedTransformer
from avow.core.contracts import Tokens


class CaptionReader:
    """One frozen network, and the vectors of the captions it has read."""

    def __init__(self, source: str):
        self.network = AdaptedTransformer(source, rank=0).eval()
        self.dim = 2 * self.network.dim
        self.known: dict[bytes, np.ndarray] = {}

    @property
    def number(self) -> Int[Tensor, ""]:
        """Tells this network from others."""
        return self.network.get_buffer("beside").clone()

    @torch.no_grad()
    def read(self, text: Tokens) -> Float[Tensor, "items dim"]:
        """One vector per caption: the mean and the largest of its tokens' states."""
        lengths = text.lengths.tolist()
        rows = text.ids.cpu().int().numpy()
        keys = [row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)]
        fresh: dict[int, list[int]] = defaultdict(list)
        for place, key in enumerate(keys):
            if key not in self.known:
                fresh[lengths[place]].append(place)
        for length, places in fresh.items():
            # alike in length: no padding to read, and no neighbour to depend on
            vectors = self._vectors(text.ids[places, :length])
            self.known |= zip([keys[place] for place in places], vectors, strict=True)
        found = np.stack([self.known[key] for key in keys])
        return torch.from_numpy(found).to(text.ids.device, torch.float32)

    def _vectors(self, ids: Int[Tensor, "items parts"]) -> Float[np.ndarray, "items dim"]:
        network = self.network.to(ids.device)
        states = network(ids, torch.ones_like(ids, dtype=torch.bool))
        vectors = torch.cat([states.mean(1), states.amax(1)], 1)
        return vectors.half().cpu().numpy()


@cache
def caption_reader(source: str) -> CaptionReader:
    """The one reader of a network in this process."""
    return CaptionReader(source)
