"""Bring an index up to date with sources of any kind: units are encoded, then ingested.

    list -> compare with the catalogue -> plan -> [encode units, anywhere] -> parts -> index

What is encoded is written as a part before it goes into the index, and parts go in by the order
of the plan. So the index is the same whichever worker did what, and whatever was killed.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from avow.core.errors import BadData
from avow.core.searching import Encoder
from avow.retrieval.sharding.here import Parts
from avow.retrieval.sharding.opening import open_source
from avow.retrieval.sharding.part import Outcome
from avow.retrieval.sharding.plan import Plan, Shards, Unit, open_plan, survey_sources
from avow.retrieval.sharding.source import Source
from avow.retrieval.store.changes import Job, Survey
from avow.retrieval.store.ingest import Run
from avow.retrieval.store.reading import Fresh, Loaded
from avow.retrieval.store.report import Progress, Report
from avow.retrieval.store.video_reading import Watch
from avow.retrieval.store.walk import INSIDE, Walk
from avow.retrieval.store.writer import Writer


@dataclass(frozen=True)
class Listed:
    """The sources of a run as they are now."""

    sources: list[Source]
    changes: Survey
    plan: Plan
    shards: Shards
    noted: list[str]
    """What the index covers after this run."""


def list_sources(
    names: Sequence[str], writer: Writer, index: Path, fps: float, read_text: bool
) -> Listed:
    """Compare sources with the catalogue; go on with the plan of a run that was cut off."""
    sources, walks = open_all(names, index)
    space = (writer.model, writer.generation)
    shards = Shards.open(index, *space)
    changes, units = survey_sources(writer.link, sources, walks, shards, read_text)
    plan = open_plan(index, [*names, *space, fps, read_text], walks, units)
    fresh = {stat.path for unit in units for stat in unit.files}
    left = [stat for unit in plan.units[plan.ingested :] for stat in unit.files]
    # of a unit that was cut off half way: counted when its part is read
    changes.unchanged -= sum(stat.path not in fresh for stat in left)
    pairs = zip(sources, walks, strict=True)
    noted = [name for source, walk in pairs for name in source.noted(walk)]
    return Listed(sources, changes, plan, shards, noted)


def open_all(names: Sequence[str], leave_out: Path) -> tuple[list[Source], list[Walk]]:
    """Sources, and what each of them lists. leave_out: the index folder."""
    sources = [open_source(name) for name in names]
    walks = [source.listing(leave_out) for source in sources]
    if not any(walk.files or walk.skipped for walk in walks):
        listed = ", ".join(repr(name) for name in names)
        raise BadData(
            f"There is nothing to index in {listed}. Expected pictures or texts, or shards of "
            "pictures; check the name, or say what it holds as in webdataset:NAME."
        )
    return sources, walks


class PlannedRun(Run):
    """Ingests the parts of a plan as an ordinary run ingests files."""

    def __init__(
        self,
        writer: Writer,
        encoder: Encoder,
        listed: Listed,
        parts: Parts,
        batch: int,
        prune: bool,
    ):
        super().__init__(writer, encoder, listed.changes, batch, 1, prune)
        self.listed, self.parts = listed, parts
        self.dropped = 0

    def go(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> Report:
        plan, self.stop = self.listed.plan, stop
        sizes = [len(unit.files) for unit in plan.units]
        first, total = plan.ingested, sum(sizes[plan.ingested :])

        def by_listed_file(state: Progress) -> None:
            """A shard counts as one: what it holds is known when its part is there."""
            progress(replace(state, done=sum(sizes[first : plan.ingested]), total=total))

        try:
            report = super().go(by_listed_file, stop)
        finally:
            self.parts.close()
        report.stopped = plan.ingested < len(plan.units)
        if not report.stopped:
            plan.close()
        return report

    def _segments(self, loaded: Loaded, watch: Watch) -> list[Fresh]:
        return []  # a part brings them

    def _ahead(self, pool: ThreadPoolExecutor) -> Iterator[tuple[Job, Future[Loaded]]]:
        plan = self.listed.plan
        for number in range(plan.ingested, len(plan.units)):
            outcomes = self.parts.outcomes(number, self.encoder.fingerprint, self.stop)
            if outcomes is None:
                return
            met, whole, again = set(), True, False
            for outcome in outcomes:
                met.add(outcome.stat.path)
                whole = whole and outcome.stat.path not in self._shards(plan.units[number])
                again = again or outcome.again
                yield self._job(outcome)
            self._flush()
            if whole:
                self._finish_shards(plan.units[number], met, again)
            plan.finished(number)

    def _job(self, outcome: Outcome) -> tuple[Job, Future[Loaded]]:
        row = self.link.execute(_NUMBER, [outcome.stat.path]).fetchone()
        return Job(outcome.stat, row[0] if row else None), outcome.future()

    def _shards(self, unit: Unit) -> set[str]:
        """The shards of a unit; a file listed under its own path is none."""
        if not self.listed.sources[unit.source].many:
            return set()
        return {stat.path for stat in unit.files}

    def _finish_shards(self, unit: Unit, met: set[str], again: bool) -> None:
        """Forget what a changed shard no longer holds, and note that it is done.

        again: something in it may be read next time, and so the shard is.
        """
        for stat in unit.files if self.listed.sources[unit.source].many else ():
            first = stat.path + INSIDE
            rows = self.link.execute(_BELOW, [first, first[:-1] + "0"])  # "0" follows "/"
            gone = [number for number, path in rows.fetchall() if path not in met]
            self.writer.forget(gone)
            skips = self.link.execute(_SKIPPED, [first, first[:-1] + "0"])
            stale = [path for (path,) in skips if path not in met]
            self.writer.list_skipped({}, [*stale, stat.path])
            self.dropped += len(gone)
            if not again:
                self.listed.shards.add(stat)

    def _forget_missing(self) -> None:
        super()._forget_missing()
        self.report.deleted += self.dropped


_NUMBER = "SELECT id FROM files WHERE path = ? AND gone = 0"
_BELOW = "SELECT id, path FROM files WHERE path >= ? AND path < ? AND gone = 0"
_SKIPPED = "SELECT path FROM skipped WHERE path >= ? AND path < ?"
