"""Counts and latencies of requests, in the text format that Prometheus reads.

Where several processes serve one port, each keeps its numbers in files of one folder
(PROMETHEUS_MULTIPROC_DIR, set by `avow serve --processes`), and whichever process is asked
adds them up. Counts of a process that has ended stay in the sums.
"""

import os

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TYPE
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

__all__ = ["BOUNDS", "FOLDER", "TYPE", "Metrics", "mark_process_dead"]

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client finds the folder; read when it is imported."""
prometheus_client.disable_created_metrics()  # a second series for each, which nobody asks for


class Metrics:
    """What was counted since the server began."""

    def __init__(self) -> None:
        self._own = own = CollectorRegistry()  # not the library's: one per application
        self._requests = Counter(
            "avow_requests",
            "Requests by route and status.",
            ("method", "route", "status"),
            registry=own,
        )
        self._verdicts = Counter(
            "avow_verdicts", "Searches by their verdict.", ("verdict",), registry=own
        )
        self._seconds = Histogram(
            "avow_request_seconds",
            "How long requests took.",
            ("route",),
            buckets=BOUNDS,
            registry=own,
        )
        self.items = Gauge(
            "avow_items",
            "Items of the index.",
            registry=own,
            multiprocess_mode="livemostrecent",
        )
        self.searches_inside = Gauge(
            "avow_searches_inside",
            "Searches that run or wait.",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.thumbnail_bytes = Gauge(
            "avow_thumbnail_bytes",
            "Memory of thumbnails.",
            registry=own,
            multiprocess_mode="livesum",
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def judged(self, verdict: str) -> None:
        self._verdicts.labels(verdict).inc()

    def text(self) -> bytes:
        """All numbers, of every process that serves this port."""
        if FOLDER not in os.environ:
            return generate_latest(self._own)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
