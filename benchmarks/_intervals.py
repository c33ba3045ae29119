"""How well a share is known that was counted."""

import math

Z = 1.96
"""Of 95 %, for a normal distribution."""


def wilson(share: float, count: float) -> tuple[float, float]:
    """The ends of Wilson's 95 % interval; it has a width also where all or none count."""
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    spread = math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    half = Z * spread / (1 + Z**2 / count)
    return middle - half, middle + half
