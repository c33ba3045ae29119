"""Requests nobody thought of, made from the server's own description of itself.

Every operation gets a bounded number of them, right ones and wrong ones. Whatever is asked,
the answer is no 500, and has a status and a shape that the description names.
"""

import pytest
import schemathesis
import serving
from hypothesis import HealthCheck, Phase, given, settings

from avow.api import Limits, create_app
from benchmarks.torture._requests import CHECKS, LONG, operations

EXAMPLES = 6


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    index = serving.index_once(tmp_path_factory.getbasetemp())
    retriever = serving.judged(serving.opened(index))
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
