"""Spans: which part of a request took how long, for a tracer that a server may set.

Without one a span is nothing and costs nothing. The tracer is OpenTelemetry's
(`avow[telemetry]`), which is imported only where one is set.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_NOTHING = nullcontext()
_tracer: Any = None


def trace_with(tracer: Any) -> None:
    """Make spans of this process with a tracer from now on; None: no spans."""
    global _tracer
    _tracer = tracer


def span(name: str) -> AbstractContextManager[Any]:
    """A span below the current one, for as long as the context lasts."""
    return _NOTHING if _tracer is None else _tracer.start_as_current_span(name)


def current_trace() -> str:
    """The id of the trace that the current span belongs to; empty without one."""
    if _tracer is None:
        return ""
    from opentelemetry.trace import format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else ""


def spanned(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make every call of a function a span."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def traced(*arguments: P.args, **named: P.kwargs) -> T:
            with span(name):
                return function(*arguments, **named)

        return traced

    return decorate
