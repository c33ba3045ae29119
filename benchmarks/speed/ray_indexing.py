"""How fast pictures are indexed on Ray with one node and with two, beside one process.

    python -m benchmarks.speed.ray_indexing FOLDER [--files 512] [--rounds 3]

Real pictures in WebDataset tars, the default model, one core a worker, all nodes on this host.
The ways run in turn, several times; what is compared is what they reach in the same minutes. A
small run before each one opens the models of the workers, which is not measured.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from avow.core.formats import is_picture
from avow.core.searching import Encoder
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.store.walk import walk
from benchmarks._ray_nodes import Nodes, nodes
from benchmarks.quality._equal_indexes import write_tar

SHARD = 32


def main() -> None:
    from benchmarks._report import keep

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    files = [
        path for path, seen in walk([chosen.folder]).files.items() if is_picture(seen.suffix)
    ][: chosen.files]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for start in range(0, len(files), SHARD):
            some = files[start : start + SHARD]
            members = {os.path.basename(path): Path(path).read_bytes() for path in some}
            write_tar(place / "tars" / f"{start // SHARD:05}.tar", members)
            if start < 4 * SHARD:
                few = dict(list(members.items())[:4])
                write_tar(place / "warm" / f"{start // SHARD:05}.tar", few)
        rates = measured(place, chosen.rounds)
    figures = {
        "files": len(files),
        "shard": SHARD,
        "rounds": chosen.rounds,
        "load_before": round(load, 1),
        **{f"{way}_per_second": round(statistics.median(r), 1) for way, r in rates.items()},
        "two_to_one": ratios(rates["two_nodes"], rates["one_node"]),
        "one_node_to_process": ratios(rates["one_node"], rates["process"]),
    }
    print(figures, "->", keep("ray_indexing", figures))


def ratios(above: list[float], below: list[float]) -> list[float]:
    return [round(one / other, 2) for one, other in zip(above, below, strict=True)]


def measured(place: Path, rounds: int) -> dict[str, list[float]]:
    """Pictures a second of every way and round."""
    import ray

    encoder = open_encoder("default", threads=1)
    rates: dict[str, list[float]] = {"process": [], "one_node": [], "two_nodes": []}
    with nodes(2) as cluster:
        ray.init(cluster.address, log_to_driver=False)
        ways: dict[str, Callable[[Path], float]] = {
            "process": lambda index: rate(index, encoder),
            "one_node": lambda index: on_one(cluster, index, encoder),
            "two_nodes": lambda index: rate(index, encoder, cluster.address),
        }
        try:
            for number in range(rounds):
                for way, run in ways.items():
                    rates[way].append(run(place / f"{way}{number}"))
        finally:
            ray.shutdown()  # before the nodes end
    return rates


def on_one(cluster: Nodes, index: Path, encoder: Encoder) -> float:
    """With the place of the second node taken by somebody else."""
    import ray

    class Guest:
        def here(self) -> bool:
            return True

    guest: Any = ray.remote(num_cpus=1)(Guest).remote()
    ray.get(guest.here.remote())
    try:
        return rate(index, encoder, cluster.address)
    finally:
        ray.kill(guest)


def rate(index: Path, encoder: Encoder, address: str = "") -> float:
    cluster = Cluster(address, "default") if address else None
    how: dict[str, Any] = {"encoder": encoder, "workers": 1, "cluster": cluster}
    source = index.parent
    index_folders([f"{source}/warm/*.tar"], index=index.with_suffix(".warm"), **how)
    started = time.monotonic()
    report = index_folders([f"{source}/tars/*.tar"], index=index, **how)
    return report.new / (time.monotonic() - started)


if __name__ == "__main__":
    main()
