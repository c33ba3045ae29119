"""Hosts and the links between them: network namespaces, or ports of this machine.

    proxy -- one -- database
      '----- two -----'

Each line is a link that can be cut and slowed. With the rights of root each host is a network
namespace and each link a pair of virtual devices: a cut link loses packets, as a pulled cable
does. Elsewhere each link is a relay between ports, which holds back what it was given.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from typing import Protocol

HOSTS = ("one", "two", "db")
LINKS = {
    "proxy-one": ("proxy", "one"),
    "proxy-two": ("proxy", "two"),
    "one-db": ("one", "db"),
    "two-db": ("two", "db"),
}
DELAY = 0.2
"""Seconds, each way, of a slow link."""
RATE = "256kbit"
"""Of a slow link, where the kernel can only narrow it."""
SERVER, DATABASE = 8080, 5432


class Network(Protocol):
    form: str

    def command(self, host: str, line: Sequence[str]) -> list[str]: ...
    def bind(self, host: str) -> tuple[str, int]:
        """Where the program of a host listens."""
        ...

    def reach(self, link: str) -> tuple[str, int]:
        """Where the near end of a link reaches the program at its far end."""
        ...

    def cut(self, link: str) -> None: ...
    def mend(self, link: str) -> None: ...
    def slow(self, link: str) -> str:
        """Slow a link; how."""
        ...

    def close(self) -> None: ...


class Namespaces:
    """Needs root, `ip` and the kernel's network namespaces."""

    form = "network namespaces"

    def __init__(self) -> None:
        self._mark = f"av{os.getpid() % 10_000_000}"
        self._made: list[str] = []
        try:
            for host in HOSTS:
                _run("ip", "netns", "add", self._name(host))
                self._made.append(host)
                _run("ip", "-n", self._name(host), "link", "set", "lo", "up")
            for number, link in enumerate(LINKS):
                self._connect(number, link)
        except BaseException:
            self.close()
            raise

    def _connect(self, number: int, link: str) -> None:
        near, far = LINKS[link]
        ends = [f"{self._mark}{number}{side}" for side in "ab"]
        line = ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]]
        _run(*line, "netns", self._name(far))
        if near != "proxy":
            _run("ip", "link", "set", ends[0], "netns", self._name(near))
        for host, end, last in ((near, ends[0], 1), (far, ends[1], 2)):
            address = f"10.77.{number}.{last}/30"
            _run(*self._ip(host), "addr", "add", address, "dev", end)
            _run(*self._ip(host), "link", "set", end, "up")

    def command(self, host: str, line: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._name(host), *line]

    def bind(self, host: str) -> tuple[str, int]:
        return "0.0.0.0", DATABASE if host == "db" else SERVER

    def reach(self, link: str) -> tuple[str, int]:
        number = list(LINKS).index(link)
        return f"10.77.{number}.2", DATABASE if LINKS[link][1] == "db" else SERVER

    def cut(self, link: str) -> None:
        host, end = self._end(link)
        _run(*self._ip(host), "link", "set", end, "down")

    def mend(self, link: str) -> None:
        host, end = self._end(link)
        _run(*self._ip(host), "link", "set", end, "up")
        with suppress(subprocess.CalledProcessError):
            _run(*self._tc(host), "qdisc", "del", "dev", end, "root")

    def slow(self, link: str) -> str:
        host, end = self._end(link)
        line = (*self._tc(host), "qdisc", "add", "dev", end, "root")
        try:
            _run(*line, "netem", "delay", f"{DELAY * 1000:g}ms")
            return f"{DELAY * 1000:g} ms later (netem)"
        except subprocess.CalledProcessError:
            _run(*line, "tbf", "rate", RATE, "burst", "16k", "latency", "800ms")
            return f"{RATE} (tbf; this kernel has no netem)"

    def close(self) -> None:
        for host in self._made:
            _run("ip", "netns", "del", self._name(host))
        self._made.clear()

    def _name(self, host: str) -> str:
        return f"{self._mark}-{host}"

    def _end(self, link: str) -> tuple[str, str]:
        """The far end of a link: what it sends is held back."""
        return LINKS[link][1], f"{self._mark}{list(LINKS).index(link)}b"

    def _ip(self, host: str) -> list[str]:
        return ["ip"] if host == "proxy" else ["ip", "-n", self._name(host)]

    def _tc(self, host: str) -> list[str]:
        return ["tc"] if host == "proxy" else ["tc", "-n", self._name(host)]


