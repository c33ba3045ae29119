"""Floor 4: from a recipe and features to trained weights."""

from avow.core.renamed import Moved, keep_old_paths

keep_old_paths(
    __name__,
    {
        "cleaning": Moved("avow.training.sifting"),
        "course": Moved("avow.training.setup"),
        "learnt": Moved("avow.training.trained_pairs"),
    },
)
