"""Type checks of the package under test, each made once.

jaxtyping binds and checks the arguments of every call twice, for longer messages. That is a
third of the time of many tests. Here beartype checks arguments and result once, in a context
where the names of axes are bound; a function without a shape in its signature needs no such
context. `conftest` installs this before the package is imported.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from inspect import isclass, isfunction, isgeneratorfunction
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

_jaxtyped = jaxtyping.jaxtyped
_check = beartype(conf=BeartypeConf(violation_type=TypeError))  # as jaxtyping's is


def install() -> None:
    """Put `checked` in the place of the decorator that jaxtyping's import hook applies."""
    jaxtyping.jaxtyped = checked


def checked(subject: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """A function or class whose annotations are checked when it is called."""
    if subject is None:
        return partial(checked, typechecker=typechecker)
    if isclass(subject) and is_dataclass(subject) and isfunction(vars(subject).get("__init__")):
        subject.__init__ = checked(subject.__init__, typechecker=typechecker)
        return subject
    if isfunction(subject) and not any(map(may_have_shape, subject.__annotations__.values())):
        return _check(subject) if subject.__annotations__ else subject
    by_name = isfunction(subject) and any(
        isinstance(annotation, str) for annotation in subject.__annotations__.values()
    )
    if isfunction(subject) and not isgeneratorfunction(subject) and not by_name:
        return _with_shapes(_check(subject))
    # what a string names may be imported for type checkers alone; jaxtyping lets that pass
    return _jaxtyped(subject, typechecker=typechecker)


def _with_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; an axis has one size in all arguments and in the result."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _jaxtyped("context"):
            return function(*args, **kwargs)

    return call


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
