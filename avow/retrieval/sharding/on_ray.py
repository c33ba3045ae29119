"""Units encoded by the workers of a Ray cluster.

    plan --units--> workers, each with its encoder --parts--> INDEX/work --> index

A worker, a machine or this process may die at any moment: a unit that did not come back is
given out again, and what came back is a file. Workers need the same version of Avow, the model
and a way to the sources; the index itself lies with this process alone.
"""

import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from avow.core.errors import AvowError, BadData, MissingExtra, Unavailable
from avow.core.files import write_bytes
from avow.core.photographs import UNTRUSTED
from avow.core.searching import Encoder
from avow.core.written_text import open_reader
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.sharding.here import Parts
from avow.retrieval.sharding.part import packed_refusal
from avow.retrieval.sharding.plan import Plan, Unit
from avow.retrieval.sharding.work import Work, Worker

AHEAD = 4
"""Units given out for each place of the cluster; their parts wait for their turn as files."""
TRIES = 10
"""Workers that may die of one unit before its files are listed as unreadable."""
_PATIENCE = 1.0  # seconds between two questions whether to stop
_PATIENT_WITH_HEAD = 15.0  # seconds for its port to answer
_AUTH = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")


class OnRay(Parts):
    """Keeps the cluster busy with units of the plan, and writes what comes back."""

    def __init__(self, plan: Plan, work: Work, cluster: Cluster):
        super().__init__(plan)
        self.work, self.cluster = work, cluster
        self.ray, self.joined = _connected(cluster.address)
        self.running: dict[Any, int] = {}
        self.deaths: dict[int, int] = {}
        needs: dict[str, Any] = {"num_cpus": cluster.cores, "max_retries": 0}
        if cluster.device.startswith("cuda"):
            needs["num_gpus"] = 1
        self.encode = self.ray.remote(**needs)(_encode)
        self.shared = self.ray.put((work, cluster))

    def part(self, number: int, stop: Callable[[], bool]) -> bytes:
        path = self.plan.part(number)
        while not path.is_file():
            if stop():
                return b""
            with _away(self.cluster.address):
                self._give_out(number)
                self._take_in()
        return path.read_bytes()

    def close(self) -> None:
        with suppress(Exception):  # a cluster that is away cannot be left
            for task in self.running:
                self.ray.cancel(task, force=True)
            if self.joined:
                self.ray.shutdown()

    def _give_out(self, first: int) -> None:
        """Units in the order of the plan, as many as keep every place busy."""
        most = max(AHEAD, AHEAD * self._places())
        waiting = set(self.running.values())
        for number in range(first, min(first + most, len(self.plan.units))):
            if len(self.running) >= most:
                return
            if number not in waiting and not self.plan.part(number).is_file():
                task = self.encode.remote(self.shared, self.plan.units[number])
                self.running[task] = number

    def _take_in(self) -> None:
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=_PATIENCE)
        for task in ready:
            number = self.running.pop(task)
            try:
                part, refused = self.ray.get(task)
            except self.ray.exceptions.RayTaskError as error:
                raise BadData(
                    f"A worker of the cluster failed ({_last_line(error)}). Expected the same "
                    "version of Avow and of its packages on all machines; install it there."
                ) from error
            except self.ray.exceptions.RayError:  # a worker or a machine died
                self._died(number)
                continue
            if refused:
                raise BadData(f"A worker of the cluster says: {refused}")
            write_bytes(self.plan.part(number), part)

    def _died(self, number: int) -> None:
        self.deaths[number] = self.deaths.get(number, 0) + 1
        if self.deaths[number] >= TRIES:
            why = f"{TRIES} workers ended while they read this, or what is next to it"
            unit = self.plan.units[number]
            part = packed_refusal(unit.files, why, self.work.fingerprint)
            write_bytes(self.plan.part(number), part)

    def _places(self) -> int:
        """Units that the cluster can encode at once."""
        there = self.ray.cluster_resources()
        places = there.get("CPU", 0) / self.cluster.cores
        if self.cluster.device.startswith("cuda"):
            places = min(places, there.get("GPU", 0))
        return int(places)


def _encode(shared: tuple[Work, Cluster], unit: Unit) -> tuple[bytes, str]:
    """In a worker: the part of a unit; or the sentence, where nothing at all can be encoded."""
    os.environ[UNTRUSTED] = shared[0].untrusted
    try:
        return _worker(*shared).encode(unit), ""
    except AvowError as error:
        return b"", str(error)


@cache
def _worker(work: Work, cluster: Cluster) -> Worker:
    """Made once a process."""
    encoder = _encoder(cluster)
    if encoder.fingerprint != work.fingerprint:
        raise BadData(
            f"the model {cluster.model!r} is another one here ({encoder.fingerprint} instead "
            f"of {work.fingerprint}). Expected the same files on all machines."
        )
    return Worker(work, encoder, open_reader() if work.ocr else None)


@cache
def _encoder(cluster: Cluster) -> Encoder:
    """The model stays open for the units to come, and for other runs of the same driver."""
    how = {"threads": cluster.cores, "allow_code": cluster.allow_code}
    return open_encoder(cluster.model, cluster.device or "cpu", **how)


def _connected(address: str) -> tuple[Any, bool]:
    """Ray, and whether this joined the cluster; a process that has joined one uses that."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtra("Indexing on many machines", "ray", "ray") from None
    if ray.is_initialized():
        return ray, False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        quiet["include_dashboard"] = False
    try:
        _check_head(address)
        with _own_token(address):
            ray.init(address, **quiet)
    except Exception as error:  # of the network, of versions, of the address
        raise _unreachable(address, error) from error
    return ray, True


def _check_head(address: str) -> None:
    """OSError where nobody listens at host:port; Ray itself tries for a quarter of an hour."""
    place = re.fullmatch(r"(?:ray://)?\[?([^/\]]+)\]?:(\d{1,5})", address)
    if place is not None:
        socket.create_connection((place[1], int(place[2])), _PATIENT_WITH_HEAD).close()


@contextmanager
def _own_token(address: str) -> Iterator[None]:
    """A token of this run for a cluster of this machine alone.

    Ray would make one for good, in a file below the home folder, and clusters that are started
    later would ask for it.
    """
    if address != "local" or any(os.environ.get(name) for name in _AUTH):
        yield
        return
    os.environ[_AUTH[0]] = secrets.token_hex(32)
    try:
        yield
    finally:
        del os.environ[_AUTH[0]]


@contextmanager
def _away(address: str) -> Iterator[None]:
    """The loss of the cluster as a sentence."""
    try:
        yield
    except AvowError:
        raise
    except Exception as error:
        if not (type(error).__module__.startswith("ray") or isinstance(error, ConnectionError)):
            raise
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> Unavailable:
    return Unavailable(
        f"The Ray cluster {address!r} cannot be reached ({_last_line(error)}). Expected the "
        "address of a head that runs, such as host:6379; start it with `ray start --head`, "
        "with RAY_AUTH_MODE as it is here, and run the same command again: it goes on where it "
        "was."
    )


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join((lines or [type(error).__name__])[-1].split())[:200]
