"""Who encodes the units of a plan; here, one after the other in this process."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from avow.core.files import write_bytes
from avow.retrieval.sharding.plan import Plan
from avow.retrieval.sharding.work import Worker


class Parts(ABC):
    """Gives the parts of a plan, in its order."""

    def __init__(self, plan: Plan):
        self.plan = plan

    @abstractmethod
    def part(self, number: int, stop: Callable[[], bool]) -> bytes:
        """The part of a unit, waited for; empty where `stop` said so meanwhile."""

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
