"""What all tests share: a home of their own, and a summary of what could not run.

A data or browser test that cannot run is no failure, but it must not pass for a
success either, so each one is named with its reason at the end of every run.
"""

import faulthandler
import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from types import ModuleType

import checked_shapes
import pytest

checked_shapes.install()  # before anything imports the package
gc.disable()  # until all is collected: what is imported stays

import forked_commands  # noqa: E402
import shipped_networks  # noqa: E402
from browser import pages, visit  # noqa: E402
from databases import away, milvus_lite, milvus_server, server  # noqa: E402
from forked import TOGETHER, pytest_addoption, pytest_runtestloop  # noqa: E402
from hypothesis import settings  # noqa: E402

from avow.core import folder  # noqa: E402
from avow.retrieval.encoders import onnx  # noqa: E402

__all__ = [  # fixtures and hooks
    "away",
    "milvus_lite",
    "milvus_server",
    "pages",
    "pytest_addoption",
    "pytest_runtestloop",
    "server",
    "visit",
]

TIERS = ("data", "browser")
SERVED = ("test_api", "test_api_fuzz")
"""Files without pages whose tests ask the same index."""
RAN = ("passed", "failed", "xfailed", "xpassed")
LONG = "AVOW_LONG_TESTS"
"""Set by `make test-long`: more examples of every property, and the tests marked `long`."""

HANGS = 1800.0
"""Seconds after which a test is taken to hang: its process says where, and ends."""
_STDERR = pytest.StashKey[int]()

# no deadline: how fast a machine is decides no test
settings.register_profile("short", max_examples=25, deadline=None)
settings.register_profile("long", max_examples=300, deadline=None)
settings.load_profile("long" if os.environ.get(LONG) else "short")


@pytest.fixture(scope="session", autouse=True)
def avow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes what the person running it has cached.

    Networks that one of several processes of pytest-xdist has exported serve the others too.
    """
    home = tmp_path_factory.mktemp("avow_home")
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = tmp_path_factory.getbasetemp().parent / "backbones"
        shared.mkdir(exist_ok=True)
        (home / "backbones").symlink_to(shared, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AVOW_HOME", str(home))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_disks() -> Iterator[None]:
    """A process that is killed loses nothing that it wrote; only a power loss would.

    What must be synchronised, and when, is tested where the calls are recorded.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get(LONG):
            patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def networks_opened_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of the model that comes with Avow, which most tests of searching open."""
    if request.module.__name__ in shipped_networks.TESTED:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx, "_opened", shipped_networks.opened)
        shipped_networks.open_models_once(patch)
        yield


@pytest.fixture(scope="module", autouse=True)
def folders_listed_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """The parts in a folder of the package are listed when one is built: a tenth of building
    a small one. Here they are listed again when the folder has changed.
    """
    if request.module.__name__ == "test_folder":
        yield
        return
    names = folder.names

    @cache
    def listed(package: ModuleType, _: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(names(package))

    def once(package: ModuleType) -> list[str]:
        changed = tuple(os.stat(place).st_mtime_ns for place in package.__path__)
        return list(listed(package, changed))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "names", once)
        yield


@pytest.fixture(scope="module", autouse=True)
def products_as_ever() -> Iterator[None]:
    """A training leaves products as exact as its recipe asks; the next file has exact ones.

    On a processor without bfloat16, torch gives up oneDNN at the first product in it, for as
    long as the process lasts, and rounds all later products in another way.
    """
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.enabled = True


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what an audit does with probabilities: good ones take it a second."""
    monkeypatch.setattr("avow.audit.wrong_pairs.TREES", 2)


