"""What the recorded systems for videos were given, in their own file or in one beside it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from parity_systems._oracle import Oracle, chosen_text
from torch import Tensor

from avow.core.contracts import Regions, Tokens


@dataclass(frozen=True)
class Clips:
    """Videos as frames and captions as numbers, with the words that are counted."""

    frames: Regions
    text: Tokens
    bag: Tensor
    labels: Tensor
    video_of: np.ndarray
    """For each caption, the place of its video."""
    cropped: bool
    """Whether a batch is padded to its longest video, or as far as all are."""

    def videos(self, rows: Tensor) -> Regions:
        """Some videos as a batch."""
        present = self.frames.present[rows]
        longest = int(present.sum(1).max()) if self.cropped else present.shape[1]
        return Regions(self.frames.features[rows, :longest], present[:, :longest])

    def captions(self, rows: Tensor) -> tuple[Tokens, Tensor]:
        return chosen_text(self.text, rows), self.bag[rows]


@dataclass(frozen=True)
class Given:
    """The inputs of one system by their names."""

    oracle: Oracle

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        if self.oracle.is_one_file:
            return self.oracle.arrays
        kind, _, size = self.oracle.name.rpartition("_")
        name = f"inputs_{'ce' if kind == 'ce' else 'video'}_{size}.npz"
        with np.load(self.oracle.home / name) as found:
            return {key: found[key] for key in found.files}

    def tensor(self, name: str) -> Tensor:
        found = torch.from_numpy(self.arrays[name])
        return found.float() if found.is_floating_point() else found.long()

    @cached_property
    def clips(self) -> Clips:
        frames, counted = self.tensor("frames"), self.tensor("frame_lens")
        ids, words = self.tensor("cap_ids"), self.tensor("cap_lens")
        longest = int(words.max())
        return Clips(
            Regions(frames, torch.arange(frames.shape[1])[None] < counted[:, None]),
            Tokens(ids[:, :longest], torch.arange(longest)[None] < words[:, None]),
            self.tensor("cap_bow"),
            self.tensor("tags"),
            np.arange(len(ids)) // (len(ids) // len(frames)),
            self.oracle.is_one_file,
        )
