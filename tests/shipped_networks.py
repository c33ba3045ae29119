"""The networks that come with Avow, opened once a process: each opening takes half a second.

Their checksums are compared before every opening all the same.
"""

from functools import cache
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
