"""Models trained for an audit, on folds of the pairs: each judges what it never saw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.audit.every_pair import EVERY, every_pair
from avow.audit.judge import refuse_too_few
from avow.audit.parts import Judges
from avow.audit.trained_part import parted
from avow.core.device import chosen_device
from avow.data.joined_rows import joined
from avow.data.noise import with_noise
from avow.data.opening import open_dataset
from avow.training.folds import FEW_STEPS, fold_steps, train_folds
from avow.training.setup import drawn_noise, fold_recipe, open_features


@dataclass(frozen=True)
class FoldPlan:
    """How fold models are trained."""

    recipe: str = ""
    """Name or file; empty chooses one for the dataset and the device."""
    changes: Sequence[str] = ()
    count: int = 5
    seed: int = 0
    device: str = ""
    allow_code: bool = False
    split: str = ""
    """"train" judges that split alone, also where the reader made it up."""


def folds_as_judges(
    plan: FoldPlan,
    dataset: str,
    features: Path | None,
    home: Path,
    tell: Callable[[str], None],
    progress: bool,
) -> Judges:
    """Fold models, trained in `home`, judge the train split.

    Where the dataset has no splits of its own, they learn from and judge every pair. Where it
    has some, what is to be tested on stays out of what anything is learnt from.
    """
    where = chosen_device(plan.device)
    opened = open_dataset(dataset)
    recipe = fold_recipe(plan.recipe, dataset, opened, list(plan.changes), plan.seed, where)
    store = open_features(recipe, opened, features)
    judged, origins = opened, None
    if not (plan.split or opened.own_splits) and len(opened.splits) > 1:
        judged, origins = every_pair(opened)
        opened = every_pair(opened, "train")[0]
        store = None if store is None else joined(store, "train")
    noise = drawn_noise(recipe, opened)
    if noise is not None:  # the pairs are judged as they are then, not noised per fold
        opened, recipe = with_noise(opened, noise), replace(recipe, noise=None)
    whole = FeaturedSplit.join(opened, "train", store)
    refuse_too_few(whole, "train")
    tell(f"{plan.count} fold models by the recipe {recipe.name} on {where}")
    steps = fold_steps(recipe, len(whole.captions), plan.count)
    if steps < FEW_STEPS:
        tell(
            f"Each learns in {steps} steps, which is little: what they say may be worth "
            "little too. --run default judges without training; more epochs or smaller "
            f"batches learn more (--set train.epochs={10 * recipe.train.epochs})."
        )
    device = plan.device or None
    folder = home / "folds"
    trained = train_folds(
        recipe, opened, store, folder, plan.count, progress=progress, device=device
    )
    # the fold runs may name what the recipe names, which the user typed
    allowed = plan.allow_code or recipe.outside
    parts = [
        parted(whole, fold.images, Model.from_pretrained(fold.run, where, allow_code=allowed))
        for fold in trained
    ]
    description = f"judged by {plan.count} models ({recipe.name}) that had not seen them"
    split = "train" if origins is None else EVERY
    judged = opened if origins is None else judged
    return Judges(judged, whole, parts, None, description, where, split, origins)
