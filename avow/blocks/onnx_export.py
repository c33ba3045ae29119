"""The same network on a processor, several times faster: exported once, run by onnxruntime.

The export is kept under AVOW_HOME, named after the weights and the input size, and made
again where it is missing. Without the packages `onnx` and `onnxruntime` nothing changes.
"""

import importlib.util
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from avow.core.files import room_needed
from avow.core.onnx import onnxruntime
from avow.core.places import avow_home

Run = Callable[..., Tensor]
"""What the network takes, to what it gives."""
_PACKAGES = ("onnx", "onnxruntime")


def quick(network: nn.Module, name: str, size: int) -> Run | None:
    """A faster way to run a network of pixels, or None where there is none.

    name: changes whenever the weights do.
    """
    path = avow_home() / "backbones" / f"{name}-{size}px.onnx"
    pixels = torch.zeros(2, 3, size, size)
    return exported(network, path, {"pixels": pixels}, {0: "items"})


def exported(
    network: nn.Module, path: Path, given: dict[str, Tensor], free: dict[int, str]
) -> Run | None:
    """`network` run by onnxruntime from the file `path`, which is made where it is missing.

    given: what it takes, by name, as an example. free: which axes of that may have any
    length; of what comes out, the first.
    """
    if any(importlib.util.find_spec(package) is None for package in _PACKAGES):
        return None
    try:
        if not path.is_file():
            _export(network, path, given, free)
        return _session(path, list(given))
    except Exception as error:  # whatever it is, the slower way still works
        logging.getLogger(__name__).warning("onnxruntime is of no use here: %s", error)
        return None


def _export(
    network: nn.Module, path: Path, given: dict[str, Tensor], free: dict[int, str]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with room_needed(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing grumbles about shapes that never change
        try:
            torch.onnx.export(
                network.eval(),
                tuple(given.values()),
                str(fresh),
                input_names=list(given),
                output_names=["made"],
                dynamic_axes={**dict.fromkeys(given, free), "made": {0: "items"}},
                dynamo=False,
            )
            os.replace(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)


def _session(path: Path, names: list[str]) -> Run:
    library = onnxruntime()
    options = library.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    # a thread that waits must leave its core to those that decode photographs
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(*given: Tensor) -> Tensor:
        ready = [np.ascontiguousarray(tensor.numpy()) for tensor in given]
        return torch.from_numpy(session.run(None, dict(zip(names, ready, strict=True)))[0])

    return run
