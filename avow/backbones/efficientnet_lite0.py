"""EfficientNet-Lite0: 4.7 million parameters, at home at 224 pixels (7x7 cells)."""

from avow.backbones._efficientnet_lite import EfficientNetLite, build_lite


def build(size: int = 224, channels_last: bool = True) -> EfficientNetLite:
    """size: pixels per side of the stretched photograph; one cell per 32 of them.

    channels_last: memory layout; a matter of speed, not of the features.
    """
    return build_lite(0, size, channels_last)
