"""Every pair of a dataset as one split, and the way back to the splits they came from.

train, dev, test --every_pair--> "all" --audit--> findings --restored--> train, dev, test
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from jaxtyping import Bool, Int

from avow.audit.judge import Audit
from avow.audit.parts import Origins
from avow.core.datasets import PairedDataset, Split

EVERY = "all"
"""What the split of all pairs is called."""


def restored(audit: Audit, origins: Origins) -> Audit:
    """The same findings, each under the split and the place it has in the dataset."""
    findings = []
    for finding in audit.findings:
        split, pair = origins.of(finding.pair)
        findings.append(replace(finding, split=split, pair=pair))
    return replace(audit, findings=tuple(findings))


def every_pair(dataset: PairedDataset, name: str = EVERY) -> tuple[PairedDataset, Origins]:
    """The dataset with one split called `name`, which has every pair, and where each was.

    An image of several splits is one image there, with the captions of all.
    """
    splits = dataset.splits
    ids, image_of = joined_images({key: split.image_ids for key, split in splits.items()})
    places = [
        image_of[key][split.image_of] for key, split in splits.items() if len(split.captions)
    ]
    whole = Split(
        ids,
        tuple(chain.from_iterable(split.captions for split in splits.values())),
        np.concatenate(places).astype(np.int64),
        _files(splits, ids),
    )
    counts = tuple(len(split.captions) for split in splits.values())
    return replace(dataset, splits={name: whole}), Origins(tuple(splits), counts)


def in_split(
    wanted: str,
    split: str,
    pairs: Int[np.ndarray, " pairs"],
    origins: Origins | None,
) -> Bool[np.ndarray, " pairs"] | None:
    """Which pairs are of the split `wanted`; None: none of them.

    split: the one that is judged. pairs: their places in it.
    """
    if origins is None:
        return np.ones(len(pairs), bool) if split == wanted else None
    return np.array([origins.of(int(pair))[0] == wanted for pair in pairs], bool)


def joined_images(
    ids: Mapping[str, Sequence[str]],
) -> tuple[tuple[str, ...], dict[str, Int[np.ndarray, " images"]]]:
    """All images once, and for each split the places of its own among them."""
    place: dict[str, int] = {}
    for names in ids.values():
        for name in names:
            place.setdefault(name, len(place))
    return tuple(place), {
        split: np.array([place[name] for name in names], np.int64)
        for split, names in ids.items()
    }


def _files(splits: Mapping[str, Split], ids: Sequence[str]) -> tuple | None:
    if any(split.files is None for split in splits.values()):
        return None
    files = {
        name: file
        for split in splits.values()
        for name, file in zip(split.image_ids, split.files or (), strict=True)
    }
    return tuple(files[name] for name in ids)
