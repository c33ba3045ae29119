"""Who may stay connected, decided without a look at every connection.

A crowd that opens connections faster than they are closed would otherwise keep the event loop
busy with looking for one to close, and health would wait for that.
"""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar, runtime_checkable

from avow.api.clients import Address
from avow.api.limits import Limits


@runtime_checkable
class Guest(Protocol):
    """What is asked of a connection."""

    address: Address

    @property
    def is_waiting(self) -> bool:
        """Whether the next step is the client's: to send the rest, or to read."""
        ...

    @property
    def is_leaving(self) -> bool:
        """Whether it is being closed."""
        ...


G = TypeVar("G", bound=Guest)


class Room(Generic[G]):
    """The open connections of every client, those first that were silent longest."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._guests: dict[Address, OrderedDict[G, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, guest: G, brings_many: bool) -> tuple[bool, G | None]:
        """Take in a connection: whether it may stay, and the one that has to go for it.

        brings_many: it may have all connections, as a proxy that brings many people.
        """
        limits = self._limits
        own = self._guests.get(guest.address, OrderedDict())
        most = limits.connections
        if not brings_many:
            most = min(most, limits.connections_per_client)
        if len(own) >= most:
            crowds = [own]
        elif self._count >= limits.connections:
            crowds = sorted(self._guests.values(), key=len, reverse=True)
        else:
            self._add(guest)
            return True, None
        for crowd in crowds:
            if (gone := _first_to_go(crowd)) is not None:
                self.leave(gone)
                self._add(guest)
                return True, None if gone.is_leaving else gone
        return False, None

    def heard(self, guest: G) -> None:
        """It sent something: the others were silent for longer."""
        own = self._guests.get(guest.address)
        if own is not None and guest in own:
            own.move_to_end(guest)

    def leave(self, guest: G) -> None:
        """It is closed, or about to be; told again, nothing happens."""
        own = self._guests.get(guest.address, {})
        if guest in own:
            del own[guest]
            self._count -= 1
            if not own:
                del self._guests[guest.address]

    def _add(self, guest: G) -> None:
        self._guests.setdefault(guest.address, OrderedDict())[guest] = None
        self._count += 1


def _first_to_go(crowd: OrderedDict[G, None]) -> G | None:
    """The one that was silent longest of those that nobody works for."""
    return next((one for one in crowd if one.is_leaving or one.is_waiting), None)
