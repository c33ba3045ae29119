"""Traces of requests: which spans there are, whose child each is, and what they never hold."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from encoders import ColourEncoder, picture
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from avow.api import create_app, logs, telemetry
from avow.core.errors import MissingExtra
from avow.core.tracing import span
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

HERE = "http://127.0.0.1"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module")
def retriever(tmp_path_factory):
    home = tmp_path_factory.mktemp("traced")
    (home / "photos").mkdir()
    picture("red").save(home / "photos" / "red.png")
    encoder = ColourEncoder()
    index_folders([home / "photos"], index=home / "index", encoder=encoder)
    with Library.open(home / "index", encoder) as library:
        yield Retriever(library, encoder)


def test_a_search_is_a_request_that_encodes_asks_the_store_and_judges(retriever):
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "mine"}
    with TestClient(create_app(retriever, traces=provider), base_url=HERE) as client:
        assert client.get("/api/search?text=red", headers=headers).status_code == 200
    spans = {one.name: one for one in kept.get_finished_spans()}
    request = spans.pop("GET /api/search")
    assert set(spans) == {"encode", "store", "judge"}
    assert (
        f"{request.context.trace_id:032x}" == TRACE and f"{request.parent.span_id:x}" == PARENT
    )
    assert {one.parent.span_id for one in spans.values()} == {request.context.span_id}
    assert dict(request.attributes) == {
        "http.request.method": "GET",
        "http.route": "/api/search",
        "http.response.status_code": 200,
        "avow.request_id": "mine",
    }
    assert all("red" not in one.to_json() for one in kept.get_finished_spans())


def test_what_fails_is_marked_and_the_log_names_its_trace(retriever, monkeypatch, capsys):
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(Retriever, "search", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(logs.LOG, "handlers", [])
    for name in logs._OURS:
        monkeypatch.setattr(logs.logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logs.logging.getLogger(name), "propagate", True)
    level = logs.LOG.level
    logs.set_up("json")
    try:
        with TestClient(create_app(retriever, traces=provider), base_url=HERE) as client:
            assert client.get("/api/search?text=red").status_code == 500
    finally:
        logs.LOG.setLevel(level)
    request = kept.get_finished_spans()[-1]
    assert request.name == "GET /api/search" and not request.status.is_ok
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) > 1  # what failed, and the request
    assert {line["trace_id"] for line in lines} == {f"{request.context.trace_id:032x}"}
    assert {line["request_id"] for line in lines} == {request.attributes["avow.request_id"]}


def test_without_a_tracer_there_are_no_spans(retriever):
    with TestClient(create_app(retriever), base_url=HERE) as client:
        assert client.get("/api/search?text=red").status_code == 200
    assert span("anything") is span("else")


def test_spans_are_sent_by_otlp(retriever, monkeypatch):
    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append((self.path, self.headers.get("Content-Encoding"), body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Silent."""

    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=collector.serve_forever)
    thread.start()
    place = f"http://127.0.0.1:{collector.server_address[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", place)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "pictures")
    try:
        app = create_app(retriever, traces=telemetry.otlp_provider())
        with TestClient(app, base_url=HERE) as client:
            assert client.get("/api/search?text=red").status_code == 200
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    ((path, _, body),) = bodies
    sent = ExportTraceServiceRequest.FromString(body).resource_spans[0]
    names = {one.name for scope in sent.scope_spans for one in scope.spans}
    assert path == "/v1/traces" and names == {"GET /api/search", "encode", "store", "judge"}
    services = [one for one in sent.resource.attributes if one.key == "service.name"]
    assert services[0].value.string_value == "pictures"


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setattr(telemetry, "PACKAGES", ("avow_has_no_such.part",))
    with pytest.raises(MissingExtra, match=r"pip install 'avow\[telemetry\]'"):
        telemetry.otlp_provider()
