"""One trained run as the judge of a whole split, from stored features."""

from pathlib import Path

import numpy as np

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.audit.judge import refuse_too_few
from avow.audit.parts import Judges
from avow.audit.trained_part import parted
from avow.core.device import chosen_device
from avow.training.trained_pairs import seen_before


def run_as_judge(
    run: Path, dataset: str, split: str, features: Path | None, device: str, allow_code: bool
) -> Judges:
    """A trained run judges every pair of the split."""
    where = chosen_device(device)
    model = Model.from_pretrained(run, where, allow_code=allow_code)
    opened, splits = open_splits(model, dataset, features, [split])
    whole = splits[split]
    refuse_too_few(whole, split)
    seen = seen_before(run, whole)
    if seen is None and split == "train" and model.learnt_from(opened):
        seen = np.ones(len(whole.captions), bool)  # as far as the name of the data tells
    name = "the model that comes with Avow" if str(run) == "default" else run.name
    parts = [parted(whole, whole.image_ids, model)]
    return Judges(opened, whole, parts, seen, f"judged by {name}", where)
