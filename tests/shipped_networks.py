"""The networks that come with Avow, opened once a process: each opening takes half a second.

Their checksums are compared before every opening of an ONNX file all the same.
"""

import copy
import sys
from functools import cache, wraps
from pathlib import Path
from typing import Any

from avow.retrieval.encoders import onnx

TESTED = ("test_onnx_encoder", "test_default_model")
"""Where the networks themselves are tested, and opened as ever."""
SHIPPED = Path(onnx.__file__).parents[2] / "weights"
_opened = onnx._opened
_once = cache(_opened)


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
