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
    "Input should be greater": "a number greater",
    "Input should be less": "a number less",
    "Input should be ": "",
    "String should have ": "a text with ",
}
"""How pydantic begins, and what stands there in a sentence of ours."""
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
    shown = repr(given)
    # an object or a list is not repeated, nor is a text of any length
    told = f": it is {shown}" if isinstance(given, _PLAIN_KINDS) and len(shown) < 80 else ""
    expected = first["msg"].partition(", unable to")[0]
    for start, kind in _EXPECTED.items():
        expected = expected.replace(start, kind)
    return f"{what} is not usable{told}. Expected {expected}; correct it and ask again."


async def _mistaken(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, Unavailable):
        return refusal_response(503, str(error), {"Retry-After": "1"})
    return refusal_response(422, str(error))
