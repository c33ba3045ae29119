"""One trained run as the judge of a split or of all, from stored features."""

from pathlib import Path

import numpy as np

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.audit.every_pair import EVERY, every_pair, joined_images
from avow.audit.judge import refuse_too_few
from avow.audit.parts import Judges, Pairs
from avow.audit.trained_part import parted
from avow.core.datasets import PairedDataset
from avow.core.device import chosen_device
from avow.data.opening import open_dataset
from avow.training.trained_pairs import seen_before


def run_as_judge(
    run: Path, dataset: str, split: str, features: Path | None, device: str, allow_code: bool
) -> Judges:
    """A trained run judges every pair of a split; split empty: of all of them."""
    where = chosen_device(device)
    model = Model.from_pretrained(run, where, allow_code=allow_code)
    names = [split] if split else list(open_dataset(dataset).splits)
    opened, splits = open_splits(model, dataset, features, names)
    learnt = model.learnt_from(opened)
    seen = [_seen(run, name, chosen, learnt) for name, chosen in splits.items()]
    known = None if all(one is None for one in seen) else _joined(seen, splits)
    name = "the model that comes with Avow" if str(run) == "default" else run.name
    described = f"judged by {name}"
    if split:
        whole = splits[split]
        refuse_too_few(whole, split)
        parts = [parted(whole, whole.image_ids, model)]
        return Judges(opened, whole, parts, known, described, where, split)
    pairs = _every(opened, splits)
    refuse_too_few(pairs, EVERY)
    parts, start = [], 0
    for chosen in splits.values():  # images of a split are rivals of each other
        parts.append(parted(chosen, chosen.image_ids, model, start))
        start += len(chosen.captions)
    merged, origins = every_pair(opened)
    return Judges(merged, pairs, parts, known, described, where, EVERY, origins)


def _every(dataset: PairedDataset, splits: dict[str, FeaturedSplit]) -> Pairs:
    """All pairs that have features, one split after the other."""
    ids, place = joined_images({name: chosen.image_ids for name, chosen in splits.items()})
    kept, start = [], 0
    for name, chosen in splits.items():
        inside = np.arange(len(chosen.captions)) if chosen.kept is None else chosen.kept
        kept.append(start + inside)
        start += len(dataset.splits[name].captions)
    return Pairs(
        ids,
        tuple(caption for chosen in splits.values() for caption in chosen.captions),
        np.concatenate([place[name][chosen.image_of] for name, chosen in splits.items()]),
        np.concatenate(kept),
    )


def _seen(run: Path, name: str, chosen: FeaturedSplit, learnt: bool) -> np.ndarray | None:
    """Which pairs of a split the run has learnt from; None: none of them."""
    seen = seen_before(run, chosen)
    if seen is None and name == "train" and learnt:
        return np.ones(len(chosen.captions), bool)  # as far as the name of the data tells
    return seen


def _joined(seen: list[np.ndarray | None], splits: dict[str, FeaturedSplit]) -> np.ndarray:
    return np.concatenate(
        [
            np.zeros(len(chosen.captions), bool) if one is None else one
            for one, chosen in zip(seen, splits.values(), strict=True)
        ]
    )
