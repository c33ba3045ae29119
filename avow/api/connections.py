"""Connections of the server, with an end to waiting: for a request, for its body, for a reader.

    headers not complete in time     -> 408, closed
    body stops, or takes too long    -> 408, closed
    answer is not read               -> closed
    too many connections             -> the one that was silent longest makes room

Whoever opens connections and sends nothing holds them for seconds only, and never keeps
others out: a new connection closes one whose client is expected to send or read something.
All of this comes before a token is asked for.
"""

import asyncio
import json
import math
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import cast

import h11
import uvicorn
from fastapi import FastAPI
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from avow.api.clients import Proxies, address_of
from avow.api.limits import Limits
from avow.api.requests import HEADER, id_of, new_id
from avow.api.room import Room
from avow.api.service import Service

_GOODBYE = 3  # seconds that open connections get to finish
_REASONS = {408: "Request Timeout", 503: "Service Unavailable"}
_LATE = "The request did not arrive in time. Send it again, all of it at once."
_FULL = "The server has too many connections. Ask again in a moment."


def server_of(app: FastAPI, started: Callable[[], None] = lambda: None) -> "Server":
    """A server for an application made by `create_app`, with the limits of its service.

    started: called when it takes requests.
    """
    service = app.state.service
    bounds = {
        "limits": service.limits,
        "proxies": service.proxies,
        "room": Room(service.limits),
    }
    config = uvicorn.Config(
        app,
        http=type("LimitedConnection", (Connection,), bounds),
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GOODBYE,
    )
    return Server(config, service, started)


class Server(uvicorn.Server):
    """Ends soon where somebody presses Ctrl-C, and after its work where it is told to end.

    SIGTERM -> not ready -> goes on for `drain_seconds` -> finishes what runs -> ends
    """

    def __init__(self, config: uvicorn.Config, service: Service, started: Callable[[], None]):
        super().__init__(config)
        self.service, self._tell = service, started
        self._listens_until = math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and not self.service.draining.is_set():
            self.drain()
        else:
            super().handle_exit(sig, frame)

    def drain(self) -> None:
        limits = self.service.limits
        self.service.draining.set()
        self._listens_until = time.monotonic() + limits.drain_seconds
        # a search may take this long; connections that only wait are closed at once
        self.config.timeout_graceful_shutdown = math.ceil(limits.seconds) + _GOODBYE

    async def on_tick(self, counter: int) -> bool:
        if time.monotonic() >= self._listens_until:
            self.should_exit = True
        return await super().on_tick(counter)


class Connection(H11Protocol):
    """One connection of one client."""

    limits = Limits()
    proxies = Proxies()
    room: "Room[Connection]" = Room(limits)
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _phase = ""
    _end = 0.0  # when a body has to be complete, by the loop's clock

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self.address = address_of(host)
        # a proxy brings many people, and so does whatever runs on this machine
        brings_many = self.address.is_loopback or host in self.proxies
        stays, other = self.room.enter(self, brings_many)
        if other is not None:
            other._end_with(503, _FULL)
        if stays:
            self._watch()
        else:
            self._end_with(503, _FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self.room.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.room.heard(self)
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_leaving:
            self.room.leave(self)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        wait = self.limits.answer_seconds
        self._write_timer = self.loop.call_later(wait, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    @property
    def is_waiting(self) -> bool:
        """Whether the next step is the client's: to send the rest, or to read."""
        sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        return sending or self.flow.write_paused

    @property
    def is_leaving(self) -> bool:
        return self.transport.is_closing()

    # --- deadlines -----------------------------------------------------------------------

    def _watch(self) -> None:
        """Set the deadline that fits what is expected of the client now."""
        phase = self._expected()
        begins, self._phase = phase != self._phase, phase
        if phase == "headers" and not begins:
            return  # one deadline for all of them, however often a byte comes
        self._stop_timer()
        now = self.loop.time()
        if phase == "headers":
            self._timer = self.loop.call_later(self.limits.header_seconds, self._late)
        elif phase == "body":
            if begins:
                self._end = now + self.limits.request_seconds
            wait = min(self.limits.body_seconds, max(0.0, self._end - now))
            self._timer = self.loop.call_later(wait, self._late)

    def _expected(self) -> str:
        if self.transport.is_closing():
            return ""
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        idle = self.cycle is not None and not self.conn.trailing_data[0]
        # between two requests, uvicorn's own keep-alive timer runs
        return "headers" if self.conn.their_state is h11.IDLE and not idle else ""

    def _late(self) -> None:
        paused = self._phase == "body" and self.flow.read_paused
        if paused and self.loop.time() < self._end:
            self._timer = self.loop.call_later(self.limits.body_seconds, self._late)
        else:
            self._end_with(408, _LATE)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _stop_timers(self) -> None:
        self._stop_timer()
        self._stop_write_timer()

    def _end_with(self, status: int, sentence: str) -> None:
        """Close, with a sentence for a request that was begun and not answered yet."""
        self._stop_timers()
        self.room.leave(self)
        phase = self._expected()
        unanswered = phase == "body" and not self.cycle.response_started
        if phase == "headers" or unanswered:
            request_id = id_of(cast(Scope, self.cycle.scope)) if unanswered else new_id()
            body = json.dumps({"error": sentence, "request_id": request_id}).encode()
            head = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\nRetry-After: 1\r\n"
                f"{HEADER}: {request_id}\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        if self.flow.write_paused:
            self.transport.abort()  # what is written would wait for the reader
        else:
            self.transport.close()
