"""Which device to use when nobody says."""

import torch


def best_device() -> str:
    """A CUDA device, else Apple's, else the processor."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
