"""Who asks, and how often: addresses of clients, and a limit on their requests.

A client is an IPv4 address or the 64 bits of an IPv6 network. Behind a proxy it is the
address that the proxy names in `X-Forwarded-For`, and only a trusted proxy is believed:
anybody else could name another address at every request.
"""

import ipaddress
import mmap
import secrets
import time
from array import array
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from avow.core.errors import CannotServe

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_SLOTS = 2**16
_SALT = 16  # bytes
_CHAIN = 32  # proxies behind one another, and more entries than that are not read


@dataclass(frozen=True)
class Address:
    """Who is counted as one client."""

    key: str
    is_loopback: bool


@lru_cache(maxsize=4096)  # asked at every connection
def address_of(host: str) -> Address:
    address = _parsed(host)
    if address is None:
        return Address(host, False)
    if isinstance(address, ipaddress.IPv6Address) and not address.is_loopback:
        return Address(str(ipaddress.ip_network((address, 64), strict=False)), False)
    return Address(str(address), address.is_loopback)


def without_port(host: str) -> str:
    """A host without its port and brackets, in small letters."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


class Proxies:
    """Networks whose word on the address of a client is believed."""

    def __init__(self, networks: Collection[str] = ()):
        self._networks = [_network(one) for one in networks]

    def __contains__(self, host: str) -> bool:
        address = _parsed(host) if self._networks else None
        return address is not None and any(address in one for one in self._networks)

    def client(self, scope: Scope) -> str:
        """The address of whoever asks: the last one named that is no trusted proxy."""
        host = (scope.get("client") or ("", 0))[0]
        named = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        for entry in reversed(named[-_CHAIN:]):
            before = without_port(entry)
            if host not in self or _parsed(before) is None:
                break
            host = before
        return host


class Rates:
    """A token bucket for every client, in a table of fixed size.

    A bucket is one number: when it will be full again. Clients share one where their
    addresses fall on the same of 65,536 places, which a secret draws. Processes share the
    table through its file and take no lock: two requests at the very same moment may count
    as one.
    """

    def __init__(self, per_second: float, burst: int, file: Path | None = None):
        self.step, self.room = 1 / per_second, (burst - 1) / per_second
        size = _SALT + 8 * _SLOTS
        if file is None:
            self._table = mmap.mmap(-1, size)
            self._table[:_SALT] = secrets.token_bytes(_SALT)
        else:
            with file.open("r+b") as opened:
                self._table = mmap.mmap(opened.fileno(), size)
        self._salt = bytes(self._table[:_SALT])

    @staticmethod
    def make(file: Path) -> None:
        """Write an empty table for several processes."""
        file.write_bytes(secrets.token_bytes(_SALT) + array("d", bytes(8 * _SLOTS)).tobytes())

    def wait(self, client: str, now: float | None = None) -> float:
        """Seconds until this client may ask; 0: it may, and this request is counted."""
        now = time.monotonic() if now is None else now  # one clock for all processes
        drawn = blake2b(client.encode(), key=self._salt, digest_size=4).digest()
        place = _SALT + 8 * (int.from_bytes(drawn, "big") % _SLOTS)
        bucket = array("d", self._table[place : place + 8])
        full = max(bucket[0], now)
        if full - now > self.room:
            return full - now - self.room
        bucket[0] = full + self.step
        self._table[place : place + 8] = bucket.tobytes()
        return 0.0


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise CannotServe(
            f"{text!r} is no network. Expected an address or a network of proxies, such as "
            "10.0.0.5 or 10.0.0.0/24; correct --trust-proxy."
        ) from error
