"""Who may ask, from where, and how much: checked before any route sees a request.

    not too often? -> Host is ours? -> not sent by a foreign page? -> token? -> body small
    enough? -> route

The Host check keeps a foreign page from reaching this server under its own name (DNS
rebinding): an address in numbers cannot be rebound, any other name has to be known. The
origin check keeps a foreign page from posting to it blindly.
"""

import hmac
import ipaddress
import math
import socket
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from avow.api.clients import Proxies, Rates, address_of, without_port
from avow.api.limits import Limits
from avow.api.logs import LOG
from avow.api.refusals import Refusal, refusal_response
from avow.api.turns import Turns

COOKIE = "avow_token"
_OURS = "The server made a mistake of its own; its log says which."
OPEN = ("/api/health", "/api/ready")
"""What a watchdog may ask without a token; it tells nothing of the index."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' blob:; media-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Guard:
    """The layer before the routes; nothing that it stops reaches one."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        hosts: Collection[str],
        limits: Limits,
        proxies: Proxies,
        rates: Rates | None,
    ):
        self.app = app
        self.proxies, self.rates = proxies, rates
        self.token = token
        self.hosts = {without_port(host) for host in (*hosts, *own_names())}
        self.limits = limits
        self.turns = Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] not in OPEN:
            await self.turns.wait()
        send = _with_headers(send)
        response = self._stopped(scope)
        if response is not None:
            await response(scope, receive, send)
            return
        most = self._most(Headers(scope=scope))
        await self._go_on(scope, _bounded(receive, most), send)

    async def _go_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Even a mistake of our own leaves with a sentence and with the headers."""
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, note)
        except ClientDisconnect:
            return  # went away, or took too long to send its body
        except Exception as error:
            LOG.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            if not begun:
                await refusal_response(500, _OURS)(scope, receive, send)

    def _stopped(self, scope: Scope) -> Response | None:
        """What to say instead of going on; None where nothing is wrong."""
        headers = Headers(scope=scope)
        if (wait := self._wait(scope)) > 0:
            return refusal_response(
                429,
                f"More requests came from your address than {self.limits.rate:g} per second. "
                f"Ask again in {math.ceil(wait)} s.",
                {"Retry-After": str(math.ceil(wait))},
            )
        if not self._is_ours(headers.get("host", "")):
            return refusal_response(
                421,
                f"This server does not go by the name {headers.get('host', '')!r}. Use its "
                "address in numbers, or start it with --allow-host and that name.",
            )
        if "\0" in scope["path"]:  # no file has such a name, and some libraries stumble over it
            return refusal_response(404, "There is nothing here.")
        if _is_foreign(headers):
            return refusal_response(
                403, "Another site sent this request, and only the page may."
            )
        if (answer := self._unknown(scope, headers)) is not None:
            return answer
        if not _is_utf8(headers.get("content-type", "")):
            return refusal_response(
                415, "The request names another character set. Send it as UTF-8."
            )
        length, most = headers.get("content-length", "0"), self._most(headers)
        if not length.isdecimal() or len(length) > 15 or int(length) > most:
            return refusal_response(413, too_large(most))
        return None

    def _wait(self, scope: Scope) -> float:
        """Seconds that this client has to wait; a watchdog never has to."""
        if self.rates is None or scope["path"] in OPEN:
            return 0.0
        return self.rates.wait(address_of(self.proxies.client(scope)).key)

    def _most(self, headers: Headers) -> int:
        """Bytes of a body: a form is read part by part, anything else is parsed in one go."""
        form = headers.get("content-type", "").lower().startswith("multipart/form-data")
        most = self.limits.upload_bytes
        return most if form else min(most, self.limits.json_bytes)

    def _is_ours(self, host: str) -> bool:
        name = without_port(host)
        return name in self.hosts or _is_number(name)

    def _unknown(self, scope: Scope, headers: Headers) -> Response | None:
        if self.token is None:
            return None
        if scope["path"] == "/" and (token := _asked_token(scope)) is not None:
            return self._let_in(token, scope)
        if not scope["path"].startswith("/api/") or scope["path"] in OPEN:
            return None
        if any(_equal(token, self.token) for token in _given_tokens(headers)):
            return None
        return refusal_response(
            401,
            "This server asks for a token. Open the address that `avow serve` printed, or "
            "send the header 'Authorization: Bearer <token>'.",
            {"WWW-Authenticate": "Bearer"},
        )

    def _let_in(self, token: str, scope: Scope) -> Response:
        """Move the token from the address, where it would be seen, to a cookie."""
        rest = parse_qs(scope["query_string"].decode("latin-1"))
        rest.pop("token", None)
        # relative: a proxy may serve the page below a path of its own
        answer = RedirectResponse("./?" + urlencode(rest, doseq=True) if rest else "./", 303)
        if self.token is not None and _equal(token, self.token):
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
        return answer


def own_names() -> set[str]:
    """The names by which this machine calls itself."""
    machine = socket.gethostname()
    return {"localhost", machine, f"{machine.partition('.')[0]}.local"}


def too_large(most: int) -> str:
    return (
        f"The request is larger than {most / 1e6:.1f} MB, which is the most this server "
        "reads. Send a smaller one."
    )


def _is_utf8(content_type: str) -> bool:
    """Some codecs of Python take very long, and some decode to what is no text."""
    _, options = parse_options_header(content_type)
    return options.get(b"charset", b"utf-8").lower() in (b"utf-8", b"utf8")


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_foreign(headers: Headers) -> bool:
    if headers.get("sec-fetch-site") == "cross-site" and "navigate" != headers.get(
        "sec-fetch-mode"
    ):
        return True
    origin = headers.get("origin")
    return origin is not None and _authority(origin) != headers.get("host", "").lower()


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _asked_token(scope: Scope) -> str | None:
    asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return asked["token"][0] if "token" in asked else None


def _given_tokens(headers: Headers) -> list[str]:
    kind, _, value = headers.get("authorization", "").partition(" ")
    tokens = [value.strip()] if kind.lower() == "bearer" else []
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        cookie = None
    return tokens + ([cookie.value] if cookie is not None else [])


def _equal(candidate: str, token: str) -> bool:
    """Compare in constant time, so that timing reveals nothing of the token."""
    return hmac.compare_digest(candidate.encode(), token.encode())


def _bounded(receive: Receive, most: int) -> Receive:
    """Stop reading a body whose length nobody declared, or whose length was a lie."""
    received = 0

    async def read() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise Refusal(413, too_large(most))
        return message

    return read


def _with_headers(send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return tell
