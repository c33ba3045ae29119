"""The folder is the registry: `methods/vsepp.py` is the method called "vsepp".

There is no table to edit and no decorator to remember. Adding a method, loss or
backbone is adding one file whose `build` function has typed keyword arguments; those
arguments *are* its configuration.

A dotted name is a Python module outside Avow, and importing it runs its code. It is imported
only where the caller passes `allow_code`: for names that the user typed, or after the user
allowed the code of a saved model. Names read from files are looked up here without it.
"""

import difflib
import importlib
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

from avow.core.errors import BadRecipe, CodeNotAllowed, UnknownName

AllowCode = bool | Collection[str]
"""Which modules outside Avow may be imported: any, none, or those of these names."""
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_LONGEST = 200


def names(package: ModuleType) -> list[str]:
    """The public modules of `package`, without importing any of them."""
    modules = pkgutil.iter_modules(package.__path__)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def find(package: ModuleType, name: str, *, allow_code: AllowCode = False) -> ModuleType:
    """The module of `package` called `name`; a dotted name only with `allow_code`."""
    if len(name) > _LONGEST:
        raise BadRecipe(
            f"The name {shortened(name)} cannot be read. Expected the name of one of: "
            f"{', '.join(names(package))}."
        )
    if "." in name:
        return _outside(package, name, allow_code)
    if name not in names(package):
        raise UnknownName(_title(package), name, names(package))
    return importlib.import_module(f"{package.__name__}.{name}")


def settings(
    package: ModuleType, name: str, *, allow_code: AllowCode = False
) -> dict[str, inspect.Parameter]:
    """The settings of the part called `name`: the parameters of its `build`."""
    module: Any = find(package, name, allow_code=allow_code)
    return dict(inspect.signature(module.build).parameters)


def check(
    package: ModuleType, name: str, chosen: Mapping[str, Any], *, allow_code: AllowCode = False
) -> None:
    """Refuse a setting the part called `name` does not have, or of the wrong type."""
    allowed = settings(package, name, allow_code=allow_code)
    where = f"{name!r} in {_title(package)}"
    for key, value in chosen.items():
        if key not in allowed:
            raise BadRecipe(unknown_setting(where, key, list(allowed)))
        check_type(f"{key} of {where}", value, allowed[key].annotation)


def build(package: ModuleType, name: str, /, **chosen: Any) -> Any:
    """Build a part of Avow's own; it may have a setting called "name" itself."""
    return make(package, name, chosen)


def make(
    package: ModuleType, name: str, chosen: Mapping[str, Any], *, allow_code: AllowCode = False
) -> Any:
    """Build the part called `name` with the settings `chosen`."""
    check(package, name, chosen, allow_code=allow_code)
    module: Any = find(package, name, allow_code=allow_code)
    return module.build(**chosen)


def is_module(name: str) -> bool:
    """Whether `name` is spelt like a Python module inside a package."""
    return _MODULE.fullmatch(name) is not None


def shortened(value: Any, most: int = 80) -> str:
    """A value from a file as a message can quote it."""
    # a list in a list in a list ... has no `repr`, and that of a long one takes long
    text = f"of type {type(value).__name__}" if isinstance(value, list | dict) else repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _outside(package: ModuleType, name: str, allow_code: AllowCode) -> ModuleType:
    if not is_module(name):
        raise BadRecipe(
            f"The name {name!r} is neither one of {_title(package)} nor a Python module. "
            f"Expected one of: {', '.join(names(package))}; or a dotted name such as "
            "package.module."
        )
    if not (allow_code if isinstance(allow_code, bool) else name in allow_code):
        raise CodeNotAllowed(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BadRecipe(
            f"The module {name!r} cannot be imported ({error}). A dotted name is "
            "a Python module with a `build` function; install it or check its "
            "spelling."
        ) from error


def unknown_setting(where: str, key: str, allowed: Sequence[str]) -> str:
    """The sentence for a key that `where` does not have."""
    near = difflib.get_close_matches(key[:_LONGEST], allowed, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(allowed) or "none"
    return f"{where} has no setting {shortened(key)}.{hint} It has: {listed}."


def check_type(label: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of the annotated type; whole numbers pass as floats."""
    if typing.get_origin(kind) is typing.Literal:
        if value not in typing.get_args(kind):
            listed = ", ".join(repr(choice) for choice in typing.get_args(kind))
            raise BadRecipe(f"{label} is {shortened(value)}. Expected one of: {listed}.")
        return
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if not any(_is_a(value, option) for option in kinds):
        title = " or ".join(getattr(option, "__name__", str(option)) for option in kinds)
        raise BadRecipe(f"{label} is {shortened(value)}. Expected a value of type {title}.")


def _is_a(value: Any, kind: Any) -> bool:
    if not isinstance(kind, type):
        return True
    if isinstance(value, bool) and kind is not bool:
        return kind is object
    return isinstance(value, (int, float) if kind is float else kind)


def _title(package: ModuleType) -> str:
    return package.__name__.rpartition(".")[2]
