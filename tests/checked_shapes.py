"""Type checks of the package under test, each made once.

jaxtyping binds and checks the arguments of every call twice, for longer messages. That is a
third of the time of many tests. Here beartype checks arguments and result once, in a context
where the names of axes are bound; a function without a shape in its signature needs no such
context. A call whose arguments and result have the types and shapes of one that passed passes
as well, without another check. `conftest` installs this before the package is imported.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import is_dataclass
from functools import partial, wraps
from inspect import (
    Parameter,
    isasyncgenfunction,
    isclass,
    iscoroutinefunction,
    isfunction,
    isgeneratorfunction,
)
from inspect import signature as signature_of
from types import FunctionType
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

_jaxtyped = jaxtyping.jaxtyped
_check = beartype(conf=BeartypeConf(violation_type=TypeError))  # as jaxtyping's is


def install() -> None:
    """Put `checked` in the place of the decorator that jaxtyping's import hook applies."""
    jaxtyping.jaxtyped = checked


def stop() -> None:
    """Check nothing from now on, as in a process of a user."""
    global _stopped
    _stopped = True


_stopped = False


def checked(subject: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """A function or class whose annotations are checked when it is called."""
    if subject is None:
        return partial(checked, typechecker=typechecker)
    if isclass(subject) and is_dataclass(subject) and isfunction(vars(subject).get("__init__")):
        subject.__init__ = checked(subject.__init__, typechecker=typechecker)
        return subject
    if isfunction(subject) and not any(map(may_have_shape, subject.__annotations__.values())):
        return _when_called(subject) if subject.__annotations__ else subject
    by_name = isfunction(subject) and any(
        isinstance(annotation, str) for annotation in subject.__annotations__.values()
    )
    if isfunction(subject) and not isgeneratorfunction(subject) and not by_name:
        return _with_shapes(subject)
    # what a string names may be imported for type checkers alone; jaxtyping lets that pass
    return _jaxtyped(subject, typechecker=typechecker)


def _when_called(function: FunctionType) -> Callable[..., Any]:
    """The same function; its check is made at the first call: most are never called."""
    if any(kind(function) for kind in _OF_ANOTHER_KIND):  # which others must see of it
        return _check(function)
    checks: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not checks:
            checks.append(_check(function))
        return (function if _stopped else checks[0])(*args, **kwargs)

    return call


_OF_ANOTHER_KIND = (isgeneratorfunction, iscoroutinefunction, isasyncgenfunction)


def _with_shapes(function: FunctionType) -> Callable[..., Any]:
    """The same function; an axis has one size in all arguments and in the result."""
    if iscoroutinefunction(function):  # its result comes later
        check = _check(function)
        return wraps(function)(lambda *args, **kwargs: _in_context(check, *args, **kwargs))
    checks: list[Callable[..., Any]] = []  # made at the first call: most are never called
    passed: dict[Hashable, set[Hashable]] = {}
    check_again: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _stopped:
            return function(*args, **kwargs)
        given = forms((*args, *kwargs, *kwargs.values()))
        results = passed.get((len(args), given))
        if given is None or results is None:
            if not checks:
                checks.append(_check(function))
            result = _in_context(checks[0], *args, **kwargs)
            if given is not None and len(passed) < _MOST:
                passed[len(args), given] = {form(result)}
            return result
        result = function(*args, **kwargs)
        like = form(result)
        if like is None or like not in results:
            if not check_again:
                check_again.append(_check(_given_result(function)))
            _in_context(check_again[0], result, *args, **kwargs)
            results.add(like)
        return result

    return call


def _in_context(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _jaxtyped("context"):
        return function(*args, **kwargs)


def _given_result(function: FunctionType) -> Callable[..., Any]:
    """A function with the same annotations that returns its own first argument."""
    kinds = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    listed, separated = ["_result"], False
    for parameter in signature_of(function).parameters.values():
        separated |= parameter.kind is Parameter.VAR_POSITIONAL
        if parameter.kind is Parameter.KEYWORD_ONLY and not separated:
            listed.append("*")
            separated = True
        default = "" if parameter.default is Parameter.empty else " = None"
        listed.append(kinds.get(parameter.kind, "") + parameter.name + default)
    room: dict[str, Any] = {}
    exec(f"def replayed({', '.join(listed)}): return _result", room)
    # in the module of the function, where the names in its annotations are looked up
    replayed = FunctionType(room["replayed"].__code__, function.__globals__)
    replayed.__defaults__, replayed.__kwdefaults__ = (
        function.__defaults__,
        function.__kwdefaults__,
    )
    replayed.__annotations__ = dict(function.__annotations__)
    replayed.__qualname__ = function.__qualname__
    return replayed


_MOST = 1000
"""Kinds of calls of one function that are remembered."""
_FEW, _LONG = 16, 200
"""A call with a list of more parts, or with a longer text, is checked every time."""


def form(value: Any) -> Hashable | None:
    """All that a check of `value` sees of it; None where that would take too long to say."""
    kind = type(value)
    if kind in (int, bool, type(None)) or (kind is str and len(value) <= _LONG):
        return kind, value  # a literal may be asked for
    if hasattr(kind, "dtype") and hasattr(kind, "shape"):  # an array of torch or numpy
        return kind, value.dtype, tuple(value.shape)
    if isinstance(value, list | tuple | dict):
        parts = forms(value if not isinstance(value, dict) else (*value, *value.values()))
        return None if parts is None else (kind, parts)
    if isinstance(value, str | set | frozenset):
        return None
    return (kind, value) if isclass(value) else kind


def forms(values: Sequence[Any]) -> tuple[Hashable, ...] | None:
    found = tuple(map(form, values)) if len(values) <= _FEW else (None,)
    return None if any(one is None for one in found) else found


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
