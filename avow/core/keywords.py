"""Functions of one settings object, called with the fields of the object as keywords.

Methods share most of their settings. A dataclass can inherit fields and a signature cannot, so
the settings are a frozen dataclass, and `build` takes its fields as typed keywords:

    build = with_keywords(Settings, make)
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_Fields = ParamSpec("_Fields")
_Settings = TypeVar("_Settings")
_Made = TypeVar("_Made")


def with_keywords(
    kind: Callable[_Fields, _Settings], make: Callable[[_Settings], _Made]
) -> Callable[_Fields, _Made]:
    """`make` as a function of the fields of `kind`, with their types and defaults."""

    @functools.wraps(make)
    def build(*args: _Fields.args, **chosen: _Fields.kwargs) -> _Made:
        return make(kind(*args, **chosen))

    built: Any = build
    built.__signature__ = inspect.signature(kind)
    return build
