"""Two servers over one store behind a proxy: parts are killed, links cut and slowed.

    python -m benchmarks.serving.topology FOLDER

While clients search and tick, each fault is made, held and mended. Counted are answers that
differ from those before any fault, ticks that the server had acknowledged and the store does
not hold, and requests that failed: how, and for how long.
"""

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import _report
from benchmarks.serving._cluster import NAME, Database, Server, wait_until
from benchmarks.serving._links import Network, network
from benchmarks.serving._load import CLIENTS, Load, answer_of, asked, figures_of, search_path
from benchmarks.serving._proxy import Proxy

TEXTS = ("a dog", "two people", "a red car", "water", "a child", "the sky", "a house", "snow")
CALM, HELD = 2.0, 8.0
"""Seconds before a fault, and for which it lasts."""
Fault = tuple[str, Callable[[], object], Callable[[], object]]


class Topology:
    """The servers, their store and the proxy, and what can be done to them."""

    def __init__(self, net: Network, place: Path, pictures: Path, index: str | None):
        """index: a folder that both servers open, filled; None: a store in PostgreSQL."""
        self.net = net
        self.database = None if index is not None else Database(net, place / "pg")
        self.index = index or f"postgres:{NAME}"
        self.servers = {
            host: Server(net, host, self.index, self._dsn(host), place / f"{host}.log")
            for host in ("one", "two")
        }
        self.pictures = pictures

    def _dsn(self, host: str) -> str | None:
        return None if self.database is None else self.database.dsn(host)

    def start(self) -> None:
        if self.database is not None:
            self.database.start()
            self.servers["one"].run("index", str(self.pictures), "--index", self.index)
        for server in self.servers.values():
            server.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        for host, server in self.servers.items():
            wait_until(lambda server=server: server.is_ready, f"server {host}")

    def close(self) -> None:
        for server in self.servers.values():
            server.end(signal.SIGKILL)
        if self.database is not None:
            self.database.stop()

    def faults(self) -> list[Fault]:
        one, net = self.servers["one"], self.net
        made: list[Fault] = [
            ("a server is killed", lambda: one.end(signal.SIGKILL), one.start),
            ("a server is told to end", lambda: one.end(signal.SIGTERM), one.start),
            ("cut: proxy to one server", *_cut(net, "proxy-one")),
            ("slow: proxy to one server", *_slowed(net, "proxy-one")),
        ]
        if self.database is not None:
            database = self.database
            made += [
                ("the database is killed", database.kill, database.start),
                ("cut: one server to the database", *_cut(net, "one-db")),
                ("cut: both servers to the database", *_cut(net, "one-db", "two-db")),
                ("slow: one server to the database", *_slowed(net, "one-db")),
            ]
        return made


def _cut(net: Network, *links: str) -> tuple[Callable[[], object], Callable[[], object]]:
    return (lambda: [net.cut(link) for link in links] and None), (
        lambda: [net.mend(link) for link in links] and None
    )


def _slowed(net: Network, link: str) -> tuple[Callable[[], object], Callable[[], object]]:
    return (lambda: net.slow(link)), (lambda: net.mend(link))


def measure(topology: Topology, only: str = "") -> list[dict[str, Any]]:
    """Every fault, one after another; `only`: those whose name holds this."""
    rows = []
    with Proxy([topology.net.reach(f"proxy-{host}") for host in ("one", "two")]) as proxy:
        wait_until(lambda: all(proxy.ready), "the proxy to see both servers")
        contents = {text: asked(proxy.address, search_path(text))[1] for text in TEXTS}
        known = {text: answer_of(content) for text, content in contents.items()}
        item = next(hits[0][0] for _, hits in known.values() if hits)
        for name, make, mend in topology.faults():
            if only not in name:
                continue
            with Load(proxy.address, known, item, name) as load:
                time.sleep(CALM)
                began = time.monotonic()
                how = make()
                time.sleep(max(0.0, HELD - (time.monotonic() - began)))
                mend()
                ended = time.monotonic()
                topology.wait_ready()
                wait_until(lambda: all(proxy.ready), "the proxy to see both servers")
                ready = time.monotonic() - ended
                time.sleep(CALM)
            lost = load.kept - topology.servers["one"].ticks()
            row = {"fault": name, "how": how if isinstance(how, str) else None}
            row |= figures_of(load.seen, began, ended)
            row |= {"ready_again_after": round(ready, 2)}
            row |= {"ticks_acknowledged": len(load.kept), "ticks_lost": len(lost)}
            rows.append(row)
            print(row, flush=True)
    return rows


def run(form: str, pictures: Path, index: str | None, only: str = "") -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="avow-topology-") as place, network(form) as net:
        os.chmod(place, 0o755)  # the database is another user
        topology = Topology(net, Path(place), pictures, index)
        try:
            topology.start()
            return {
                "form": net.form,
                "store": topology.index,
                "rows": measure(topology, only),
            }
        finally:
            topology.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of pictures to index")
    parser.add_argument(
        "--form", choices=("namespaces", "loopback", "any", "both"), default="both"
    )
    parser.add_argument("--only", default="", help="faults whose name holds this")
    chosen = parser.parse_args()
    forms = ("any", "loopback") if chosen.form == "both" else (chosen.form,)
    began, load = time.monotonic(), os.getloadavg()[0]
    runs = [run(form, chosen.folder, None, chosen.only) for form in forms]
    _report.keep(
        "topology",
        {
            "runs": runs,
            "clients": CLIENTS,
            "held_seconds": HELD,
            "pictures": sum(one.is_file() for one in chosen.folder.rglob("*")),
            "load_before": round(load, 2),
            "seconds": round(time.monotonic() - began, 1),
            "commit": _report.commit(),
        },
    )


if __name__ == "__main__":
    main()
