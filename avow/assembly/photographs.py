"""A few photographs, straight to what a method takes: no store, no dataset."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Num
from PIL import Image

from avow.assembly.features import cell_boxes, pooled
from avow.assembly.pairs import whole
from avow.core.contracts import Backbone, Regions
from avow.core.photographs import open_photograph as open_photograph

_AT_ONCE = 64


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
    return whole(torch.cat(parts), cell_boxes(grid)[None])
