"""Paths and names of an earlier version: they work for one more, with a DeprecationWarning.

    keep_old_paths("avow.trust", {"sight": Moved("avow.trust.top_k", {"Sight": "TopKSummary"})})

lets `from avow.trust.sight import Sight` find what is now `avow.trust.top_k.TopKSummary`.
A package calls it once in its `__init__`; no old file has to stay. For names that changed
inside a module, `__getattr__ = renamed(__name__, {"Old": "New"})`.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Moved:
    """Where a module is now, and which of its names have changed."""

    module: str
    names: Mapping[str, str] = field(default_factory=dict)
    """New names by old ones; with a path, if they live in yet another module."""

    def find(self, name: str) -> tuple[str, Any]:
        """The full new name of `name`, and what it is."""
        new = self.names.get(name, name)
        path = new if "." in new else f"{self.module}.{new}"
        module, _, last = path.rpartition(".")
        return path, getattr(import_module(module), last)


class _OldPath(ModuleType):
    """Stands in for a module that has moved; loads the new one when a name is read."""

    def __init__(self, path: str, moved: Moved):
        super().__init__(path, f"Moved to `{moved.module}`.")
        self._moved = moved

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by Python itself, of every module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path, value = self._moved.find(name)
        _warn(f"{self.__name__}.{name}", path)
        return value


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that gives old names, which have become others of `names`."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(module), names[name])
        _warn(f"{module}.{name}", f"{module}.{names[name]}")
        return value

    return find


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"'{old}' is deprecated and will be removed in the next version; use '{new}'.",
        DeprecationWarning,
        stacklevel=3,
    )


def keep_old_paths(package: str, moved: Mapping[str, Moved]) -> None:
    """Make the old module names of `package` importable. Loads none of the new modules."""
    parent = sys.modules[package]
    for name, where in moved.items():
        path = f"{package}.{name}"
        sys.modules[path] = _OldPath(path, where)
        if name not in getattr(parent, "__all__", ()):  # a public name of today is not hidden
            setattr(parent, name, sys.modules[path])
