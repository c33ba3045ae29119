"""Which branches of the code do the tests take, room by room?

    python -m benchmarks.quality.branches [tests/test_api.py …] [--data FILE]

The tests run under coverage.py, each file in a process of its own, all of them unless some are
named, and the branches of four rooms are counted. What is reached in processes that a test
starts counts, and so does, as missed, a line that only another system or a missing package
reaches. With --data what was reached is kept: a file of tests that was run before is not run
again, so that the work can be stopped and done in parts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._report import keep

ROOT = Path(__file__).parents[2]
ROOMS = {
    "retrieval": "avow/retrieval/",
    "stores": "avow/retrieval/store",
    "indexes": "avow/indexes/",
    "api": "avow/api/",
    "trust": "avow/trust/",
}
_TRIES = 5
SETTINGS = """[run]
branch = True
parallel = True
patch = subprocess, _exit
sigterm = True
source = avow/retrieval,avow/api,avow/indexes,avow/trust
data_file = {place}/data
relative_files = True
[report]
exclude_also =
    if TYPE_CHECKING:
    @abstractmethod
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    every = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_*.py"))
    parser.add_argument("tests", nargs="*", default=every)
    parser.add_argument("--data", type=Path, help="a folder of what was reached before")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        data = (chosen.data or Path(place)).absolute()
        data.mkdir(parents=True, exist_ok=True)
        for test in chosen.tests:
            run_one(test, data)
        report = reported(data)
        run = sorted(f"tests/{path.name}.py" for path in data.glob("test_*"))
    figures = {"tests": run, "rooms": rooms(report), "worst": worst(report)}
    print(json.dumps(figures, indent=1), "->", keep("branches", figures))


def run_one(test: str, data: Path) -> None:
    """Run a file of tests, unless that was done; what it reached is a file of its name."""
    target = data / Path(test).stem
    if target.exists():
        return
    (data / "settings").write_text(SETTINGS.format(place=data))
    words = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    _coverage(data, "run", "--data-file", f"{target}.part", *words, env=os.environ | paths)
    whole = Path(f"{target}.whole")
    for _ in range(_TRIES):  # a process that a test started may still write its part
        parts = map(str, data.glob(f"{target.name}.part.*"))
        _coverage(data, "combine", "--data-file", str(whole), *parts)
        if whole.exists():
            break
    whole.rename(target)


def reported(data: Path) -> dict[str, Any]:
    """What all files of tests that were run reached together."""
    parts = [str(path) for path in data.glob("test_*") if not path.suffix]
    _coverage(data, "combine", "--keep", *parts)
    _coverage(data, "json", "-o", str(data / "report.json"))
    return json.loads((data / "report.json").read_text())


def _coverage(data: Path, command: str, *words: str, env: Any = None) -> None:
    line = [sys.executable, "-m", "coverage", command, "--rcfile", str(data / "settings")]
    subprocess.run([*line, *words], cwd=ROOT, env=env)


def rooms(report: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Lines and branches of each room, and how many of them were reached."""
    counted = {}
    for room, start in ROOMS.items():
        parts = [
            one["summary"] for path, one in report["files"].items() if path.startswith(start)
        ]
        counted[room] = {
            name: sum(part[key] for part in parts)
            for name, key in (
                ("lines", "num_statements"),
                ("lines_reached", "covered_lines"),
                ("branches", "num_branches"),
                ("branches_reached", "covered_branches"),
            )
        }
    return counted


def worst(report: dict[str, Any], count: int = 10) -> dict[str, int]:
    """The files with the most branches that no test takes."""
    missing = {
        path: one["summary"]["missing_branches"] for path, one in report["files"].items()
    }
    return dict(sorted(missing.items(), key=lambda one: -one[1])[:count])


if __name__ == "__main__":
    main()
