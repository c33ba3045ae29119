"""Which stored features a recipe reads: those named, those in the usual place, or finer ones.

A store with more cells per side than a recipe asks for serves it too, where they can be taken
together: 6 x 6 cells are 2 x 2 blocks of nine.
"""

from pathlib import Path

from avow.assembly.features import default_folder
from avow.assembly.recipe import Features, Recipe
from avow.core.errors import BadFeatures
from avow.data.coarse import coarser
from avow.data.features import FeatureStore

FINEST = 24
"""Cells per side up to which a finer store is looked for."""


def open_store(
    recipe: Recipe, dataset: str, where: Path | None, weights: str = ""
) -> FeatureStore:
    """The features of `dataset` for a recipe that wants some: `where`, or their usual place.

    weights: fingerprint of the backbone's weights where the model brings its own.
    """
    wanted = recipe.features
    assert wanted is not None, "the recipe asks for features"
    store = FeatureStore.open(where or _usual(recipe, dataset, weights))
    fine = store.manifest["grid"]
    divides = fine > wanted.grid and fine % wanted.grid == 0
    return coarser(store, wanted.grid) if divides else store


def features_label(wanted: Features, weights: str = "") -> str:
    """What tells the features of a backbone apart, in the name of their folder."""
    return f"{wanted.label}-{weights}" if weights else wanted.label


def _usual(recipe: Recipe, dataset: str, weights: str) -> Path:
    wanted = recipe.features
    assert wanted is not None
    grids = range(wanted.grid, FINEST + 1, wanted.grid)
    label = features_label(wanted, weights)
    places = [default_folder(dataset, label, wanted.size, grid) for grid in grids]
    for folder in places:
        if folder.exists():
            return folder
    if weights:
        raise BadFeatures(
            f"There are no features for {recipe.name!r} in {str(places[0])!r}. Expected those "
            "of the backbone that the run brings; make them with: avow features "
            f"{recipe.data['name']} --run RUN, where RUN is its folder or 'default'."
        )
    named = "".join(f" --{key} {value}" for key, value in wanted.settings.items())
    raise BadFeatures(
        f"There are no features for {recipe.name!r} in {str(places[0])!r}. Expected those "
        f"of its backbone; make them with: avow features {recipe.data['name']} "
        f"--backbone {wanted.backbone} --size {wanted.size} --grid {wanted.grid}{named}"
    )
