"""What a person waits for at the command line: cold commands, a missing index, warm searches.

    python -m benchmarks.speed.product FOLDER --files 200

Every command is a process of its own, started several times. Its processor time hardly depends
on what else the machine does, so that is what the page shows; the least time on the wall beside
it. Other programs are named on the page by their documentation; `rclip.py` measures one.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import avow
from benchmarks._report import commit, keep
from benchmarks.speed.search_half import QUERIES, Version, copied

ROOT = Path(__file__).parent.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="photographs")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        version = Version(sys.executable, ROOT, place / "home")
        version.home.mkdir()
        pictures = copied(chosen.folder, place / "pictures", chosen.files)
        index = place / "index"
        version.measured("index", str(pictures), "--index", str(index))
        first = str(sorted(pictures.iterdir())[0])
        commands: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
            "missing_index": (("search", "a dog", "--index", str(place / "none")), (1,)),
            "search": (("search", QUERIES[0], "--index", str(index)), (0, 3)),
            "similar": (("similar", first, "--index", str(index)), (0, 3)),
            "status": (("status", "--index", str(index)), (0,)),
            "version": (("--version",), (0,)),
        }
        figures: dict[str, Any] = {"commit": commit(), "files": chosen.files}
        for label, (words, ends) in commands.items():
            taken = [version.measured(*words, ends=ends) for _ in range(chosen.rounds)]
            figures[f"{label}_cpu_s"] = round(statistics.median(one[1] for one in taken), 3)
            figures[f"{label}_least_s"] = round(min(one[0] for one in taken), 3)
        figures |= warm(index, chosen.rounds)
    figures |= {"load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1)}
    path = keep("product", figures)
    for label, value in figures.items():
        print(f"{label}: {value}")
    print("->", path)


def warm(index: Path, rounds: int) -> dict[str, float]:
    """Searches of an open index: one by one, and many at once."""
    retriever = avow.open(index)
    retriever.search(QUERIES[0])
    single, together = [], []
    for _ in range(rounds):
        started = time.process_time()
        for query in QUERIES:
            retriever.search(query)
        single.append((time.process_time() - started) / len(QUERIES))
        many = [f"{query} {number}" for query in QUERIES for number in range(8)]
        started = time.process_time()
        retriever.search_many(many)
        together.append((time.process_time() - started) / len(many))
    return {
        "warm_cpu_ms": round(1000 * statistics.median(single), 1),
        "many_cpu_ms_each": round(1000 * statistics.median(together), 1),
    }


if __name__ == "__main__":
    main()
