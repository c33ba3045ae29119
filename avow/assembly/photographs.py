"""A few photographs, straight to what a method takes: no store, no dataset."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from avow.assembly.features import LARGEST, cell_boxes, pooled
from avow.assembly.pairs import whole
from avow.core.contracts import Backbone, Regions
from avow.core.errors import BadData

_AT_ONCE = 64


def open_photograph(path: Path) -> Image.Image:
    """A photograph, decoded; a file that is none is named."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            photograph = Image.open(path)
            if photograph.width * photograph.height > LARGEST:
                raise ValueError(f"more than {LARGEST} pixels")
            photograph.load()
            return photograph
    except Exception as error:  # decoders of broken files raise almost anything
        raise BadData(
            f"The photograph {str(path)!r} cannot be read ({error}). Expected an image "
            "file such as JPEG or PNG; check the path and the file."
        ) from error


@torch.inference_mode()
def grid_regions(
    backbone: Backbone,
    photographs: Sequence[Image.Image],
    grid: int,
    device: torch.device | str,
) -> Regions:
    """Grid cells of photographs, rounded as stored features are."""
    parts = []
    for start in range(0, len(photographs), _AT_ONCE):
        some = photographs[start : start + _AT_ONCE]
        pixels = torch.from_numpy(np.stack([backbone.prepare(one) for one in some]))
        cells = pooled(backbone(pixels.to(device)), grid, backbone.identity)
        parts.append(cells.half().float().cpu())
    return whole(torch.cat(parts), cell_boxes(grid)[None])
