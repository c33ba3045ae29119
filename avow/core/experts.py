"""Features of the same items by several experts, of which some may be missing.

    Experts({"scene": [items, 1, 2208], "speech": [items, words, 300]}, present)

Videos are described by networks for appearance, motion, sound, speech and more; a video
without sound has no features of two of them. Experts differ in width and number of parts.

Where features travel as one array, all experts stand side by side in it (`packed`): part
by part, and a part that is all zeros is missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from avow.core.errors import BadFeatures


@dataclass(frozen=True)
class TextFeatures:
    """Captions as features per token, which a frozen network computed beforehand, padded."""

    features: Float[Tensor, "items parts dim"]
    present: Bool[Tensor, "items parts"]

    def to(self, device: torch.device | str) -> "TextFeatures":
        return TextFeatures(self.features.to(device), self.present.to(device))


@dataclass(frozen=True)
class Experts:
    """Visual items as parts per expert, padded; the experts have an order."""

    features: Mapping[str, Float[Tensor, "items _ _"]]
    """By the name of the expert, [items, parts, dim]."""
    present: Mapping[str, Bool[Tensor, "items _"]]
    """Which parts are there, [items, parts]; of a missing expert none."""

    def __post_init__(self) -> None:
        if not self.features or list(self.features) != list(self.present):
            raise BadFeatures(
                f"There are features of the experts {sorted(self.features)} and masks of "
                f"{sorted(self.present)}. Expected at least one expert, and a mask for each, "
                "in the same order."
            )
        items = len(next(iter(self.features.values())))
        for name, features in self.features.items():
            if len(features) != items or self.present[name].shape != features.shape[:2]:
                raise BadFeatures(
                    f"The expert {name!r} has features {list(features.shape)} and a mask "
                    f"{list(self.present[name].shape)}. Expected [{items}, parts, dim] and "
                    f"[{items}, parts]: every expert has the same items."
                )

    def __len__(self) -> int:
        return len(next(iter(self.features.values())))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.features)

    @property
    def available(self) -> Bool[Tensor, "items experts"]:
        """Which experts have at least one part of an item, in the order of `names`."""
        return torch.stack([mask.any(1) for mask in self.present.values()], 1)

    @property
    def widths(self) -> dict[str, int]:
        """Numbers per part of every expert."""
        return {name: features.shape[2] for name, features in self.features.items()}

    def packed(self) -> Float[Tensor, "items parts dim"]:
        """All experts side by side, padded with zeros to the most parts of any of them."""
        longest = max(features.shape[1] for features in self.features.values())
        side_by_side = [
            pad(
                features.masked_fill(~self.present[name][..., None], 0),
                (0, 0, 0, longest - features.shape[1]),
            )
            for name, features in self.features.items()
        ]
        return torch.cat(side_by_side, 2)

    @classmethod
    def unpacked(
        cls,
        features: Float[Tensor, "items parts dim"],
        present: Bool[Tensor, "items parts"],
        widths: Mapping[str, int],
    ) -> "Experts":
        """What `packed` put side by side; parts that are not `present` have no expert."""
        if sum(widths.values()) != features.shape[2]:
            listed = ", ".join(f"{name} {width}" for name, width in widths.items())
            raise BadFeatures(
                f"The features have {features.shape[2]} numbers per part, and the experts "
                f"{sum(widths.values())}: {listed}. Expected features of these experts side "
                "by side, in this order."
            )
        slices = features.split(list(widths.values()), dim=2)
        parts = dict(zip(widths, slices, strict=True))
        return cls(parts, {name: present & (part != 0).any(2) for name, part in parts.items()})

    def to(self, device: torch.device | str) -> "Experts":
        return Experts(
            {name: tensor.to(device) for name, tensor in self.features.items()},
            {name: tensor.to(device) for name, tensor in self.present.items()},
        )

    def rows(self, chosen: slice | Int[Tensor, " chosen"]) -> "Experts":
        """Some of the items, with all their experts."""
        return Experts(
            {name: tensor[chosen] for name, tensor in self.features.items()},
            {name: tensor[chosen] for name, tensor in self.present.items()},
        )

    @classmethod
    def joined(cls, batches: Sequence["Experts"]) -> "Experts":
        """Several batches as one; parts are padded to the longest of each expert."""
        names = batches[0].names
        for batch in batches:
            if batch.names != names:
                raise BadFeatures(
                    f"The experts {list(batch.names)} and {list(names)} cannot be joined. "
                    "Expected the same ones in the same order; give missing experts an empty "
                    "mask."
                )
        features, present = {}, {}
        for name in names:
            longest = max(batch.features[name].shape[1] for batch in batches)
            missing = [longest - batch.features[name].shape[1] for batch in batches]
            features[name] = torch.cat(
                [
                    pad(b.features[name], (0, 0, 0, more))
                    for b, more in zip(batches, missing, strict=True)
                ]
            )
            present[name] = torch.cat(
                [
                    pad(b.present[name], (0, more))
                    for b, more in zip(batches, missing, strict=True)
                ]
            )
        return cls(features, present)