class Loopback:
    """Every host is a port of this machine, every link a relay."""

    form = "loopback with relays"

    def __init__(self) -> None:
        self._ports = {host: free_port() for host in HOSTS}
        self._relays = {link: Relay(self._ports[far]) for link, (_, far) in LINKS.items()}

    def command(self, host: str, line: Sequence[str]) -> list[str]:
        return list(line)

    def bind(self, host: str) -> tuple[str, int]:
        return "127.0.0.1", self._ports[host]

    def reach(self, link: str) -> tuple[str, int]:
        return "127.0.0.1", self._relays[link].port

    def cut(self, link: str) -> None:
        self._relays[link].passes.clear()

    def mend(self, link: str) -> None:
        self._relays[link].mend()

    def sever(self, link: str) -> None:
        """End its connections, and those that are made until it is mended."""
        self._relays[link].severed = True
        self._relays[link].break_all()

    def swallow(self, link: str) -> None:
        """Lose every answer, and then the connections: what was asked for is done."""
        self._relays[link].swallows = True

    def slow(self, link: str) -> str:
        self._relays[link].delay = DELAY
        return f"{DELAY * 1000:g} ms later, each way (relay)"

    def close(self) -> None:
        for relay in self._relays.values():
            relay.close()


class Relay:
    """Passes bytes on between a port of its own and another; what is cut waits."""

    def __init__(self, target: int):
        self.passes, self.delay = Event(), 0.0
        self.severed = self.swallows = False
        self._open: list[socket.socket] = []
        self.passes.set()
        self._target, self._ended = target, False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended = True
        self.passes.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def mend(self) -> None:
        """Pass everything on again; connections whose answers were lost are ended."""
        if self.swallows:
            self.break_all()
        self.severed = self.swallows = False
        self.delay = 0.0
        self.passes.set()

    def break_all(self) -> None:
        """End every connection, as a host that is gone does when it is back."""
        ended, self._open = self._open, []
        for end in ended:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._ended:
                near, _ = self._listening.accept()
                if self.severed:
                    near.close()
                    continue
                Thread(target=self._connect, args=[near], daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self.passes.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._open += [near, far]
        back = Thread(target=self._pump, args=[far, near, True], daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        near.close()
        far.close()

    def _pump(
        self, source: socket.socket, target: socket.socket, answers: bool = False
    ) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                self.passes.wait()
                if self.delay:
                    time.sleep(self.delay)
                if not (answers and self.swallows):
                    target.sendall(content)
        for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
            with suppress(OSError):
                end.shutdown(how)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        return one.getsockname()[1]


@contextmanager
def network(form: str) -> Iterator[Network]:
    """form: "namespaces", "loopback", or "any": the first where that can be made."""
    made: Network
    try:
        if form == "loopback":
            made = Loopback()
        else:
            if shutil.which("ip") is None or shutil.which("tc") is None:
                raise OSError("there is no `ip` or no `tc`")
            made = Namespaces()
    except (OSError, subprocess.CalledProcessError) as error:
        if form == "namespaces":
            raise SystemExit(f"Network namespaces cannot be made here: {error}") from error
        print(f"Network namespaces cannot be made here ({error}); ports and relays instead.")
        made = Loopback()
    try:
        yield made
    finally:
        made.close()


def _run(*line: str) -> None:
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, line, stderr=done.stderr)
