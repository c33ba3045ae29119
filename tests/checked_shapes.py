"""Type checks of the package under test, without the cost of shapes where there are none.

jaxtyping binds and checks the arguments of every call twice, to compare shapes. That is half
the time of many tests, and most functions have no shape in their signature: they are checked
by beartype alone. `conftest` installs this before the package is imported.
"""

from collections.abc import Callable
from functools import partial
from inspect import isclass, isfunction
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

_with_shapes = jaxtyping.jaxtyped
_without_shapes = beartype(conf=BeartypeConf(violation_type=TypeError))  # as jaxtyping's is


def install() -> None:
    """Put `checked` in the place of the decorator that jaxtyping's import hook applies."""
    jaxtyping.jaxtyped = checked


def checked(subject: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """A function or class whose annotations are checked when it is called."""
    if subject is None:
        return partial(checked, typechecker=typechecker)
    if isfunction(subject) and not any(map(may_have_shape, subject.__annotations__.values())):
        return _without_shapes(subject) if subject.__annotations__ else subject
    return _with_shapes(subject, typechecker=typechecker)


def may_have_shape(annotation: Any) -> bool:
    """Whether an array with a shape is part of it; strings may stand for anything."""
    if isinstance(annotation, str | ForwardRef):
        return True
    if isinstance(annotation, list | tuple):  # the arguments of a Callable
        return any(map(may_have_shape, annotation))
    if isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    if get_origin(annotation) is Literal:
        return False
    return any(map(may_have_shape, get_args(annotation)))
