"""The networks that come with Avow, opened once a process: each opening takes half a second.

Their checksums are compared before every opening of an ONNX file all the same.
"""

import copy
import hashlib
import sys
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np

from avow.retrieval.encoders import onnx

TESTED = ("test_onnx_encoder", "test_default_model")
"""Where the networks themselves are tested, and opened as ever."""
SHIPPED = Path(onnx.__file__).parents[2] / "weights"
_opened = onnx._opened


class Remembering:
    """A network that is run once for the same input: many tests index the same photographs.

    A photograph has the vector it has alone, whatever it comes with; test_onnx_encoder.py sees
    to that.
    """

    def __init__(self, session: Any):
        self._session = session
        self._known: dict[bytes, np.ndarray] = {}

    def run(self, names: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        whole = "pixels" not in inputs or len(inputs["present"]) > 1
        parts = (
            [inputs] if whole else [inputs | {"pixels": one[None]} for one in inputs["pixels"]]
        )
        return [np.concatenate([self._one(part) for part in parts])]

    def _one(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        digest = hashlib.sha256()
        for name, array in sorted(inputs.items()):
            digest.update(f"{name} {array.shape}".encode() + array.tobytes())
        key = digest.digest()
        if key not in self._known:
            self._known[key] = np.asarray(self._session.run(None, inputs)[0])
        return self._known[key]


@cache
def _once(path: Path, threads: int) -> Remembering:
    return Remembering(_opened(path, threads))


def opened(path: Path, threads: int) -> Any:
    """In the place of `onnx._opened`; networks elsewhere may have been changed by a test.

    One with threads of its own is opened anew, and closed: no other test forks beside them.
    """
    kept = threads == 1 and path.is_relative_to(SHIPPED)
    return (_once if kept else _opened)(path, threads)


def open_models_once(patch: Any) -> None:
    """Give a copy of the shipped model to whoever opens it with torch, if anybody can."""
    if (module := sys.modules.get("avow.assembly.model")) is None:
        return
    open_model = module.Model.from_pretrained

    @wraps(open_model)
    def opened_model(run: str | Path, device: str = "cpu", **about: Any) -> Any:
        if (str(run), device) != ("default", "cpu") or Path(run).exists():
            return open_model(run, device, **about)
        return copy.deepcopy(_shipped_model(module.Model))

    patch.setattr(module.Model, "from_pretrained", staticmethod(opened_model))


@cache
def _shipped_model(model: Any) -> Any:
    return model.from_pretrained.__wrapped__("default")
