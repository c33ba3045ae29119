"""Values of options that need no conversion, without the library that typer converts with.

Newer versions of typer make a validator of pydantic for every option of a command, typed or
not. Importing it and making them takes a sixth of a cold search.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup

_CONVERTER = "_runtime_param"
"""Where typer keeps how a parameter is converted; None until it is first needed."""
_CHECKS = ("exists", "resolve_path", "writable", "allow_dash")


def _take_plainly(parameters: Iterable[Any]) -> None:
    """Texts, readable paths and defaults as they are; all else is converted by typer itself.

    So is everything by a typer that keeps its converters elsewhere.
    """
    for parameter in parameters:
        if getattr(parameter, _CONVERTER, ...) is None:
            setattr(parameter, _CONVERTER, _AsTyped())


class PlainCommand(TyperCommand):
    """A command whose plain values are not converted."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What is left of the arguments behind the options."""
        _take_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


class PlainGroup(TyperGroup):
    """A program whose own options are not converted either."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What is left of the arguments: the command and all of its own."""
        _take_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)


class _AsTyped:
    """In the place of typer's converter until a value comes that must be converted."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs != 1
        source = ctx.get_parameter_source(param.name)
        if not several and source is not None and source.name == "DEFAULT":
            return value
        about = param.type_descriptor
        wanted = {*(get_args(about.annotation) or [about.annotation])} - {NoneType}
        if not several and isinstance(value, str) and wanted == {str}:
            return value
        if not several and isinstance(value, str) and wanted == {Path}:
            checked = any(getattr(about.parameter_info, name) for name in _CHECKS)
            if not checked and "\0" not in value and os.access(value, os.R_OK):
                return Path(value)
        setattr(param, _CONVERTER, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
