"""Tests on several cores after one collection: `pytest --forks 2`.

Processes that pytest-xdist starts import and collect everything anew, each for as long as
hundreds of tests take. Here one process collects, and the others are forked from it. A file
stays in one of them, so that what its tests share is made once; each takes the next file when
it is done with one. Where a process cannot be forked once libraries of the system are loaded
(macOS), `scripts/test` takes pytest-xdist.
"""

import multiprocessing
import os
import struct
import sys
import warnings
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import pytest

TOGETHER = pytest.StashKey[str]()
"""What files share that takes long to make: where there are two processes, one makes it."""
_NUMBER = struct.Struct("i")
_CONTEXT = multiprocessing.get_context("fork") if sys.platform != "win32" else None


class Worker(NamedTuple):
    """A process that runs tests, as seen by the one that collected them."""

    process: Any
    running: list[int]
    """The place of the last test that it began, if it has begun one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="processes that run files of tests")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    workers = session.config.option.forks
    files = _files(session.items, together=workers == 2)
    workers = min(workers, len(files))
    unusual = session.config.option.collectonly or session.config.option.usepdb
    if workers < 2 or unusual or session.testsfailed:  # of the collection
        return None
    _Run(session, files).with_workers(workers)
    return True


def _files(items: Sequence[pytest.Item], together: bool) -> list[list[pytest.Item]]:
    """Tests that one process runs behind each other: those of a file, or of several."""

    def place(item: pytest.Item) -> Hashable:
        return item.stash.get(TOGETHER, item.path) if together else item.path

    return [list(group) for _, group in groupby(items, key=place)]


class _Run:
    """The processes of one run, and what they tell."""

    def __init__(self, session: pytest.Session, files: Sequence[list[pytest.Item]]) -> None:
        self._session = session
        self._files = files
        self._place = {item: place for place, item in enumerate(session.items)}
        self._waiting, filled = os.pipe()  # numbers of files, which whoever is free takes
        os.write(filled, b"".join(_NUMBER.pack(number) for number in range(len(files))))
        os.close(filled)
        self._workers: dict[Connection, Worker] = {}
        self._base = session.config._tmp_path_factory.getbasetemp()
        self._started = 0

    def with_workers(self, number: int) -> None:
        try:
            for _ in range(number):
                self._start([])
            while self._workers:
                for connection in wait(list(self._workers)):
                    self._hear(connection)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers.values():
                worker.process.terminate()
                worker.process.join()
            os.close(self._waiting)
            if (capture := _capture(self._session.config)) is not None:
                capture.read_global_capture()  # what came from tests is told with them

    def _start(self, first: list[pytest.Item]) -> None:
        """A process that begins with the tests in `first`, which nobody else runs."""
        assert _CONTEXT is not None
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        name = f"gw{self._started}"
        self._started += 1
        process = _CONTEXT.Process(target=self._work, args=(name, theirs, first))
        process.start()
        theirs.close()
        self._workers[ours] = Worker(process, [])

    def _hear(self, connection: Connection) -> None:
        hooks, config = self._session.config.hook, self._session.config
        try:
            kind, told = connection.recv()
        except EOFError:
            self._ended(connection)
            return
        if kind == "begins":
            self._workers[connection].running[:] = [told]
        elif kind == "done":  # a process that a test left behind may keep the connection open
            self._workers.pop(connection).process.join()
        elif kind == "report":
            report = hooks.pytest_report_from_serializable(config=config, data=told)
            hooks.pytest_runtest_logreport(report=report)
        else:
            hooks.pytest_warning_recorded.call_historic(kwargs=told)

    def _ended(self, connection: Connection) -> None:
        """A test that ended its process has failed; the rest of its file is run by another."""
        worker = self._workers.pop(connection)
        connection.close()
        worker.process.join()
        if not worker.running:
            raise RuntimeError(f"A process ended before its first test: {worker.process}")
        item = self._session.items[worker.running[0]]
        told = f"The process of this test ended with {worker.process.exitcode}."
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", told, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)
        file = next(file for file in self._files if item in file)
        self._start(file[file.index(item) + 1 :])

    def _work(self, name: str, connection: Connection, first: list[pytest.Item]) -> None:
        """Run tests until none is left; this is another process."""
        config = self._session.config
        os.environ["PYTEST_XDIST_WORKER"] = name  # which tests and libraries ask for
        factory = config._tmp_path_factory
        factory._basetemp = self._base / name
        factory._basetemp.mkdir(mode=0o700)
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(_Teller(config, connection))
        _capture_alone(config)
        tests = self._tests(first)
        item = next(tests, None)
        while item is not None:
            following = next(tests, None)
            connection.send(("begins", self._place[item]))
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
        connection.send(("done", None))

    def _tests(self, first: list[pytest.Item]) -> Iterator[pytest.Item]:
        yield from first
        while number := os.read(self._waiting, _NUMBER.size):
            yield from self._files[_NUMBER.unpack(number)[0]]


def _capture(config: pytest.Config) -> Any:
    """What keeps the output of tests, unless nobody does."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    return capture if capture is not None and capture.is_globally_capturing() else None


def _capture_alone(config: pytest.Config) -> None:
    """What tests print went to one file of all processes otherwise.

    That file stays open: whoever was imported may have kept `sys.stderr`.
    """
    if (capture := _capture(config)) is not None:
        capture.suspend(in_=True)
        _SHARED.append(capture._global_capturing)
        capture._global_capturing = None
        capture.start_global_capturing()
        capture.suspend()


_SHARED: list[Any] = []


class _Teller:
    """Sends what becomes of tests to the process that prints it."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook.pytest_report_to_serializable
        self._connection.send(("report", hook(config=self._config, report=report)))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        text = warnings.WarningMessage(
            str(warning_message.message),
            pytest.PytestWarning,
            warning_message.filename,
            warning_message.lineno,
        )
        told = {"warning_message": text, "when": when, "nodeid": nodeid, "location": location}
        self._connection.send(("warning", told))
