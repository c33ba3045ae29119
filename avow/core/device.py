"""Which device to use, and how much of its memory was needed."""

import sys

import torch

from avow.core.errors import NoDevice


def chosen_device(name: str) -> str:
    """`name`, if that device can be used; the best device if `name` is empty."""
    if not name:
        return best_device()
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        message = str(error).splitlines()[0]
        raise NoDevice(
            f"The device {name!r} cannot be used ({message}). Expected one of this machine, "
            f"such as {best_device()!r}; change --device, or leave it out."
        ) from error
    return name


def best_device() -> str:
    """A CUDA device, else Apple's, else the processor."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def multiplies_bf16(device: torch.device | str) -> bool:
    """Whether the device has products of bfloat16; without them they take ages."""
    if torch.device(device).type != "cpu":
        return True
    return torch.backends.mkldnn.is_available() and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def most_memory(device: torch.device | str) -> int | None:
    """The most bytes this program ever held on a device; None where nobody counts them.

    On CUDA what was taken from the device, recorded graphs and unused rests included.
    """
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * getrusage(RUSAGE_SELF).ru_maxrss
