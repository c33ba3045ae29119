"""Requests nobody thought of, made from the server's own description of itself.

Every operation gets a bounded number of them, right ones and wrong ones. Whatever is asked,
the answer is no 500, and has a status and a shape that the description names.
"""

import pytest
import schemathesis
import serving
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings

from avow.api import Limits, about, create_app, items, searching
from avow.retrieval.search import Retriever

EXAMPLES = 6
CHECKS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
)
LONG = 600.0  # seconds: it only ends a test that would hang
SLOW = ("POST /api/jobs",)  # a scan takes its time, and is tested on its own


def operations() -> list[str]:
    """Every route with its method, as the server describes them."""
    bare = FastAPI()
    for part in (searching, items, about):
        bare.include_router(part.router)
    paths = bare.openapi()["paths"].items()
    found = [f"{method.upper()} {path}" for path, methods in paths for method in methods]
    return [one for one in found if one not in SLOW]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    index = serving.index_once(tmp_path_factory.getbasetemp())
    retriever = serving.judged(Retriever.open(index))
    limits = Limits(upload_bytes=200_000, pixels=1_000_000, seconds=LONG)
    app = create_app(retriever, limits=limits, hosts=["testserver"])
    return schemathesis.openapi.from_asgi("/api/openapi.json", app)


@pytest.mark.parametrize("label", operations())
def test_whatever_is_asked_is_answered(described, label):
    operation = described.find_operation_by_label(label)
    assert operation is not None

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        case.call_and_validate(checks=CHECKS, timeout=LONG)

    ask()


def test_every_route_is_asked():
    assert len(operations()) > 15
