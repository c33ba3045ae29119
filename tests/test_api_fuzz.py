"""Requests nobody thought of, made from the server's own description of itself.

Every operation gets a bounded number of them, right ones and wrong ones. Whatever is asked,
the answer is no 500, has a status and a shape that the description names, and is quick.
"""

import pytest
import schemathesis
import serving
from hypothesis import HealthCheck, Phase, settings

from avow.api import Limits, create_app
from avow.retrieval.search import Retriever

EXAMPLES = 6
CHECKS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
)


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    index = serving.index_once(tmp_path_factory.getbasetemp())
    retriever = serving.judged(Retriever.open(index))
    limits = Limits(upload_bytes=200_000, pixels=1_000_000)
    app = create_app(retriever, limits=limits, hosts=["testserver"])
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    return schema.exclude(path="/api/jobs", method="POST")  # a scan takes its time


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_asked_is_answered(case):
    case.call_and_validate(checks=CHECKS)
