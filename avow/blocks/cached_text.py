"""A frozen text network that reads every caption once, and keeps what it made of it.

    caption --network--> states --mean, max--> one vector, kept by the caption's numbers

Without an accelerator a text network is what an epoch waits for. One that is frozen says the
same of a caption in every epoch, every view and every fold, so all of them share one reader,
and from the second time on a caption costs a look into a table. Captions that are augmented
are other captions each time, and gain nothing.
"""

from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.blocks.lora_text import AdaptedTransformer
from avow.core.contracts import Tokens


class CaptionReader:
    """One frozen network, and the vectors of the captions it has read."""

    def __init__(self, source: str):
        self.network = AdaptedTransformer(source, rank=0).eval()
        self.dim = 2 * self.network.dim
        self.captions = np.empty(0, "S4")
        """Each as the bytes of its length and numbers, sorted for binary search."""
        self.place = np.empty(0, np.int64)
        """Where the vector of each of them lies."""
        self.vectors = np.empty((0, self.dim), np.float16)
        """In the order they were read, with room for more."""

    @property
    def number(self) -> Int[Tensor, ""]:
        """Tells this network from others."""
        return self.network.get_buffer("beside").clone()

    @torch.no_grad()
    def read(self, text: Tokens) -> Float[Tensor, "items dim"]:
        """One vector per caption: the mean and the largest of its tokens' states."""
        captions = _as_bytes(text)
        distinct, first = np.unique(captions, return_index=True)
        near = np.searchsorted(self.captions, distinct)
        unknown = near == len(self.captions)
        unknown[~unknown] = self.captions[near[~unknown]] != distinct[~unknown]
        if unknown.any():
            self._keep(text, distinct[unknown], first[unknown])
        vectors = self.vectors[self.place[np.searchsorted(self.captions, captions)]]
        return torch.from_numpy(vectors).to(text.ids.device, torch.float32)

    def _keep(self, text: Tokens, captions: np.ndarray, rows: Int[np.ndarray, " rows"]) -> None:
        """Encode the captions of `rows`, and insert them in sorted order."""
        start, stop = len(self.captions), len(self.captions) + len(captions)
        if stop > len(self.vectors):
            more = np.empty((stop, self.dim), np.float16)
            self.vectors = np.concatenate([self.vectors, more])
        lengths = text.lengths.cpu().numpy()[rows]
        for length in np.unique(lengths):
            # alike in length: no padding to read, and no neighbour to depend on
            alike = np.flatnonzero(lengths == length)
            self.vectors[start + alike] = self._vectors(text.ids[rows[alike], :length])
        longest = max(self.captions.dtype, captions.dtype, key=lambda kind: kind.itemsize)
        widened = self.captions.astype(longest)
        between = np.searchsorted(widened, captions)
        self.captions = np.insert(widened, between, captions)
        self.place = np.insert(self.place, between, np.arange(start, stop))

    def _vectors(self, ids: Int[Tensor, "items parts"]) -> Float[np.ndarray, "items dim"]:
        network = self.network.to(ids.device)
        states = network(ids, torch.ones_like(ids, dtype=torch.bool))
        vectors = torch.cat([states.mean(1), states.amax(1)], 1)
        return vectors.half().cpu().numpy()


def _as_bytes(text: Tokens) -> np.ndarray:
    """One string of bytes per caption, whatever padding it came with."""
    lengths = text.lengths[:, None]
    present = torch.arange(text.ids.shape[1], device=text.ids.device) < lengths
    rows = torch.cat([lengths, text.ids * present], 1).int().cpu().numpy()
    return np.ascontiguousarray(rows).view(f"S{rows.itemsize * rows.shape[1]}")[:, 0]


@cache
def caption_reader(source: str) -> CaptionReader:
    """The one reader of a network in this process."""
    return CaptionReader(source)
