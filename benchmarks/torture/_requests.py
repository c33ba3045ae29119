"""Requests made from the server's own description of itself, and answers held against it."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import schemathesis
import schemathesis.checks
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.python import asgi

from avow.api import Limits, about, create_app, export, folders, items, searching, videos
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from benchmarks.torture import _gallery
from benchmarks.torture._batch import Batch

EXAMPLES = 50
"""Of one operation in a row, with one server."""
CHECKS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
)
LONG = 600.0  # seconds: it only ends a request that would hang
SLOW = ("POST /api/jobs",)  # a scan takes its time, and is tested on its own
OVER_A_SOCKET = 40
"""One group in so many is sent over a connection, through the HTTP parser of `avow serve`."""


@dataclass(frozen=True)
class Asked:
    """A server as it is reached, and the numbers of the items that it has."""

    described: Any
    how: dict[str, Any]
    items: Sequence[int]


def ask(place: Path, numbers: Sequence[int], seen: Batch) -> None:
    """As many requests as there are numbers, in groups; the first number of each seeds it."""
    with _servers(place) as (within, over_a_socket):
        for start in range(0, len(numbers), EXAMPLES):
            group = numbers[start : start + EXAMPLES]
            turn = group[0] // EXAMPLES
            server = over_a_socket if turn % OVER_A_SOCKET == OVER_A_SOCKET - 1 else within
            if server is over_a_socket:
                seen.counts["requests: over a connection"] += len(group)
            _group(server, group[0], len(group), seen)


@cache
def operations() -> tuple[str, ...]:
    """Every route with its method, as the server describes them."""
    bare = FastAPI()
    for part in (searching, items, videos, export, folders, about):
        bare.include_router(part.router)
    paths = bare.openapi()["paths"].items()
    listed = [f"{method.upper()} {path}" for path, methods in paths for method in methods]
    return tuple(one for one in listed if one not in SLOW)


@contextmanager
def _servers(place: Path) -> Iterator[tuple[Asked, Asked]]:
    """One server, called in this process and over a connection; described once."""
    from serving import Server  # type: ignore[attr-defined]

    encoder = _gallery.encoder()
    limits = Limits(upload_bytes=200_000, pixels=1_000_000, seconds=LONG)
    with ExitStack() as stack:
        library = stack.enter_context(Library.open(place / "index", encoder))
        ids = [int(number) for kind in ("image", "text") for number in library.find(None, kind)]
        retriever = Retriever(library, encoder)
        more = {"limits": limits, "hosts": ["testserver"], "roots": [place / "photos"]}
        app = create_app(retriever, **more)
        described = schemathesis.openapi.from_asgi("/api/openapi.json", app)
        client = stack.enter_context(asgi.get_client(app))  # type: ignore[arg-type]
        client.trust_env = False  # reading it takes a tenth of the time
        address = stack.enter_context(Server(create_app(retriever, **more)))
        far = schemathesis.openapi.from_dict(described.raw_schema)
        yield Asked(described, {"session": client}, ids), Asked(far, {"base_url": address}, ids)


def _group(server: Asked, number: int, wanted: int, seen: Batch) -> None:
    """Ask one operation, and the next ones where it has no more to be asked."""
    labels = operations()
    first = number // EXAMPLES
    for label in itertools.islice(itertools.cycle(labels), first % len(labels), None):
        if wanted <= 0:
            return
        before = seen.tries
        try:
            _some(server, label, (number, wanted), seen)
        except Unsatisfiable:
            pass  # nothing can be wrong in a request that is fixed
        except Exception as error:
            seen.losses.append(f"{number} {label}: {' '.join(str(error).split())[:300]}")
            print(error, file=sys.stderr)
        wanted -= max(1, seen.tries - before)


def _some(server: Asked, label: str, asked: tuple[int, int], seen: Batch) -> None:
    number, count = asked
    operation = server.described.find_operation_by_label(label)
    turn = number // EXAMPLES // len(operations())
    can_be_wrong = bool(operation.path_parameters or operation.query or operation.body)
    mode = GenerationMode.NEGATIVE if turn % 2 and can_be_wrong else GenerationMode.POSITIVE
    fixed: dict[str, Any] = {}
    if "{item_id}" in label and turn % 3:  # else hardly any would be there
        fixed = {"path_parameters": {"item_id": server.items[turn % len(server.items)]}}

    @seed(number)
    @given(case=operation.as_strategy(generation_mode=mode, **fixed))
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),  # type: ignore[arg-type]
    )
    def made(case: Any) -> None:
        seen.tries += 1
        answer = case.call_and_validate(checks=CHECKS, timeout=LONG, **server.how)
        seen.counts[f"requests: {answer.status_code}"] += 1

    made()
