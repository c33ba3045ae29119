"""From a photograph to a square of bytes, the same way for every pixel network."""

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps


def stretched(
    photograph: Image.Image,
    size: int,
    resample: Image.Resampling = Image.Resampling.BICUBIC,
) -> UInt8[np.ndarray, "size size 3"]:
    """The whole photograph upright, in RGB, stretched to `size` x `size`.

    Stretching rather than cropping loses no content, and a grid cell stays a
    rectangle of the photograph. A JPEG much larger than needed is decoded at a
    fraction of its resolution, never below twice the size asked for.
    """
    photograph.draft("RGB", (2 * size, 2 * size))
    upright = ImageOps.exif_transpose(photograph)
    if upright.mode != "RGB":
        upright = upright.convert("RGB")
    return np.array(upright.resize((size, size), resample))
