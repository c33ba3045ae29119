"""ONNX Runtime, without its reports to its maker.

Since version 1.29 the wheels of ONNX Runtime note each process and model, give the machine an
identifier, and send both away. What somebody searches for concerns nobody, so Avow turns that
off before the library is loaded; ORT_DISABLE_TELEMETRY=0 in the environment leaves it on.
"""

import os
from types import ModuleType


def onnxruntime() -> ModuleType:
    """The library, loaded when it is first needed. Raises ModuleNotFoundError."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime as library

    return library
