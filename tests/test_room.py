"""Room for connections, and who goes first: what keeps health quick under any load."""

import asyncio
import gc
import os
import socket
import sys
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from serving import LONG

import avow.cli
from avow.api import connections
from avow.api.clients import Address
from avow.api.jobs import JobList
from avow.api.limits import Limits
from avow.api.room import Room
from avow.api.turns import Turns
from avow.api.workers import Workers
from avow.cli import serve
from avow.core.priority import SCAN, WORK

linux = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities")
ONE, OTHER = Address("192.0.2.1", False), Address("192.0.2.2", False)


@dataclass(eq=False)
class Guest:
    address: Address = ONE
    waits: bool = True
    is_leaving: bool = False
    looked_at: list[int] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        self.looked_at.append(1)
        return self.waits


def full(*guests, **limits):
    room = Room(Limits(**{"connections": len(guests), "connections_per_client": 64, **limits}))
    for guest in guests:
        assert room.enter(guest, brings_many=True) == (True, None)
    for guest in guests:
        guest.looked_at.clear()
    return room


def test_room_is_found_without_looking_at_everybody():
    guests = [Guest() for _ in range(200)]
    room = full(*guests)
    for guest in guests[:5]:
        room.heard(guest)
    for place in range(5, 100):
        new = Guest()
        assert room.enter(new, brings_many=True) == (True, guests[place])
        assert len(room) == 200
    assert sum(len(guest.looked_at) for guest in guests) < 1000  # not 200 each time


def test_whoever_is_served_or_goes_anyway_is_not_closed():
    served, leaving, waiting = Guest(waits=False), Guest(is_leaving=True), Guest()
    room = full(served, leaving, waiting)
    assert room.enter(Guest(waits=False), brings_many=True) == (True, None)
    assert room.enter(Guest(waits=False), brings_many=True) == (True, waiting)
    assert room.enter(Guest(), brings_many=True) == (False, None)
    assert len(room) == 3
    room.leave(served)
    room.leave(served)
    assert len(room) == 2 and room.enter(Guest(), brings_many=True) == (True, None)


def test_a_client_at_its_share_and_the_one_with_most_make_room():
    own, others = Guest(), [Guest(OTHER), Guest(OTHER)]
    room = full(own, *others, connections_per_client=1)
    assert room.enter(Guest(), brings_many=False) == (True, own)
    assert room.enter(Guest(), brings_many=True) == (True, others[0])
    third = Guest(Address("192.0.2.3", False), waits=False)
    room.heard(third)  # not here: nothing happens
    assert room.enter(third, brings_many=False)[0] and len(room) == 3


@linux
def test_work_and_scans_let_the_event_loop_go_first():
    here, pool = os.nice(0), Workers(1, 1, 60.0)
    assert asyncio.run(pool.run(os.nice, 0)) == min(19, here + WORK)
    pool.close()
    seen, done = [], threading.Event()
    JobList(lambda *_: str(seen.append(os.nice(0))), done.set).start(["a"])
    assert done.wait(LONG) and seen == [min(19, here + SCAN)]
    assert os.nice(0) == here


@linux
@pytest.mark.parametrize("word, levels", [("watch", SCAN), ("index", 0), ("search", 0)])
def test_only_what_nobody_waits_for_steps_back(word, levels, monkeypatch):
    asked = []
    monkeypatch.setattr(avow.cli, "step_back", asked.append)
    monkeypatch.setattr(sys, "argv", ["avow", word, "--help"])
    with pytest.raises(SystemExit):
        avow.cli.main()
    assert sum(asked) == levels


def test_a_server_lets_neither_collections_nor_threads_hold_it_up(monkeypatch):
    interval = sys.getswitchinterval()
    frozen, loaded = [], [[number] for number in range(5000)]

    class Server:
        def run(self, sockets):
            frozen.append(gc.get_freeze_count())

    monkeypatch.setattr(connections, "server_of", lambda app: Server())
    app, library, before = FastAPI(), Mock(), gc.get_freeze_count()
    app.state.service = SimpleNamespace(retriever=SimpleNamespace(library=library))
    serve.run(app, socket.create_server(("127.0.0.1", 0)))
    assert frozen[0] >= before + len(loaded)
    library.filter_apart.assert_called_once_with()
    assert sys.getswitchinterval() == pytest.approx(min(interval, 0.001))
    sys.setswitchinterval(interval)


def test_requests_begin_one_at_each_look_of_the_loop():
    turns, begun = Turns(), []

    async def ask(number):
        await turns.wait()
        begun.append(number)

    async def crowd():
        tasks = [asyncio.create_task(ask(number)) for number in range(6)]
        seen = []
        for look in range(20):
            await asyncio.sleep(0)
            seen.append(len(begun))
            if look == 0:
                tasks[3].cancel()
        await asyncio.wait(tasks)
        return seen

    for _ in range(2):  # another loop has its own turns
        begun.clear()
        seen = asyncio.run(crowd())
        assert begun == [0, 1, 2, 4, 5]
        assert seen[0] == 1 and max(b - a for a, b in pairwise(seen)) == 1
