"""Systems for videos, which Avow does not have yet."""

from collections.abc import Iterator

from parity_systems._claims import Claim, not_yet
from parity_systems._oracle import Oracle

PREFIXES = ("ce_",)


def recompute(oracle: Oracle) -> Iterator[Claim]:
    return not_yet([*oracle.arrays, *oracle.states], "videos")
