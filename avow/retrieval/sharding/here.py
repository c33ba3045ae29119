"""Who encodes the units of a plan; here, one after the other in this process."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from avow.core.errors import BadData
from avow.core.files import write_bytes
from avow.retrieval.sharding.part import BrokenPart, Outcome, unpacked
from avow.retrieval.sharding.plan import Plan
from avow.retrieval.sharding.work import Worker

_TRIES = 3


class Parts(ABC):
    """Gives the parts of a plan, in its order."""

    def __init__(self, plan: Plan):
        self.plan = plan

    @abstractmethod
    def part(self, number: int, stop: Callable[[], bool]) -> bytes:
        """The part of a unit, waited for; empty where `stop` said so meanwhile."""

    def outcomes(
        self, number: int, fingerprint: str, stop: Callable[[], bool]
    ) -> list[Outcome] | None:
        """What a part holds; a broken one is made anew. None where `stop` said so."""
        for _ in range(_TRIES):
            data = self.part(number, stop)
            if not data:
                return None
            try:
                return list(unpacked(data, fingerprint))
            except BrokenPart:
                self.again(number)
        raise BadData(
            f"The part {str(self.plan.part(number))!r} was made {_TRIES} times and is "
            "broken each time. Expected what a worker of this version of Avow gives; install "
            "the same version on all machines."
        )

    def again(self, number: int) -> None:
        """The part of a unit is broken: let it be made anew."""
        self.plan.part(number).unlink(missing_ok=True)

    def close(self) -> None:  # noqa: B027  # a process of its own holds nothing
        """Let go of the workers."""


class Here(Parts):
    """Encodes a unit when it is asked for."""

    def __init__(self, plan: Plan, worker: Worker):
        super().__init__(plan)
        self.worker = worker

    def part(self, number: int, stop: Callable[[], bool]) -> bytes:
        path = self.plan.part(number)
        if not path.is_file():
            write_bytes(path, self.worker.encode(self.plan.units[number]))
        return path.read_bytes()
