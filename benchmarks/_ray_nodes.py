"""A real Ray cluster of several nodes on one host, and ways to end its parts."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

ROOT = Path(__file__).parents[1]
TRIES = 9


class Nodes:
    """A head without places, and nodes of one place each; every one has a raylet of its own."""

    def __init__(self, count: int):
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster: Any = _started(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.address: str = self.cluster.address
        self.nodes: list[Any] = []
        for _ in range(count):
            self.add()

    def add(self) -> None:
        self.nodes.append(_started(lambda: self.cluster.add_node(num_cpus=1)))

    def kill_node(self, place: int) -> None:
        """End a node at once, and start another in its stead."""
        self.cluster.remove_node(self.nodes.pop(place), allow_graceful=False)
        self.add()

    def workers(self) -> list[psutil.Process]:
        """Processes that encode a unit at this moment."""
        found = []
        for node in self.nodes:
            for raylet in node.all_processes["raylet"]:
                with suppress(psutil.Error):
                    children = psutil.Process(raylet.process.pid).children(recursive=True)
                    found += [one for one in children if "_encode" in " ".join(one.cmdline())]
        return found

    def kill_worker(self, place: int) -> bool:
        """Whether there was one to end."""
        workers = self.workers()
        if not workers:
            return False
        with suppress(psutil.Error):
            os.kill(workers[place % len(workers)].pid, signal.SIGKILL)
        return True


def _started(start: Callable[[], Any]) -> Any:
    """Ray gives up after 30 seconds, which a busy machine may take to start a node."""
    for _ in range(TRIES):
        with suppress(Exception):
            return start()
    return start()


@contextmanager
def nodes(count: int) -> Iterator[Nodes]:
    """A cluster whose workers can import what the tests have, whoever asks them."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))):
        started = Nodes(count)
        try:
            yield started
        finally:
            started.cluster.shutdown()
