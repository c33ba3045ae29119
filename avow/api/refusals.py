"""What the server says when it does not do what it is asked: one sentence and a status.

A mistake of the asker is never a 500; the guard answers for mistakes of our own. An error
of Avow's own tree (`AvowError`) already has a sentence; it travels as it is.
"""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from avow.api.requests import current_id
from avow.core.errors import AvowError, Unavailable

_PLAIN_KINDS = str | int | float | bool | None
_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list",
    "dict": "an object with names and values",
    "model": "an object with names and values",
    "dataclass": "an object with names and values",
}
"""By the first word of a kind of mistake, as pydantic calls it, what stands in its place."""
_BOUNDS = {
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number less than {lt}",
    "less_than_equal": "a number of at most {le}",
    "string_too_short": "a text with at least {min_length} characters",
    "string_too_long": "a text with at most {max_length} characters",
    "string_pattern_mismatch": "a text like {pattern!r}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""By the kind of mistake as a whole."""
_PLAIN = {
    404: "There is nothing at {path!r}. The page is at '/', the interface below '/api'.",
    405: "{method} is not possible at {path!r}. The interface is told at '/api/openapi.json'.",
}


class Refusal(HTTPException):
    """A request that is not fulfilled, and why, in a sentence."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None):
        headers = None if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status, sentence, headers)


def refusal_response(
    status: int, sentence: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": sentence, "request_id": current_id()}, status, headers)


def tell_refusals(app: FastAPI) -> None:
    """Give every way in which a request can fail the same shape."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_exception_handler(AvowError, _mistaken)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    sentence = str(error.detail)
    if not isinstance(error, Refusal) and error.status_code in _PLAIN:
        where = {"path": request.url.path, "method": request.method}
        sentence = _PLAIN[error.status_code].format(**where)
    return refusal_response(error.status_code, sentence, dict(error.headers or {}))


async def _misunderstood(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    sentence = _in_words(error.errors()[0])
    return refusal_response(422, sentence.encode("utf-8", "replace").decode())


def _in_words(first: dict[str, Any]) -> str:
    """What is wrong of a request, what was given and what is expected."""
    place, given = ".".join(str(part) for part in first["loc"][1:]), first.get("input")
    what = f"{place!r}" if place else "The request"
    if first["type"] == "missing":
        return f"{what} is missing. Expected it in the request; add it and ask again."
    if first["type"] == "json_invalid":
        return "The request is no JSON. Expected an object as JSON; correct it and ask again."
    shown = repr(given)
    # an object or a list is not repeated, nor is a text of any length
    told = f": it is {shown}" if isinstance(given, _PLAIN_KINDS) and len(shown) < 80 else ""
    return f"{what} is not usable{told}. Expected {_expected(first)}; correct it and ask again."


def _expected(first: dict[str, Any]) -> str:
    """In words of Avow; those of pydantic only for a mistake that has none yet."""
    kind, about = first["type"], first.get("ctx", {})
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**about)
    told = str(first["msg"]).removeprefix("Input should be ")
    return _EXPECTED.get(kind.partition("_")[0], told)


async def _mistaken(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, Unavailable):
        return refusal_response(503, str(error), {"Retry-After": "1"})
    return refusal_response(422, str(error))
