"""Which branches of the code do the tests take, room by room?

    python -m benchmarks.quality.branches [tests/test_api.py …]

The tests run in one process under coverage.py, all of them unless some are named, and the
branches of four rooms are counted. A line that only another system or a missing package reaches
counts as well.
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
SETTINGS = """[run]
branch = True
source = avow/retrieval,avow/api,avow/indexes,avow/trust
data_file = {place}/data
[report]
exclude_also =
    if TYPE_CHECKING:
    @abstractmethod
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tests", nargs="*", default=["tests"])
    parser.add_argument(
        "--report", type=Path, help="made before by `coverage json`; run nothing"
    )
    chosen = parser.parse_args()
    report = json.loads(chosen.report.read_text()) if chosen.report else measured(chosen.tests)
    figures = {"tests": chosen.tests, "rooms": rooms(report), "worst": worst(report)}
    print(json.dumps(figures, indent=1), "->", keep("branches", figures))


def measured(tests: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        settings = Path(place) / "settings"
        settings.write_text(SETTINGS.format(place=place))
        run = [sys.executable, "-m", "coverage"]
        how = ["--rcfile", str(settings)]
        words = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
        subprocess.run([*run, "run", *how, *words], cwd=ROOT, env=os.environ | paths)
        target = Path(place) / "report.json"
        subprocess.run([*run, "json", *how, "-o", str(target)], cwd=ROOT, check=True)
        return json.loads(target.read_text())


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
