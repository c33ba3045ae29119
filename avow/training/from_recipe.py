"""From a recipe to a trained run, in one call."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from avow.assembly.model import Model
from avow.assembly.recipe import Recipe
from avow.core.errors import BadRecipe
from avow.core.storage import is_url
from avow.data.fetched import fetched
from avow.training import loop
from avow.training.pixel_setup import PixelCourse, enrol_photographs
from avow.training.setup import Course, enrol, open_data, open_features
from avow.training.shared_statistics import share_statistics
from avow.training.state import check_run, open_run


@dataclass(frozen=True)
class TrainedRun:
    """Where a run is, and how far it came."""

    run: Path
    """Open it with `Model.from_pretrained`."""
    epochs: int
    best_epoch: int
    dev_rsum: float
    """Of the best epoch, whose weights are kept."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "run": str(self.run)}


def train(
    recipe: str | Path,
    *,
    out: str | Path | None = None,
    features: str | Path | None = None,
    changes: Sequence[str] = (),
    loss: str | None = None,
    resume: bool = False,
    progress: bool = False,
    device: str = "",
) -> TrainedRun:
    """Train a recipe; the best checkpoint by dev rSum is kept in the run folder.

    recipe: a name that `avow recipes` lists, or a .toml file. out: the run folder; default
    runs/NAME. features: a folder made by `avow features`, or its URL. changes: settings such as
    "train.seed=1". loss: another loss than the recipe's, with its defaults. resume: continue
    a run that was stopped. device: "cpu", or empty for the best one.

        >>> trained = avow.train("animals.toml", out="runs/again", changes=["train.epochs=1"])
        >>> trained.epochs
        1
        >>> avow.Model.from_pretrained(trained.run).recipe.loss["name"]
        'tcl'
    """
    chosen = Recipe.open(str(recipe), list(changes), loss)
    run = Path(out) if out else Path("runs") / run_name(str(recipe), loss)
    first = os.environ.get("RANK", "0") == "0"  # set by torchrun
    if first:
        check_run(run, chosen, resume)
    model, course = _enrolled(chosen, features)
    if first:
        open_run(run, chosen, resume)  # after everything that may be refused
    if chosen.train.gather:
        share_statistics(model.views)
    reached = loop.train(
        model, course, run, resume=resume, progress=progress, device=device or None
    )
    return TrainedRun(run, reached.epoch, reached.best_epoch, reached.best)


def _enrolled(
    recipe: Recipe, features: str | Path | None
) -> tuple[Model, Course | PixelCourse]:
    """The model and what it learns from: photographs where the recipe names them."""
    if not recipe.train.photographs:
        dataset = open_data(recipe)
        if features is not None and is_url(str(features)):
            features = fetched(str(features))
        store = open_features(recipe, dataset, None if features is None else Path(features))
        return enrol(recipe, dataset, store)
    if features is not None:
        raise BadRecipe(
            f"Features were named ({str(features)!r}), and the recipe {recipe.name!r} trains "
            "from photographs. Expected one of the two: leave --features out, or set "
            "train.photographs=''."
        )
    return enrol_photographs(recipe)


def run_name(recipe: str, *more: str | None) -> str:
    """The usual name of a run: that of the recipe, and what differs from it."""
    parts = [recipe.removesuffix(".toml").replace("/", "-").lstrip(".-"), *more]
    return "-".join(part for part in parts if part)
