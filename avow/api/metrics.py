"""Counts and latencies of requests, in the text format that Prometheus reads."""

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What was counted since the server began."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self.seconds: dict[str, float] = defaultdict(float)
        self._lock = Lock()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self.requests[method, route, status] += 1
            self.buckets[route][bisect_left(BOUNDS, seconds)] += 1
            self.seconds[route] += seconds

    def judged(self, verdict: str) -> None:
        with self._lock:
            self.verdicts[verdict] += 1

    def text(self, gauges: Mapping[str, int]) -> str:
        with self._lock:
            lines = [
                *_titled("avow_requests_total", "counter", "Requests by route and status."),
                *(
                    f'avow_requests_total{{method="{method}",route="{route}",'
                    f'status="{status}"}} {count}'
                    for (method, route, status), count in sorted(self.requests.items())
                ),
                *_titled("avow_verdicts_total", "counter", "Searches by their verdict."),
                *(
                    f'avow_verdicts_total{{verdict="{verdict}"}} {count}'
                    for verdict, count in sorted(self.verdicts.items())
                ),
                *_titled("avow_request_seconds", "histogram", "How long requests took."),
                *(line for route in sorted(self.buckets) for line in self._histogram(route)),
            ]
        for name, value in gauges.items():
            lines += [*_titled(name, "gauge", "Now."), f"{name} {value}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, route: str) -> list[str]:
        total, lines = 0, []
        for bound, count in zip((*BOUNDS, "+Inf"), self.buckets[route], strict=True):
            total += count
            lines.append(f'avow_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}')
        lines.append(f'avow_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}')
        lines.append(f'avow_request_seconds_count{{route="{route}"}} {total}')
        return lines


class Counting:
    """Counts every request by the route that answered it, never by its raw address."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note)
        finally:
            taken = time.perf_counter() - began
            self.metrics.count(_method(scope), _route(scope), status, taken)


def _method(scope: Scope) -> str:
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in methods else "other"


def _route(scope: Scope) -> str:
    """The pattern of the route, so that addresses made up by askers fill no memory."""
    pattern = getattr(scope.get("route"), "path", None)
    return pattern if isinstance(pattern, str) else "other"


def _titled(name: str, kind: str, says: str) -> list[str]:
    return [f"# HELP {name} {says}", f"# TYPE {name} {kind}"]
