"""Make a run repeatable: one number in, the same run out.

Every random draw of training is a function of (seed, step, purpose), never of what was
drawn before it. So a run that was killed continues as if nothing had happened, without
saving the state of any generator.
"""

import hashlib
import random

import numpy as np
import torch


def mix(*parts: int | str) -> int:
    """One 63-bit seed from several numbers or words, the same on every machine."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_everything(*parts: int | str) -> None:
    """Seed Python, numpy and torch (every device) from `parts`."""
    seed = mix(*parts)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def generator(*parts: int | str) -> torch.Generator:
    """A CPU generator of its own, seeded from `parts`."""
    return torch.Generator().manual_seed(mix(*parts))
