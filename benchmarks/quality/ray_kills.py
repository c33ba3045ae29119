"""Kill workers, nodes and the driver of `avow index --ray`: is the index that of one process?

    python -m benchmarks.quality.ray_kills [--kills 30] [--shards 60] [--pictures 8]

A Ray cluster of a head and two nodes runs on this host. The real command indexes tars and a
folder; a worker, a whole node or the command itself is killed by SIGKILL in turn, again and
again. When a round is done, its index is compared with that of one process that nobody
disturbed: the same items with the same numbers, the same vectors to the bit, the same list of
unreadable files.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._ray_nodes import Nodes, nodes
from benchmarks.quality._equal_indexes import contents, png, write_folder, write_tar

ROOT = Path(__file__).parents[2]
KINDS = ("worker", "node", "driver")
PATIENCE = 600.0  # seconds: it only ends what would hang


def main() -> None:
    from benchmarks._report import keep, sizes_parser

    chosen = sizes_parser(__doc__, kills=30, shards=60, pictures=8, seed=0).parse_args()
    with tempfile.TemporaryDirectory() as name, nodes(2) as cluster:
        data = write_data(Path(name), chosen.shards, chosen.pictures)
        figures = killed(Path(name), data, cluster, chosen.kills, random.Random(chosen.seed))
    path = keep("ray_kills", {"nodes": 2, **figures})
    print(figures, "->", path)


def write_data(place: Path, shards: int, pictures: int) -> list[str]:
    """The sources: tars, each with a broken picture, and a folder."""
    for shard in range(shards):
        numbers = range(shard * pictures, (shard + 1) * pictures)
        members = {f"{number:06}.png": png(number) for number in numbers}
        write_tar(place / "tars" / f"{shard:05}.tar", members | {"bad.png": b"broken"})
    write_folder(place / "photos", 4 * pictures, first=10**6)
    return [f"{place}/tars/*.tar", str(place / "photos")]


def killed(
    place: Path, data: list[str], cluster: Nodes, kills: int, draw: random.Random
) -> dict[str, Any]:
    """Rounds of indexing until so many were killed; every round ends undisturbed."""
    whole = place / "whole"
    if command(data, whole).wait():
        raise SystemExit("avow index failed")
    expected = contents(whole)
    counts: Counter[str] = Counter()
    rounds = equal = 0
    started = time.monotonic()
    while counts.total() < kills:
        index = place / f"round{rounds}"
        one_round(data, index, cluster, draw, lambda: counts.total() < kills, counts)
        rounds += 1
        equal += contents(index) == expected
        print(f"round {rounds}: {dict(counts)}, {equal} equal", file=sys.stderr, flush=True)
    return {
        "kills": counts.total(),
        **{f"{kind}_kills": counts[kind] for kind in KINDS},
        "rounds": rounds,
        "equal_rounds": equal,
        "items": sum(not name.startswith("skipped ") for name in expected),
        "unreadable": sum(name.startswith("skipped ") for name in expected),
        "seconds": round(time.monotonic() - started, 1),
    }


def one_round(
    data: list[str],
    index: Path,
    cluster: Nodes,
    draw: random.Random,
    more: Callable[[], bool],
    counts: Counter[str],
) -> None:
    """Index until it is done, killing meanwhile while there are `more` to kill."""
    running, before = command(data, index, cluster.address), ""

    def is_at_work() -> bool:
        """Something must get done between two turns, or a round never ends."""
        return ingested(index) != before and bool(cluster.workers())

    while True:
        if not more():
            code = running.wait(PATIENCE)
        elif not wait_until(running, is_at_work):
            raise SystemExit("no worker has begun")
        else:
            code = running.poll()
        if code is None:
            before = ingested(index)
            for kind in KINDS:  # close together, so that they meet each other's repairs
                time.sleep(draw.random())
                if more() and running.poll() is None:
                    counts[kind] += kill(kind, running, cluster, draw)
            continue
        if code == 0:
            return
        told = index.with_suffix(".txt").read_text()[-3000:]
        if code != -signal.SIGKILL and "run the same command again" not in told:
            raise SystemExit(f"avow index ended with {code}:\n{told}")
        running = command(data, index, cluster.address)


def kill(
    kind: str, running: subprocess.Popen[bytes], cluster: Nodes, draw: random.Random
) -> bool:
    """Whether something was killed."""
    if kind == "worker":
        return cluster.kill_worker(draw.randrange(8))
    if kind == "node":
        cluster.kill_node(draw.randrange(len(cluster.nodes)))
        return True
    running.send_signal(signal.SIGKILL)
    return running.wait() == -signal.SIGKILL


def ingested(index: Path) -> str:
    try:
        return (index / "work" / "ingested").read_text()
    except OSError:
        return ""


def wait_until(running: subprocess.Popen[bytes], state: Callable[[], bool]) -> bool:
    """Wait for a state, or for the end of the command; False where neither comes."""
    started = time.monotonic()
    while running.poll() is None and not state():
        if time.monotonic() - started > PATIENCE:
            return False
        time.sleep(0.05)
    return True


def command(data: list[str], index: Path, address: str = "") -> subprocess.Popen[bytes]:
    words = ["index", *data, "--index", str(index), "--model", "plugged.colours"]
    words += ["--transfer", "0", "--batch", "4", *(["--ray", address] if address else [])]
    outside = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    settings = {"PYTHONPATH": outside, "OMP_NUM_THREADS": "1"}
    with index.with_suffix(".txt").open("a") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "avow", *words],
            env=os.environ | settings,
            stdout=told,
            stderr=told,
        )


if __name__ == "__main__":
    main()
