"""A small proxy before several servers: it asks who is ready, and balances.

It does what deploy/haproxy.cfg tells HAProxy: a server that is not ready gets no requests, a
question (GET) that failed goes to another one, and where nothing can be asked the answer is
503. It reads whole bodies, which is enough for measuring and for nothing else.
"""

import http.client
import itertools
import json
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from benchmarks.serving._threads import Running

ASK_EVERY = 0.5
"""Seconds between two questions whether a server is ready."""
ASK_SECONDS = 3.0
"""How long the answer may take."""
SECONDS = 15.0
"""How long a server may take for a request."""
_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")
Answer = tuple[int, list[tuple[str, str]], bytes]


class Proxy(Running):
    """Listens on this machine; `servers` are addresses such as ("10.77.1.2", 8080)."""

    def __init__(self, servers: Sequence[tuple[str, int]]):
        self.servers = list(servers)
        self.ready = [False] * len(self.servers)
        self._turn = itertools.count()
        self._ended = Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, content = proxy.answer(
                    self.command, self.path, body, dict(self.headers)
                )
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Silent."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._threads = [Thread(target=self._server.serve_forever, daemon=True)]
        self._threads += [
            Thread(target=self._watch, args=[place], daemon=True)
            for place in range(len(self.servers))
        ]

    def __exit__(self, *_: object) -> None:
        super().__exit__(*_)
        self._server.server_close()

    def _let_go(self) -> None:
        self._server.shutdown()

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        first = next(self._turn)
        places = [(first + step) % len(self.servers) for step in range(len(self.servers))]
        for place in [one for one in places if self.ready[one]]:
            try:
                return self._ask(place, method, path, body, headers)
            except (OSError, http.client.HTTPException):
                if method != "GET":  # the server may have done it
                    return _refusal("The server that had this request is gone.")
        return _refusal("No server is ready.")

    def _ask(
        self, place: int, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> Answer:
        link = http.client.HTTPConnection(*self.servers[place], timeout=SECONDS)
        try:
            link.request(method, path, body or None, {**headers, "Connection": "close"})
            answer = link.getresponse()
            content = answer.read()
            kept = [pair for pair in answer.getheaders() if pair[0].lower() not in _HOP]
            return answer.status, kept, content
        finally:
            link.close()

    def _watch(self, place: int) -> None:
        while not self._ended.wait(ASK_EVERY):
            link = http.client.HTTPConnection(*self.servers[place], timeout=ASK_SECONDS)
            try:
                link.request("GET", "/api/ready")
                self.ready[place] = link.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                self.ready[place] = False
            finally:
                link.close()


def _refusal(sentence: str) -> Answer:
    headers = [("Content-Type", "application/json"), ("Retry-After", "1")]
    return 503, headers, json.dumps({"error": sentence}).encode()
