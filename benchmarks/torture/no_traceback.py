"""Ask the server and the command line for anything: a result or a sentence, and no 5xx."""

import random
import sys
from pathlib import Path
from typing import Any

import schemathesis
import schemathesis.checks
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings

from avow.api import Limits, about, create_app, items, searching
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from benchmarks.torture import _command_lines, _gallery
from benchmarks.torture._batch import Batch, line_of

PROMISE = "Whatever is asked or typed, there is no traceback and no 5xx but 503."
PROOF = (
    "Requests are made from the server's own description of itself, right ones and wrong ones; "
    "every answer must have a status and a shape that the description names. Command lines, "
    "recipes and environments are put together at random from what exists and what does not; "
    "each must end in a result or in a sentence."
)
WANTED, BATCH = 120_000, 600
REQUESTS = 5
"""Of six tries, so many are requests; the others are command lines and recipes."""
EXAMPLES = 5
"""Of one operation in a row."""
CHECKS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
)
LONG = 600.0  # seconds: it only ends a request that would hang
SLOW = ("POST /api/jobs",)  # a scan takes its time, and is tested on its own


def prepare(place: Path) -> None:
    from search_samples import save_pictures

    home = place / "typed"
    save_pictures(home / "pictures", 6)
    (home / "notes.csv").write_text("text,tags\na red boat,boat;sea\nblue sky,sky\n")
    (home / "pairs.csv").write_text("query,file\na red dog,red-000.png\n")
    (home / "model.pt").write_bytes(b"no model")
    index_folders([home / "pictures"], index=home / "index", encoder=open_encoder())
    _gallery.make_views(place)
    _gallery.show(place, "second", place / "photos")
    _gallery.index(place / "photos", place / "index")


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch(tries=count)
    asked = [number for number in range(first, first + count) if number % 6 < REQUESTS]
    for number in range(first, first + count):
        if number % 6 < REQUESTS:
            continue
        draw = random.Random(f"typed {number}")
        shown, end, error = _command_lines.run(place / "typed", draw)
        seen.counts[f"typed: {end if end in ENDS else 'exit with a sentence'}"] += 1
        if error is not None:
            seen.tracebacks.append(f"{number} {shown}: {line_of(error)}")
    if asked:
        _ask(place, asked, seen)
    return seen


ENDS = ("done", "stopped", "a sentence", "traceback", "exit 0")


def _ask(place: Path, numbers: list[int], seen: Batch) -> None:
    encoder = _gallery.encoder()
    with Library.open(place / "index", encoder) as library:
        limits = Limits(upload_bytes=200_000, pixels=1_000_000, seconds=LONG)
        app = create_app(Retriever(library, encoder), limits=limits, hosts=["testserver"])
        described = schemathesis.openapi.from_asgi("/api/openapi.json", app)
        labels = operations()
        for start in range(0, len(numbers), EXAMPLES):
            number = numbers[start]
            label = labels[(number // EXAMPLES) % len(labels)]
            try:
                _some(described.find_operation_by_label(label), number, seen)
            except Exception as error:
                seen.losses.append(f"{number} {label}: {' '.join(str(error).split())[:300]}")
                print(error, file=sys.stderr)


def _some(operation: Any, number: int, seen: Batch) -> None:
    @seed(number)
    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),  # type: ignore[arg-type]
    )
    def ask(case: Any) -> None:
        answer = case.call_and_validate(checks=CHECKS, timeout=LONG)
        seen.counts[f"requests: {answer.status_code}"] += 1

    ask()


def operations() -> list[str]:
    """Every route with its method, as the server describes them."""
    bare = FastAPI()
    for part in (searching, items, about):
        bare.include_router(part.router)
    paths = bare.openapi()["paths"].items()
    listed = [f"{method.upper()} {path}" for path, methods in paths for method in methods]
    return [one for one in listed if one not in SLOW]
