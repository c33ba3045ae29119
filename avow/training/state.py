"""Where a run has got to, on disk: the best model, and all that is needed to go on.

    run/best          names the folder of the best model     run/best-00003/
    run/last          names the folder of the newest state   run/last-00000702/

A folder gets its name when it is whole, then the small file that points to it is
replaced, then the older folder is removed: a kill between any two leaves a valid run.
"""

import dataclasses
import pickle
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import torch
from torch.optim import Optimizer

from avow.assembly.model import Model
from avow.assembly.model_files import pointed, read_json
from avow.assembly.recipe import Recipe
from avow.core import seals
from avow.core.contracts import Method
from avow.core.errors import WrongCheckpoint
from avow.core.files import new_folder, write_text
from avow.training.sifting import Sifted

_UNUSABLE = (
    *(OSError, RuntimeError, ValueError, EOFError),
    *(KeyError, TypeError, AttributeError, pickle.UnpicklingError),
)
"""What a training state that is damaged, or of another recipe, raises."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Progress:
    """How far training has come."""

    epoch: int = 0
    """Epochs that are complete."""
    batch: int = 0
    """Batches of the epoch after them that are complete."""
    best: float = -1.0
    best_epoch: int = 0

    def after_batch(self) -> "Progress":
        return replace(self, batch=self.batch + 1)

    def after_epoch(self, rsum: float) -> "Progress":
        epoch = self.epoch + 1
        if rsum > self.best:
            return Progress(epoch, 0, rsum, epoch)
        return Progress(epoch, 0, self.best, self.best_epoch)

    def is_over(self, patience: int) -> bool:
        return bool(patience) and self.epoch - self.best_epoch >= patience


@runtime_checkable
class Learns(Protocol):
    """Something that learns beside the views: an average of them, a pixel network."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def save_best(run: Path, model: Model, reached: Progress, half: bool = False) -> None:
    name = f"best-{reached.epoch:05d}"
    model.save_pretrained(run / name, half=half)
    _point(run, "best", name)


def save_state(
    run: Path,
    views: Sequence[Method],
    optimiser: Optimizer,
    reached: Progress,
    sifted: Sifted | None = None,
    beside: Mapping[str, Learns] = NOTHING,
) -> None:
    """beside: what else learns, by the name under which `load_state` finds it again."""
    name = f"last-{reached.epoch:05d}-{reached.batch:06d}"
    with new_folder(run / name) as home:
        content = {
            "views": [view.state_dict() for view in views],
            "optimiser": optimiser.state_dict(),
            "progress": dataclasses.asdict(reached),
            "sifted": None if sifted is None else dataclasses.asdict(sifted),
            **{name: one.state_dict() for name, one in beside.items()},
        }
        torch.save(content, home / "training.pt")
        seals.write_list(home)
    _point(run, "last", name)


def load_state(
    run: Path,
    views: Sequence[Method],
    optimiser: Optimizer,
    beside: Mapping[str, Learns] = NOTHING,
) -> tuple[Progress, Sifted | None]:
    """Put weights and optimiser back; where nothing was saved yet, start at the start."""
    home = pointed(run, "last") or _newest(run)
    if home is None:
        return Progress(), None
    path = home / "training.pt"
    try:
        seals.check(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        for view, state in zip(views, content["views"], strict=True):
            view.load_state_dict(state)
        optimiser.load_state_dict(content["optimiser"])
        for name, one in beside.items():
            one.load_state_dict(content[name])
        reached, sifted = Progress(**content["progress"]), content.get("sifted")
        return reached, None if sifted is None else Sifted(**sifted)
    except _UNUSABLE as error:
        raise WrongCheckpoint(
            f"The training state {str(path)!r} cannot be used ({error}). Expected the "
            "state of the same recipe; train without --resume to start anew."
        ) from error


def check_run(run: Path, recipe: Recipe, resume: bool) -> None:
    """Refuse a folder with another run in it."""
    path = run / "recipe.json"
    if not path.is_file():
        return
    if not resume:
        raise WrongCheckpoint(
            f"There is a run in {str(run)!r} already. Expected a new folder: continue "
            "that run with --resume, or choose another --out."
        )
    if read_json(path) != _content(recipe) and (run / "last").is_file():
        raise WrongCheckpoint(
            f"The run in {str(run)!r} was started with other settings. Expected the "
            "same recipe and --set values to resume it; choose another --out for new "
            "ones."
        )


def open_run(run: Path, recipe: Recipe, resume: bool) -> None:
    """Make the run folder, or check that the one there may be continued.

    One that has learnt nothing yet may go on with other settings.
    """
    check_run(run, recipe, resume)
    run.mkdir(parents=True, exist_ok=True)
    seals.write_document(run / "recipe.json", _content(recipe), indent=1)


def _newest(run: Path) -> Path | None:
    """A state that is whole, though nothing points to it: a kill came in between."""
    return max(run.glob("last-*"), default=None)


def _content(recipe: Recipe) -> dict[str, Any]:
    return {"name": recipe.name, "recipe": recipe.to_dict()}


def _point(run: Path, kind: str, name: str) -> None:
    write_text(run / kind, name)
    for other in run.glob(f"{kind}-*"):
        if other.name != name:
            shutil.rmtree(other, ignore_errors=True)
