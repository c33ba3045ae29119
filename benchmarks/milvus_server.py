"""The Milvus server of the package `milvus`: started, or started again as it was.

    pip install milvus==2.3.5        # x86-64 only
    python -m benchmarks.milvus_server FOLDER [--port 19530] [--stop]

What was started over FOLDER before is ended first; the new server goes on when this command
ends, as `--restart` of `benchmarks.quality.stores` wants it. It listens on all addresses of the
machine: run it where nobody else reaches it, as in a network namespace.

Left alone, the package takes the next port where its own still has connections of the server
before, which the system keeps for a minute. It asks by binding a socket without SO_REUSEADDR,
which the server itself sets; here it is asked with it.
"""

import argparse
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import milvus  # pyrefly: ignore [missing-import]  (x86-64 only)

PORT, PATIENCE = 19530, 10.0
TICK_MS = 10
"""A consistent read waits for the next one; by default they are 200 ms apart."""


class Config(milvus.MilvusServerConfig):
    def try_bind_port(self, port: int) -> socket.socket | None:
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--stop", action="store_true", help="end it, and start none")
    chosen = parser.parse_args()
    noted = chosen.folder / "pid"
    if noted.exists():
        end(int(noted.read_text()), chosen.folder)
        noted.unlink()
    if not chosen.stop:
        noted.parent.mkdir(parents=True, exist_ok=True)
        noted.write_text(str(start(chosen.folder, chosen.port)))


def start(folder: Path, port: int) -> int:
    """The process of a server that answers, and goes on without this one."""
    server = milvus.MilvusServer(Config(), proxy_port=port)
    server.set_base_dir(str(folder))
    server.config.set("proxy.timeTickInterval", TICK_MS)
    server.start()
    process = server.server_proc.pid
    server.server_proc = None  # else it is stopped when this command ends
    return process


def end(process: int, folder: Path) -> None:
    """Ask a server to end, and kill it where it does not; the package waits a second only."""
    program = Path(f"/proc/{process}/exe").resolve()
    if not program.is_relative_to(folder.resolve()):
        return  # it ended before, and something else may have its number
    with suppress(ProcessLookupError):
        for order in (signal.SIGTERM, signal.SIGKILL):
            os.kill(process, order)
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                time.sleep(0.1)
                os.kill(process, 0)


if __name__ == "__main__":
    main()
