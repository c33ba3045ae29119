"""Read a published checkpoint without running anything that is inside it.

Published systems save a pickle: a dictionary with the states of their networks, and the
options of the command line as an `argparse.Namespace`. A pickle can name any function of
any installed module to be called. Here `torch.load` calls none but its own for tensors and
those of the short list below; a file that names anything else is refused.
"""

import argparse
import pickle
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import safe_globals

from avow.core.errors import WrongCheckpoint

LARGEST = 4 * 2**30  # bytes of a file, and of all its tensors
MOST_TENSORS = 20_000
DEEPEST = 20
"""Lists and dictionaries inside each other; published checkpoints have up to five."""
MOST_ENTRIES = 1_000_000
"""Entries of all lists and dictionaries together, each counted as often as it is reached."""
_OPTIONS = ("opt", "args")
_NOT_MODELS = ("optimizer", "optim", "optimizer_state_dict")
_NUMBERS = {"b1": "?", "i4": "i", "i8": "q", "u1": "B", "f4": "f", "f8": "d"}
_ORDERS = {"<": "<", ">": ">", "=": "=", "|": "<"}


@dataclass(frozen=True)
class Published:
    """What a checkpoint holds."""

    models: dict[str, Any]
    """Every entry that has tensors, as saved: a state, or lists of states."""
    options: dict[str, Any]
    """The command line it was trained with."""


def read_checkpoint(path: Path) -> Published:
    """The networks and options in the file `path`."""
    _check_size(path)
    content = _load(path)
    if not isinstance(content, dict):
        raise _not_one(path, f"it holds a {type(content).__name__!r}")
    _check_nesting(path, content)
    options = next((content[key] for key in _OPTIONS if key in content), None)
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    if not isinstance(options, dict):
        raise _not_one(path, "it has no options under 'opt'")
    _check_nesting(path, options)
    models = {
        str(key): _plain(value)
        for key, value in content.items()
        if key not in (*_OPTIONS, *_NOT_MODELS) and any(True for _ in tensors(value))
    }
    _check_tensors(path, models)
    return Published(models, {str(key): value for key, value in options.items()})


def tensors(content: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor inside nested lists and dictionaries, with the way to it."""
    if isinstance(content, Tensor):
        yield name, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from tensors(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from tensors(value, f"{name}[{place}]")


def _load(path: Path) -> Any:
    allowed: list[Any] = [
        argparse.Namespace,
        (_Kind, "numpy.dtype"),
        (_number, "numpy.core.multiarray.scalar"),
        (_number, "numpy._core.multiarray.scalar"),
    ]
    try:
        with safe_globals(allowed):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (?:builtins\.)?(\S+)", str(error))
        if named is None:
            raise _not_one(path, "it cannot be read") from None
        raise WrongCheckpoint(
            f"The checkpoint {str(path)!r} holds a {named[1]!r}, and reading it could run "
            "code that came with the file. Expected tensors, plain numbers and an "
            "argparse.Namespace. Save it without that object where you trust its origin."
        ) from None
    except Exception as error:  # a broken file can fail at any point of the reading
        raise _not_one(path, f"reading it ends in {type(error).__name__}") from error


class _Kind:
    """Stands where a pickle says `numpy.dtype`: plain numbers, and nothing else."""

    def __init__(self, code: str = "", *_: object):
        if code not in _NUMBERS:
            raise pickle.UnpicklingError("GLOBAL numpy.dtype was not allowed")
        self.code, self.order = _NUMBERS[code], "<"

    def __setstate__(self, state: Any) -> None:
        self.order = _ORDERS[state[1]]


def _number(kind: Any, content: Any = b"") -> float | int | bool:
    """Stands where a pickle says `numpy.core.multiarray.scalar`."""
    if not (isinstance(kind, _Kind) and isinstance(content, bytes)):
        raise pickle.UnpicklingError("GLOBAL numpy.core.multiarray.scalar was not allowed")
    return struct.unpack(kind.order + kind.code, content)[0]


def _plain(content: Any) -> Any:
    """The same without the prefix that parallel training puts before every name."""
    if isinstance(content, Mapping):
        return {str(key).removeprefix("module."): _plain(v) for key, v in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return content


def _check_size(path: Path) -> None:
    if not path.is_file():
        raise WrongCheckpoint(
            f"There is no checkpoint {str(path)!r}. Expected a file saved by a published "
            "system, such as model_best.pth.tar. Check the path."
        )
    size = path.stat().st_size
    if zipfile.is_zipfile(path):  # what is packed may be larger than the file
        try:
            with zipfile.ZipFile(path) as packed:
                size = max(size, sum(entry.file_size for entry in packed.infolist()))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error):
            raise _not_one(path, "it is cut short or damaged") from None
    if size > LARGEST:
        raise _too_large(path, size)


def _check_nesting(path: Path, content: Any) -> None:
    """Refuse what would take too long to walk through, or forever.

    In a pickle one list may stand in many places, itself included: ten lists of ten times
    the next one are few bytes and ten thousand million entries.
    """
    count = 0
    level = [content]
    for _ in range(DEEPEST):
        level = [entry for nested in level for entry in _entries(nested)]
        count += len(level)
        if count > MOST_ENTRIES:
            raise _not_one(path, f"it has more than {MOST_ENTRIES:,} entries")
        level = [entry for entry in level if isinstance(entry, Mapping | list | tuple)]
        if sum(map(len, level)) > MOST_ENTRIES:
            raise _not_one(path, f"it has more than {MOST_ENTRIES:,} entries")
    if level:
        raise _not_one(path, f"its lists are nested more than {DEEPEST} deep")


def _entries(nested: Any) -> Iterator[Any]:
    return iter(nested.values() if isinstance(nested, Mapping) else nested)


def _check_tensors(path: Path, models: dict[str, Any]) -> None:
    named_tensors = list(tensors(models))
    if not named_tensors:
        raise _not_one(path, "it has no networks")
    if len(named_tensors) > MOST_TENSORS:
        raise _not_one(path, f"it has {len(named_tensors)} tensors")
    # a small storage may be stretched to any shape, so shapes are counted, not storages
    size = sum(tensor.numel() * tensor.element_size() for _, tensor in named_tensors)
    if size > LARGEST:
        raise _too_large(path, size)
    for name, tensor in named_tensors:
        dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not dense or tensor.is_quantized or tensor.is_complex():
            raise _not_one(path, f"its tensor {name!r} is no plain array of numbers")
        if not torch.isfinite(tensor).all():
            raise _not_one(path, f"its tensor {name!r} holds NaN or infinite numbers")


def _not_one(path: Path, why: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The file {str(path)!r} is no checkpoint that can be imported: {why}. Expected a "
        "dictionary with the states of networks and their options, saved by torch. "
        "Download it again, or name another file."
    )


def _too_large(path: Path, size: int) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The checkpoint {str(path)!r} takes {size / 2**30:.1f} GB. Expected at most "
        f"{LARGEST / 2**30:.0f} GB. Save it again without what is no network."
    )
