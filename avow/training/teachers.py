"""Write what a trained model knows of its training split, for the loss `teachtext`.

    write_teacher(Model.from_pretrained("runs/first"), train, Path("teachers/first.npz"))

A teacher's similarity must be a dot product of one vector per item: of methods that compare
vectors, and of `ce`, whose vectors are those of its experts one after the other. Of several
views the vectors stand side by side too, so that their similarities are averaged.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from avow.assembly.evaluate import encode_captions
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scores import Blocks, batches, encode
from avow.core.contracts import Encoded, Method, VectorMethod
from avow.core.errors import BadRecipe
from avow.data.captions import TokenTable
from avow.methods.ce import CollaborativeExperts


def write_teacher(
    model: Model, train: FeaturedSplit, path: Path, blocks: Blocks | None = None
) -> None:
    """The vectors of every video and every caption of the training split, as one .npz."""
    blocks = blocks or Blocks()
    table = TokenTable.from_captions(model.tokeniser, train.captions)
    videos, texts = [], []
    for view in model.views:
        _check(view, model.recipe.method["name"])
        view.eval()
        seen = (train.regions(part) for part in batches(len(train.rows), blocks.encode))
        videos.append(_vectors(encode(view.encode_visual, seen, model.device)))
        texts.append(_vectors(encode_captions(view, table, model.device, blocks.encode)))
    # the dot product of both is divided by the number of views
    scale = len(model.views) ** -0.5
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        videos=(scale * np.concatenate(videos, 1)).astype(np.float16),
        texts=(scale * np.concatenate(texts, 1)).astype(np.float16),
        video_of=train.image_of,
    )


def _vectors(encoded: Encoded) -> Float[np.ndarray, "items dim"]:
    return encoded.parts.flatten(1).numpy()


def _check(view: Method, name: str) -> None:
    if not isinstance(view, VectorMethod | CollaborativeExperts):
        raise BadRecipe(
            f"The method {name!r} compares parts, and a teacher needs one vector per item. "
            "Expected a run of a method that compares vectors, or of 'ce'."
        )
