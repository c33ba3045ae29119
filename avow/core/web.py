"""Fetch a file whose URL stands in a table that anybody may have written.

Only http and https, and only from public addresses: a table must not make this machine read
its own services or those of the network it stands in. Where a proxy is set, the proxy decides.
AVOW_PRIVATE_ADDRESSES=1 allows every address.
"""

import http.client
import ipaddress
import os
import socket
import urllib.error
import urllib.request
from typing import Any, NoReturn

from avow.core.errors import Unavailable

TIMEOUT = 20.0
_PRIVATE = "AVOW_PRIVATE_ADDRESSES"


class _NotPublic(ValueError):
    """An address inside this network."""


class _Http(http.client.HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _check_peer(self)


class _Https(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _check_peer(self)


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Http, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Https, req)


class _NoFtp(urllib.request.FTPHandler):
    """A redirection may lead to ftp, where no address would be looked at."""

    def ftp_open(self, req: urllib.request.Request) -> NoReturn:
        raise ValueError(f"it leads to {req.full_url[:200]!r}; only http and https are fetched")


def fetch_public(url: str, most: int) -> bytes:
    """The bytes at a URL.

    ValueError where they are refused, `Unavailable` where they may come another time, or with
    another setting.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in ("http", "https"):
        raise ValueError(f"a URL of kind {scheme[:20]!r}; only http and https are fetched")
    handlers: list[Any] = [_NoFtp]
    if os.environ.get(_PRIVATE) != "1" and scheme not in urllib.request.getproxies():
        handlers += [_HttpHandler, _HttpsHandler]
    opener = urllib.request.build_opener(*handlers)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "avow"})
        with opener.open(request, timeout=TIMEOUT) as answer:
            data = answer.read(most + 1)
    except urllib.error.HTTPError as error:
        with error:
            reason = f"the server answers {error.code} for {url[:200]!r}"
        if error.code >= 500 or error.code == 429:
            raise Unavailable(reason) from error
        raise ValueError(reason) from error
    except _NotPublic as error:
        raise Unavailable(str(error)) from error
    except (OSError, http.client.HTTPException) as error:
        reason = f"{url[:200]!r} cannot be fetched ({_reason(error)})"
        if _no_such_host(error):
            raise ValueError(reason) from error
        raise Unavailable(reason) from error
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data


def _check_peer(connection: http.client.HTTPConnection) -> None:
    """After connecting, so that no second look-up of the name can lead elsewhere."""
    address = connection.sock.getpeername()[0].partition("%")[0]
    if not ipaddress.ip_address(address).is_global:
        connection.close()
        raise _NotPublic(
            f"{connection.host!r} is the address {address}, which is not public; set "
            f"{_PRIVATE}=1 to fetch it"
        )


def _no_such_host(error: Exception) -> bool:
    """Whether the name will not be there next time either."""
    cause = getattr(error, "reason", error)
    return isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "reason", error)).split())[:120]
