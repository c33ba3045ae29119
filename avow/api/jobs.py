"""Scanning indexed folders again while the server answers: one job at a time."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

from avow.api.answers import JobAnswer, JobState
from avow.api.refusals import Refusal
from avow.core.errors import AvowError
from avow.core.priority import SCAN, step_back
from avow.retrieval.store.report import Progress

KEPT = 20
"""Jobs that are remembered."""


Scan = Callable[[Sequence[str], Callable[[Progress], None], Callable[[], bool]], str]
"""Scans folders, tells its progress, asks whether to stop; says what it did."""


@dataclass
class Job:
    """One scan, running or ended."""

    id: int
    folders: list[str]
    began: float = field(default_factory=time.time)
    state: JobState = "running"
    done: int = 0
    total: int = 0
    says: str = "Looking for what is new."
    ended: float | None = None
    stop: Event = field(default_factory=Event)

    def answer(self) -> JobAnswer:
        return JobAnswer.model_validate(self, from_attributes=True)


class JobList:
    """The jobs of one server, newest first."""

    def __init__(self, scan: Scan, after: Callable[[], None]):
        self._scan = scan
        self._after = after
        self._jobs: deque[Job] = deque(maxlen=KEPT)
        self._lock = Lock()
        self._thread: Thread | None = None

    def start(self, folders: Sequence[str]) -> Job:
        with self._lock:
            if self._jobs and self._jobs[0].state == "running":
                raise Refusal(
                    409,
                    f"Job {self._jobs[0].id} is still running. Wait for it, or cancel it with "
                    f"POST /api/jobs/{self._jobs[0].id}/cancel.",
                )
            number = self._jobs[0].id + 1 if self._jobs else 1
            job = Job(number, list(folders))
            self._jobs.appendleft(job)
            self._thread = Thread(target=self._run, args=[job], daemon=True)
            self._thread.start()
        return job

    def newest(self) -> list[JobAnswer]:
        with self._lock:
            return [job.answer() for job in self._jobs]

    def get(self, number: int) -> Job:
        with self._lock:
            for job in self._jobs:
                if job.id == number:
                    return job
        raise Refusal(404, f"There is no job {number}. GET /api/jobs lists those there are.")

    def cancel(self, number: int) -> Job:
        """Ask a job to stop; what it has finished is kept."""
        job = self.get(number)
        job.stop.set()
        return job

    def close(self, seconds: float = 10.0) -> None:
        """Stop what runs, between two files."""
        for job in list(self._jobs):
            job.stop.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, job: Job) -> None:
        def note(progress: Progress) -> None:
            job.done, job.total = progress.done, progress.total
            job.says = progress.in_words() or "Reading what is new."

        step_back(SCAN)
        try:
            says = self._scan(job.folders, note, job.stop.is_set)
            state: JobState = "cancelled" if job.stop.is_set() else "done"
        except AvowError as error:
            says, state = str(error), "failed"
        except Exception as error:
            says, state = f"The scan failed ({type(error).__name__}: {error}).", "failed"
        self._after()
        job.says, job.state, job.ended = says, state, time.time()
