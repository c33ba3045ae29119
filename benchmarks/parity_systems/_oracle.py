"""The recorded numbers of one published system, its inputs and its imported weights.

They lie in several files, or all in one: `NAME.npz`, whose weights are called `w:name`, or
`w0:name`, `w1:name` ... where the system has several networks.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from avow import methods
from avow.assembly.published import Imported, fit, translate
from avow.assembly.published_checkpoint import Published, read_checkpoint
from avow.core import folder
from avow.core.contracts import Lesson, Regions, Tokens
from avow.core.errors import WrongCheckpoint
from avow.training.batches import Batch

WEIGHTS = re.compile(r"w\d*:")


@dataclass(frozen=True)
class Problem:
    """What the published system was given."""

    visual: Regions
    text: Tokens
    image_of: np.ndarray
    """For each caption, the place of its image."""
    images: Tensor
    captions: Tensor
    """The pairs of the training batch."""

    def batch(self, epoch: int = 0, views: int = 1) -> Batch:
        visual = self.visual
        boxes = None if visual.boxes is None else visual.boxes[self.images]
        chosen = Regions(visual.features[self.images], visual.present[self.images], boxes)
        lesson = Lesson.paired(len(self.images), epoch, epoch, views)
        return Batch(chosen, chosen_text(self.text, self.captions), lesson)


def chosen_text(text: Tokens, rows: Tensor) -> Tokens:
    """Some captions, cropped to the longest of them."""
    longest = int(text.lengths[rows].max())
    edges: Any = getattr(text, "edges", None)
    more = {} if edges is None else {"edges": edges[rows, :longest, :longest]}
    return Tokens(text.ids[rows, :longest], text.present[rows, :longest], **more)


@dataclass(frozen=True)
class Oracle:
    """`NAME_out.npz` in a folder, and what lies beside it; or `NAME.npz` alone."""

    home: Path
    name: str

    @property
    def is_one_file(self) -> bool:
        return (self.home / f"{self.name}.npz").is_file()

    @cached_property
    def weights(self) -> list[str]:
        """The arrays that are starting weights."""
        return [name for name in self.arrays if WEIGHTS.match(name)]

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        path = self.home / f"{self.name}{'' if self.is_one_file else '_out'}.npz"
        if not path.is_file():
            return {}
        with np.load(path) as recorded:
            return {key: recorded[key] for key in recorded.files}

    @cached_property
    def states(self) -> dict[str, Path]:
        """Recorded weights after some training steps, by what follows the name."""
        found = sorted(self.home.glob(f"{self.name}_after_step*.pt"))
        return {path.name.removeprefix(f"{self.name}_"): path for path in found}

    @cached_property
    def tolerance(self) -> dict[str, float | None] | None:
        return read_json(self.home / "tolerance.json").get(self.name)

    @cached_property
    def published(self) -> Published:
        """The starting weights, and options with what `settings.json` corrects."""
        if self.is_one_file:
            return Published({"model": self._networks()}, {})
        path = self.home / f"{self.name}_weights.pt"
        try:
            found = read_checkpoint(path)
        except WrongCheckpoint:  # a plain state, whose options are in settings.json alone
            state = torch.load(path, map_location="cpu", weights_only=True)
            found = Published({"model": state}, {})
        corrected = {}
        for system, settings in read_json(self.home / "settings.json").items():
            if f"{self.name}_".startswith(f"{system}_"):
                corrected |= settings
        return Published(found.models, {**found.options, **corrected})

    def _networks(self) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """The state of the one network, or of each."""
        states: dict[str, dict[str, Tensor]] = {}
        for name in self.weights:
            network, _, parameter = name.partition(":")
            states.setdefault(network, {})[parameter] = torch.from_numpy(self.arrays[name])
        return states["w"] if "w" in states else [states[key] for key in sorted(states)]

    @property
    def options(self) -> dict[str, Any]:
        return self.published.options

    def imported(self, system: str, state: Path | None = None, **changes: Any) -> Imported:
        """Networks with the starting weights, or with those in the file `state`.

        Nothing drops out, as in the published runs; `changes` are settings of the method,
        where it has them.
        """
        published = self.published
        if state is not None:
            key = next(key for key in ("models", "model") if key in published.models)
            content = torch.load(state, map_location="cpu", weights_only=True)
            published = replace(published, models={**published.models, key: content})
        translated = translate(system, published)
        known = folder.settings(methods, translated.method["name"])
        quiet = {key: 0.0 for key in known if key.startswith("dropout")}
        asked = {key: value for key, value in changes.items() if key in known}
        method = {**translated.method, **quiet, **asked}
        return fit(system, replace(translated, method=method), published.options)

    def imported_after(self, system: str, step: int) -> tuple[str, Imported] | None:
        """The file with the published weights after `step` steps, and networks of them."""
        name = f"after_step{step}.pt"
        if name not in self.states:
            return None
        return name, self.imported(system, self.states[name], squash="tanh")

    @cached_property
    def problem(self) -> Problem:
        """The inputs that carry the last word of the name, which is its size."""
        with np.load(self.home / f"inputs_{self.name.rpartition('_')[2]}.npz") as found:
            given = {key: found[key] for key in found.files}
        features = torch.from_numpy(given["images_f16"].astype(np.float32))
        present = torch.ones(features.shape[:2], dtype=torch.bool)
        boxes = torch.from_numpy(given["bbox"]) if "bbox" in given else None
        count = torch.from_numpy(given["cap_lens"].astype(np.int64))
        longest = int(count.max())
        ids = torch.from_numpy(given["cap_ids"].astype(np.int64))[:, :longest]
        text = Tokens(ids, torch.arange(longest)[None] < count[:, None])
        return Problem(
            Regions(features, present, boxes),
            text,
            np.arange(len(ids)) // (len(ids) // len(features)),
            torch.from_numpy(given["train_img_idx"].astype(np.int64)),
            torch.from_numpy(given["train_cap_idx"].astype(np.int64)),
        )


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
