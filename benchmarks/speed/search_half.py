"""The search half in an environment with base dependencies only, beside an earlier version.

    python -m venv /tmp/base && /tmp/base/bin/pip install -c constraints.txt .
    python -m benchmarks.speed.search_half FOLDER --base /tmp/base/bin/python --before CHECKOUT

Size of the install, processor time and memory of one cold search, memory of a server after
some searches, time of a warm search, and indexing. The earlier version runs by this very
interpreter, with the checkout before everything else on its path. Both run in turn, so that
they share whatever else goes on.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks._report import keep

PROGRAM = "from avow.cli import main; main()"
QUERIES = ("two dogs on a beach", "a child on a swing", "a man climbs a rock", "red bus")
_TOOLS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")
"""What a virtual environment brings by itself."""


@dataclass(frozen=True)
class Version:
    """An interpreter, and the checkout it imports; None: what is installed."""

    python: str
    checkout: Path | None
    home: Path

    def start(self, *words: str, **given: Any) -> subprocess.Popen[str]:
        environment = {**os.environ, "AVOW_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}
        environment.pop("PYTHONPATH", None)
        if self.checkout is not None:
            environment["PYTHONPATH"] = str(self.checkout)
        command = [self.python, "-c", PROGRAM, *words]
        return subprocess.Popen(command, text=True, env=environment, cwd=self.home, **given)

    def measured(
        self, *words: str, ends: tuple[int, ...] = (0, 3)
    ) -> tuple[float, float, float]:
        """Seconds, processor seconds, and megabytes at most, of one command.

        ends: exit codes that are no mistake.
        """
        started = time.perf_counter()
        with tempfile.TemporaryFile("w+") as told:
            process = self.start(*words, stdout=subprocess.DEVNULL, stderr=told)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in ends:
                told.seek(0)
                raise SystemExit(told.read())
        seconds = time.perf_counter() - started
        return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="photographs")
    parser.add_argument("--base", required=True, help="Python with base dependencies only")
    parser.add_argument("--before", type=Path, default=None, help="checkout to compare with")
    parser.add_argument("--wheel", type=Path, default=None)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--indexed", type=int, default=200, help="files of a timed indexing")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    figures: dict[str, Any] = {"files": chosen.files, **installed(chosen.base, chosen.wheel)}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        versions = {"after": Version(chosen.base, None, place / "after")}
        if chosen.before is not None:
            versions["before"] = Version(sys.executable, chosen.before, place / "before")
        some = copied(chosen.folder, place / "some", chosen.indexed)
        every = copied(chosen.folder, place / "every", chosen.files)
        for name, version in versions.items():
            version.home.mkdir()
            version.measured("index", str(every), "--index", str(place / f"{name}-index"))
        figures |= indexing(versions, some, place, min(chosen.rounds, 3), chosen.indexed)
        figures |= cold_searches(versions, place, chosen.rounds)
        figures |= served(versions, place, chosen.rounds)
    figures |= {"load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1)}
    path = keep("search_half", figures)
    for name, value in figures.items():
        print(f"{name}: {value}")
    print("->", path)


def installed(python: str, wheel: Path | None) -> dict[str, float]:
    """Megabytes of the packages, with and without the compiled copies pip makes of them."""
    asked = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    site = Path(done.stdout.strip())
    sizes: dict[str, int] = {}
    compiled = 0
    for path in site.rglob("*"):
        top = path.relative_to(site).parts[0]
        if not path.is_file() or path.is_symlink() or top.partition("-")[0] in _TOOLS:
            continue
        sizes[top] = sizes.get(top, 0) + path.stat().st_size
        compiled += path.stat().st_size if path.suffix == ".pyc" else 0
    weights = sum(
        path.stat().st_size for path in (site / "avow" / "weights").rglob("*") if path.is_file()
    )
    largest = sorted(sizes, key=lambda name: -sizes[name])[:8]
    figures: dict[str, Any] = {
        "install_mb": megabytes(sum(sizes.values())),
        "install_without_pyc_mb": megabytes(sum(sizes.values()) - compiled),
        "largest_packages_mb": {name: megabytes(sizes[name]) for name in largest},
        "weights_mb": megabytes(weights),
    }
    if wheel is not None:
        figures["wheel_mb"] = megabytes(wheel.stat().st_size)
    return figures


def indexing(
    versions: dict[str, Version], some: Path, place: Path, rounds: int, count: int
) -> dict[str, Any]:
    """Photographs a second, the start of the program included."""
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in versions}
    for number in range(rounds):
        for name, version in versions.items():
            index = place / f"timed-{name}-{number}"
            taken[name].append(version.measured("index", str(some), "--index", str(index)))
    return {
        key: value
        for name, all_taken in taken.items()
        for key, value in {
            f"{name}_index_per_second": round(count / median(all_taken, 0), 1),
            f"{name}_index_cpu_ms_each": round(1000 * median(all_taken, 1) / count, 1),
            f"{name}_index_mb": round(median(all_taken, 2)),
        }.items()
    }


def cold_searches(versions: dict[str, Version], place: Path, rounds: int) -> dict[str, Any]:
    """One `avow search`, from the start of the program to its end."""
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in versions}
    for number in range(rounds + 1):  # the first fills the caches
        for name, version in versions.items():
            words = (QUERIES[number % len(QUERIES)], "--index", str(place / f"{name}-index"))
            taken[name].append(version.measured("search", *words))
    return {
        key: value
        for name, all_taken in taken.items()
        for key, value in {
            f"{name}_search_cpu_s": round(median(all_taken[1:], 1), 2),
            f"{name}_search_least_cpu_s": round(min(one[1] for one in all_taken[1:]), 2),
            f"{name}_search_s": round(median(all_taken[1:], 0), 2),
            f"{name}_search_mb": round(max(one[2] for one in all_taken[1:])),
        }.items()
    }


def served(versions: dict[str, Version], place: Path, rounds: int) -> dict[str, Any]:
    """Memory of a server after searches, and the time of one, asked over HTTP in turn."""
    running = {}
    for name, version in versions.items():
        words = ("serve", "--port", "0", "--index", str(place / f"{name}-index"))
        process = version.start(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        found = re.search(r"http://[^/]+", process.stdout.readline())
        assert found is not None, "the server says where it is"
        running[name] = process, found.group()
    taken: dict[str, list[float]] = {name: [] for name in versions}
    for number in range(8 * rounds):
        for name, (_, address) in running.items():
            text = quote(f"{QUERIES[number % len(QUERIES)]} {number}")
            started = time.perf_counter()
            with urllib.request.urlopen(f"{address}/api/search?text={text}") as answer:
                answer.read()
            taken[name].append(1000 * (time.perf_counter() - started))
    figures: dict[str, Any] = {}
    for name, (process, _) in running.items():
        figures[f"{name}_server_mb"] = resident(process.pid)
        figures[f"{name}_warm_search_p50_ms"] = round(statistics.median(taken[name][4:]), 1)
        process.terminate()
        process.wait(30)
    return figures


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return round(int(found.group(1)) / 1024)


def copied(folder: Path, to: Path, count: int) -> Path:
    to.mkdir()
    for path in sorted(folder.iterdir())[:count]:
        shutil.copy(path, to / path.name)
    return to


def median(taken: list[tuple[float, float, float]], place: int) -> float:
    return statistics.median(one[place] for one in taken)


def megabytes(size: int) -> float:
    return round(size / 1e6, 1)


if __name__ == "__main__":
    main()
