"""EfficientNet-Lite1: 5.4 million parameters, at home at 240 pixels (8x8 cells)."""

from avow.backbones._efficientnet_lite import EfficientNetLite, build_lite


def build(size: int = 240, channels_last: bool = True) -> EfficientNetLite:
    """size: pixels per side of the stretched photograph; one cell per 32 of them.

    channels_last: memory layout; a matter of speed, not of the features.
    """
    return build_lite(1, size, channels_last)
