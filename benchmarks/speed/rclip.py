"""rclip beside Avow: the size of its install, and one cold search where its model can be had.

    python -m venv /tmp/rclip && /tmp/rclip/bin/pip install rclip
    python -m benchmarks.speed.rclip FOLDER --python /tmp/rclip/bin/python

rclip fetches its model from the model hub when it first runs. Where the hub cannot be reached,
its times are not measured, and the result says so.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._report import commit, keep
from benchmarks.speed.search_half import QUERIES, copied, installed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="photographs")
    parser.add_argument("--python", required=True, help="interpreter with rclip installed")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    asked = "from importlib.metadata import version; print(version('rclip'))"
    named = subprocess.run([chosen.python, "-c", asked], capture_output=True, text=True)
    size = installed(chosen.python, None)
    figures: dict[str, Any] = {
        "commit": commit(),
        "command": "python -m benchmarks.speed.rclip FOLDER --python PYTHON",
        "files": chosen.files,
        "version": named.stdout.strip(),
        "install_without_pyc_mb": size["install_without_pyc_mb"],
        **searches(chosen.python, chosen.folder, chosen.files, chosen.rounds),
    }
    for label, value in figures.items():
        print(f"{label}: {value}")
    print("->", keep("rclip", figures))


def searches(python: str, folder: Path, files: int, rounds: int) -> dict[str, Any]:
    """Processor seconds of a search from nothing; the first, which indexes, is not counted."""
    program = str(Path(python).parent / "rclip")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        pictures = copied(folder, place / "pictures", files)
        around = {**os.environ, "HOME": name, "RCLIP_DATADIR": str(place / "data")}
        around.pop("PYTHONPATH", None)
        taken = []
        for _ in range(rounds + 1):
            before = os.times()
            words = [program, QUERIES[0]]
            done = subprocess.run(
                words, cwd=pictures, env=around, capture_output=True, text=True
            )
            after = os.times()
            if done.returncode:
                told = (done.stderr.strip().splitlines() or ["nothing"])[-1]
                return {"ran": False, "why": told[:200]}
            used = after.children_user + after.children_system
            taken.append(used - before.children_user - before.children_system)
    return {"ran": True, "search_cpu_s": round(statistics.median(taken[1:]), 3)}


if __name__ == "__main__":
    main()
