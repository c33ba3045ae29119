"""`avow serve`: ask an index from a browser, on this machine or from others."""

import errno
import gc
import importlib.util
import ipaddress
import os
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import quote

import typer

from avow.cli._options import AllowCode, IndexFolder, ModelOfIndex
from avow.cli._terminal import busy
from avow.cli._threads import limit_threads
from avow.core.errors import CannotServe, MissingExtra, WrongIndex

if TYPE_CHECKING:
    from fastapi import FastAPI

    from avow.api.limits import Limits
    from avow.retrieval.search import Retriever

_HAND_OVER = 0.001  # seconds; Python's own is five times that
PACKAGES = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "python_multipart": "python-multipart",
}


Host = Annotated[
    str, typer.Option(help="Address to listen on; 0.0.0.0 for other machines too.")
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")
]
Token = Annotated[
    str | None,
    typer.Option(envvar="AVOW_TOKEN", help="What askers must know; see below."),
]
NoToken = Annotated[
    bool, typer.Option("--no-token", help="Let everybody in, from wherever they ask.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="A further name by which the server is reached; may be repeated."),
]
Roots = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        help="Let the page index folders below this one; may be repeated. Without an index, "
        "and for this machine alone, your home folder is one.",
    ),
]
LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option(
        help="text: lines about trouble; json: one object per line, for requests too."
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        min=1,
        max=256,
        help="Processes that serve the port together, each with the model in memory.",
    ),
]
Rate = Annotated[
    float,
    typer.Option(
        min=0, max=1e6, help="Requests per second of one client, then 429; 0: no limit."
    ),
]
Burst = Annotated[
    int,
    typer.Option(min=1, max=1_000_000, help="Requests that a client may send at once."),
]
TrustProxy = Annotated[
    list[str] | None,
    typer.Option(
        help="Address or network of a proxy that is believed in X-Forwarded-For; may be "
        "repeated.",
    ),
]
Telemetry = Annotated[
    bool,
    typer.Option(
        "--telemetry",
        help="Send traces by OpenTelemetry to OTEL_EXPORTER_OTLP_ENDPOINT; needs "
        "avow[telemetry].",
    ),
]
DrainSeconds = Annotated[
    float,
    typer.Option(
        min=0,
        max=3600,
        help="After SIGTERM, how long to go on with /api/ready at 503, so that a proxy "
        "turns to other servers, before no more requests are taken.",
    ),
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def serve(
    index: IndexFolder = None,
    model: ModelOfIndex = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    token: Token = None,
    no_token: NoToken = False,
    allow_host: AllowHost = None,
    root: Roots = None,
    log_format: LogFormat = "text",
    drain_seconds: DrainSeconds = 0.0,
    processes: Processes = 1,
    rate: Rate = 0.0,
    burst: Burst = 200,
    trust_proxy: TrustProxy = None,
    telemetry: Telemetry = False,
    show: OpenPage = False,
    allow_code: AllowCode = False,
) -> None:
    """Serve an index with a page to search it; Ctrl-C ends it, SIGTERM after what runs.

    Only this machine can ask, unless --host says otherwise; then a token is needed, and one
    is made up where none is given.
    """
    for name, package in PACKAGES.items():
        if importlib.util.find_spec(name) is None:
            raise MissingExtra("The server", package, "server")
    from avow.api.limits import Limits

    settings = Settings(
        index,
        model,
        allow_code,
        _token(host, token, no_token),
        (host, *(allow_host or [])),
        tuple(_roots(root, index, host) if processes == 1 else root or []),
        tuple(trust_proxy or []),
        Limits(drain_seconds=drain_seconds, rate=rate, burst=burst),
        log_format,
        telemetry,
    )
    with listen(host, port) as listening:
        _guard_decoders(host)
        address = _address(host, listening.getsockname()[1], settings.token)

        def tell() -> None:
            typer.echo(f"Avow is at {address}\nCtrl-C ends it.")
            if show:
                Timer(0.5, webbrowser.open, [address]).start()

        if processes > 1:
            raise typer.Exit(_run_many(processes, settings, listening, tell))
        with busy("Loading the model"):
            app = _application(settings)
        tell()
        run(app, listening)


@dataclass(frozen=True)
class Settings:
    """What a process has to know to serve."""

    index: Path | None
    model: str | None
    allow_code: bool
    token: str | None
    hosts: tuple[str, ...]
    roots: tuple[Path, ...]
    proxies: tuple[str, ...]
    limits: "Limits"
    log_format: Literal["text", "json"]
    telemetry: bool = False
    shared: Path | None = None
    """A folder of what several processes know together."""


def _application(settings: Settings) -> "FastAPI":
    from avow.api import create_app, logs
    from avow.api.telemetry import otlp_provider

    logs.set_up(settings.log_format)
    traces = otlp_provider() if settings.telemetry else None
    retriever = open_index(
        settings.index,
        settings.model,
        settings.allow_code,
        may_be_empty=bool(settings.roots),
    )
    return create_app(
        retriever,
        token=settings.token,
        limits=settings.limits,
        hosts=settings.hosts,
        roots=settings.roots,
        proxies=settings.proxies,
        shared=settings.shared,
        traces=traces,
    )


def _run_many(
    count: int, settings: Settings, listening: socket.socket, tell: Callable[[], None]
) -> int:
    """Serve by several processes until somebody ends them; the exit code."""
    if settings.roots:
        raise CannotServe(
            "Several processes index nothing, so --root has no meaning for them. Expected one "
            "of --root and --processes; leave one out, and index with `avow index`."
        )
    with tempfile.TemporaryDirectory(prefix="avow-serve-") as place:
        # read when prometheus_client is imported, here and in every process
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = place
        from avow.api import logs
        from avow.api.app import RATES
        from avow.api.clients import Rates
        from avow.api.processes import Processes as ManyProcesses

        logs.set_up(settings.log_format)
        Rates.make(Path(place) / RATES)
        shared = replace(settings, shared=Path(place))
        limits = settings.limits
        end_seconds = limits.seconds + limits.drain_seconds
        many = ManyProcesses(count, _serve_one, (shared, listening), end_seconds)
        code = many.run(tell)
    typer.echo("The server has ended.")
    return code


def _serve_one(ready: Callable[[], None], settings: Settings, listening: socket.socket) -> None:
    """One of several processes: it takes its connections from the same socket."""
    from avow.api.connections import server_of

    app = _application(settings)
    server = server_of(app, started=ready)
    _favour_answers(app)
    with listening, suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def _roots(given: list[Path] | None, index: Path | None, host: str) -> list[Path]:
    """Folders below which the page may choose; a first visit needs one."""
    from avow.core.places import avow_home

    for root in given or []:
        if not root.expanduser().is_dir():
            raise CannotServe(
                f"There is no folder {str(root)!r}. Expected one for --root, below which the "
                "page may index; check its spelling."
            )
    first_visit = index is None and not (avow_home() / "index").exists()
    return given or ([Path.home()] if first_visit and _is_loopback(host) else [])


def open_index(
    index: Path | None, model: str | None, allow_code: bool = False, may_be_empty: bool = False
) -> "Retriever":
    from avow.core.places import DEFAULT, avow_home, store_address
    from avow.retrieval.encoders.opening import open_encoder
    from avow.retrieval.indexing import make_empty
    from avow.retrieval.search import Retriever

    folder = index or avow_home() / "index"
    if may_be_empty and not folder.exists() and store_address(folder) is None:
        make_empty(index, open_encoder(model or DEFAULT, allow_code=allow_code))
    # one question is too small to share out
    retriever = Retriever.open(index, model, threads=1, allow_code=allow_code)
    if not len(retriever.library) and not may_be_empty:
        raise WrongIndex(
            f"The index in {retriever.library.address!r} holds nothing. Expected pictures "
            "or texts; put some in with `avow index FOLDER`."
        )
    limit_threads(retriever.library)
    retriever.encoder.quicken()  # now, and not while somebody waits for the first answer
    return retriever


def _token(host: str, token: str | None, no_token: bool) -> str | None:
    """What askers must know; none on this machine alone unless somebody wants one."""
    if token is not None and not token.strip():
        raise CannotServe("The token is empty. Expected some letters; leave it out for none.")
    if token is not None and not token.isascii():
        raise CannotServe("The token has letters beyond ASCII. Expected plain ones.")
    if no_token or (token is None and _is_loopback(host)):
        token = None
    else:
        import secrets  # here: every command would wait for its cryptography

        token = token or secrets.token_urlsafe(16)
    if not _is_loopback(host):
        whom = "anybody who reaches it" if token is None else "whoever has the token"
        print(
            f"avow: the server listens on {host!r}, so {whom} can see the indexed pictures; "
            "the connection is not encrypted.",
            file=sys.stderr,
        )
    return token


def _guard_decoders(host: str) -> None:
    """Where other machines can ask, strangers may send pictures."""
    if not _is_loopback(host):
        os.environ.setdefault("AVOW_UNTRUSTED", "pictures")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address, or a sentence on why there is none."""
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = addresses[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _deaf(host, port, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        # claims the port at once: two sockets that only reuse it could both be bound
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise _deaf(host, port, error) from error
    return listening


def _deaf(host: str, port: int, error: OSError) -> CannotServe:
    if error.errno == errno.EADDRINUSE:
        return CannotServe(
            f"Port {port} is taken by another program. Expected a free one; name another "
            f"with --port {port + 1 if port < 65535 else 8080}, or take any with --port 0."
        )
    if error.errno == errno.EACCES:
        return CannotServe(
            f"Port {port} is not for ordinary users. Expected one from 1024 up; name it with "
            "--port."
        )
    return CannotServe(
        f"The server cannot listen on {host!r} ({error.strerror or error}). Expected an "
        "address of this machine, such as 127.0.0.1 or 0.0.0.0; name it with --host."
    )


def _address(host: str, port: int, token: str | None) -> str:
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{name}:{port}/" + (f"?token={quote(token)}" if token else "")


def run(app: "FastAPI", listening: socket.socket) -> None:
    """Serve until somebody ends it."""
    from avow.api.connections import server_of

    server = server_of(app)
    _favour_answers(app)
    with listening, suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    typer.echo("The server has ended.")


def _favour_answers(app: "FastAPI") -> None:
    """Let nothing hold up the event loop for long, whatever the threads of the server do.

    What is loaded by now stays, so no collection of garbage walks over it again: that takes a
    tenth of a second, in which nobody gets an answer. Threads hand over the interpreter sooner,
    and filters, which would take it for every item, have a process of their own.
    """
    app.state.service.retriever.library.filter_apart()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_HAND_OVER)
