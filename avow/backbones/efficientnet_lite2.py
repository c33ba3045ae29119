"""EfficientNet-Lite2: 6.1 million parameters, at home at 260 pixels (9x9 cells)."""

from avow.backbones._efficientnet_lite import EfficientNetLite, build_lite


def build(size: int = 260, channels_last: bool = True) -> EfficientNetLite:
    """size: pixels per side of the stretched photograph; one cell per 32 of them.

    channels_last: memory layout; a matter of speed, not of the features.
    """
    return build_lite(2, size, channels_last)