@pytest.fixture
def some_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that wrong pairs are found: plain ones are, with a third of the trees."""
    if not os.environ.get(LONG):
        monkeypatch.setattr("avow.audit.wrong_pairs.TREES", 25)


@pytest.fixture(scope="module")
def one_strength() -> Iterator[None]:
    """For tests of what becomes of a policy: most of a fit is trying other strengths of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("avow.trust.probability._best_strength", lambda *args: args[-1][1])
        yield


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STDERR] = os.dup(2)  # before pytest captures it
    # one of several processes, or the one that they are forked from
    if hasattr(config, "workerinput") or config.option.forks:
        import torch

        torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A deadlock that holds the interpreter cannot be ended from inside it."""
    forked_commands.prepare()
    faulthandler.dump_traceback_later(HANGS, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def seed_what_is_there() -> None:
    """Without CUDA, each seed of torch is kept for a device to come, with a text of the whole
    stack: three of them for every batch that is learnt, a twentieth of the time of training.
    """
    if (torch := sys.modules.get("torch")) is None:
        return
    for device in (torch.cuda, torch.xpu, torch.mtia):
        if not device.is_available():
            device.manual_seed_all = lambda seed: None


def pytest_collection_finish() -> None:
    seed_what_is_there()
    gc.freeze()  # a million objects of imported modules, which no collection need look at
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files that take long first: workers that take file after file then end together. Before
    # them those with pages, which share a browser, and often an index that a server shows.
    long = {item.path for item in items if item.get_closest_marker("slow")}
    shown = {item.path for item in items if item.get_closest_marker("browser")}
    shown |= {item.path for item in items if item.path.stem in SERVED}
    items.sort(key=lambda item: (item.path not in shown, item.path not in long))
    for item in items:
        if item.path in shown:
            item.stash[TOGETHER] = "pages"
    # A report has no markers, only keywords, and a folder's name is a keyword too:
    # everything in tests/data/ would count. Properties travel with the report.
    for item in items:
        for tier in TIERS:
            if item.get_closest_marker(tier):
                item.user_properties.append(("tier", tier))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    terminalreporter.section("data and browser tests")
    for tier in TIERS:
        terminalreporter.write_line(tier_line(tier, terminalreporter.stats, config))
    if line := stores_line(terminalreporter.stats):
        terminalreporter.write_line(line)


def stores_line(stats: dict[str, list]) -> str:
    """On which kinds of stores the suite of all stores ran, and why not on the others."""
    ran, could_not = Counter[str](), dict[str, str]()
    for outcome, reports in stats.items():
        for report in reports:
            node = getattr(report, "nodeid", "")
            if "test_stores.py::" not in node or not node.endswith("]"):
                continue
            kind = node.rpartition("[")[2][:-1]
            if outcome in RAN:
                ran[kind] += 1
            elif outcome in ("skipped", "error"):
                could_not[kind] = reason(report)
    told = [f"{kind} ({number} ran)" for kind, number in sorted(ran.items())]
    told += [f"not {kind} ({why})" for kind, why in sorted(could_not.items())]
    return f"stores: {', '.join(told)}" if told else ""


def tier_line(tier: str, stats: dict[str, list], config: pytest.Config) -> str:
    """How many tests of `tier` ran, and which could not, each with its reason."""
    ran = {
        report.nodeid
        for outcome in RAN
        for report in stats.get(outcome, [])
        if belongs(report, tier, config)
    }
    could_not = {
        report.nodeid: reason(report)
        for outcome in ("skipped", "error")
        for report in stats.get(outcome, [])
        if belongs(report, tier, config) and report.nodeid not in ran
    }
    named = [f"{name(node)} ({why})" for node, why in sorted(could_not.items())]
    line = f"{tier} tests: {len(ran)} ran, {len(could_not)} could not"
    return f"{line}: {'; '.join(named)}" if named else line


def belongs(
    report: pytest.TestReport | pytest.CollectReport, tier: str, config: pytest.Config
) -> bool:
    """Whether the report is of `tier`; a file skipped as a whole has no properties."""
    if isinstance(report, pytest.TestReport):
        return ("tier", tier) in map(tuple, report.user_properties)
    path = config.rootpath / report.nodeid
    return path.is_file() and f"mark.{tier}" in path.read_text("utf-8")


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple | list):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return f"error in {report.when or 'collection'}"


def name(node: str) -> str:
    """The last part of a node id, with the file it is in."""
    path, _, test = node.partition("::")
    file = path.rpartition("/")[2]
    return f"{file}::{test}" if test else file
