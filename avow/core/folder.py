"""The folder is the registry: `methods/vsepp.py` is the method called "vsepp".

There is no table to edit and no decorator to remember. Adding a method, loss or
backbone is adding one file whose `build` function has typed keyword arguments; those
arguments *are* its configuration.
"""

import difflib
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from avow.core.errors import BadRecipe, UnknownName


def names(package: ModuleType) -> list[str]:
    """The public modules of `package`, without importing any of them."""
    found = pkgutil.iter_modules(package.__path__)
    return sorted(module.name for module in found if not module.name.startswith("_"))


def find(package: ModuleType, name: str) -> ModuleType:
    """The module called `name`; a dotted name reaches outside this package."""
    if "." in name:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise BadRecipe(
                f"The module {name!r} cannot be imported ({error}). A dotted name is "
                "a Python module with a `build` function; install it or check its "
                "spelling."
            ) from error
    if name not in names(package):
        raise UnknownName(_title(package), name, names(package))
    return importlib.import_module(f"{package.__name__}.{name}")


def settings(package: ModuleType, name: str) -> dict[str, inspect.Parameter]:
    """What the part called `name` can be told, from the signature of its `build`."""
    return dict(inspect.signature(find(package, name).build).parameters)


def check(package: ModuleType, name: str, chosen: Mapping[str, Any]) -> None:
    """Refuse a setting the part called `name` does not have, or of the wrong type."""
    allowed = settings(package, name)
    where = f"{name!r} in {_title(package)}"
    for key, value in chosen.items():
        if key not in allowed:
            raise BadRecipe(unknown_setting(where, key, list(allowed)))
        check_type(f"{key} of {where}", value, allowed[key].annotation)


def build(package: ModuleType, name: str, /, **chosen: Any) -> Any:
    """Build the part called `name`; it may have a setting called "name" itself."""
    check(package, name, chosen)
    return find(package, name).build(**chosen)


def unknown_setting(where: str, key: str, known: Sequence[str]) -> str:
    """The sentence for a key that `where` does not have."""
    near = difflib.get_close_matches(key, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(known) or "none"
    return f"{where} has no setting {key!r}.{hint} It has: {listed}."


def check_type(label: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of the annotated type; whole numbers pass as floats."""
    if typing.get_origin(kind) is typing.Literal:
        if value not in typing.get_args(kind):
            listed = ", ".join(repr(choice) for choice in typing.get_args(kind))
            raise BadRecipe(f"{label} is {value!r}. Expected one of: {listed}.")
        return
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if not any(_is_a(value, option) for option in kinds):
        title = " or ".join(getattr(option, "__name__", str(option)) for option in kinds)
        raise BadRecipe(f"{label} is {value!r}. Expected a value of type {title}.")


def _is_a(value: Any, kind: Any) -> bool:
    if not isinstance(kind, type):
        return True
    if isinstance(value, bool) and kind is not bool:
        return kind is object
    return isinstance(value, (int, float) if kind is float else kind)


def _title(package: ModuleType) -> str:
    return package.__name__.rpartition(".")[2]
