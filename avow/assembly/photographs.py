"""A few photographs, straight to what a method takes: no store, no dataset."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Num
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


def prepared(
    backbone: Backbone, photographs: Sequence[Image.Image]
) -> Num[np.ndarray, "photographs ..."]:
    """What a backbone takes, on the host."""
    return np.stack([backbone.prepare(one) for one in photographs])


def grid_regions(
    backbone: Backbone,
    photographs: Sequence[Image.Image],
    grid: int,
    device: torch.device | str,
) -> Regions:
    """Grid cells of photographs, rounded as stored features are."""
    return pixel_regions(backbone, prepared(backbone, photographs), grid, device)


@torch.inference_mode()
def pixel_regions(
    backbone: Backbone,
    pixels: Num[np.ndarray, "photographs ..."],
    grid: int,
    device: torch.device | str,
) -> Regions:
    """The same of photographs that were prepared before."""
    parts = []
    for start in range(0, len(pixels), _AT_ONCE):
        batch = torch.from_numpy(pixels[start : start + _AT_ONCE]).to(device)
        cells = pooled(backbone(batch), grid, backbone.identity)
        parts.append(cells.half().float().cpu())
    return whole(torch.cat(parts), cell_boxes(grid))
