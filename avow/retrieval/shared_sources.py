"""Sources of any kind to a shared store: units are encoded, here or on a cluster, and put.

    list -> compare with the store -> units -> [encode, anywhere] -> parts -> store.put

Ids are stable and a finished shard is noted in the store, so a run that was cut off, or that
two machines make at once, needs no plan that outlives it: what is there is not encoded again.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from avow.core.searching import Encoder
from avow.core.storage import UNCOMPARABLE
from avow.retrieval.sharding.here import Here, Parts
from avow.retrieval.sharding.plan import Plan, Unit, about, cut, merged
from avow.retrieval.sharding.run import open_all
from avow.retrieval.sharding.source import Source
from avow.retrieval.sharding.work import Work, Worker
from avow.retrieval.shared_indexing import Filler, SharedRun, Told, fill
from avow.retrieval.shared_library import SKIPPED
from avow.retrieval.shared_preparing import How
from avow.retrieval.store.reading import Fresh, Loaded
from avow.retrieval.store.report import Progress, Report
from avow.retrieval.store.video_reading import Watch
from avow.retrieval.store.walk import INSIDE, FileStat, Walk, shard_of
from avow.retrieval.store_contract import SharedStore

_NOWHERE = Path("/nonexistent")
"""A store has no folder that a listing must leave out."""


def index_sources(
    store: SharedStore,
    names: Sequence[str],
    encoder: Encoder,
    how: How,
    told: Told,
) -> Report:
    """Bring a shared store up to date with sources, by units that any process may encode."""
    listed = Listed(*open_all(names, _NOWHERE))
    pairs = zip(listed.sources, listed.walks, strict=True)
    covered = [name for source, walk in pairs for name in source.noted(walk)]

    def encode(plan: Plan, fps: float) -> Parts:
        settings = (encoder.fingerprint, how.batch, how.workers, fps, False)
        work = Work(tuple(names), *settings)
        if how.cluster is None:
            return Here(plan, Worker(work, encoder, None))
        from avow.retrieval.sharding.on_ray import OnRay

        return OnRay(plan, work, how.cluster)

    def run(filler: Filler, place: Path) -> SharedRun:
        return SourcesRun(filler, listed, how, place, encode)

    return fill(store, encoder, how, run, covered, told)


@dataclass(frozen=True)
class Listed:
    """Sources, and what each of them lists."""

    sources: list[Source]
    walks: list[Walk]

    def shards(self) -> Iterator[str]:
        for source, walk in zip(self.sources, self.walks, strict=True):
            yield from walk.files if source.many else ()

    def cover(self, path: str) -> bool:
        """Whether an indexed path would have been listed, by itself or in a shard."""
        pairs = zip(self.sources, self.walks, strict=True)
        return any(source.covers(path, walk) for source, walk in pairs)


class SourcesRun(SharedRun):
    """Puts the parts of units as an ordinary run puts files."""

    def __init__(
        self,
        filler: Filler,
        listed: Listed,
        how: How,
        place: Path,
        encode: Callable[[Plan, float], Parts],
    ):
        self.listed, self.shards = listed, set(listed.shards())
        self._subject = f"shard {filler.store.generation}"
        self.finished = filler.store.notes(self._subject)
        super().__init__(filler, merged(listed.walks), how)
        waiting = {stat.path for stat in self.jobs}
        units: list[Unit] = []
        for number, (source, walk) in enumerate(zip(listed.sources, listed.walks, strict=True)):
            files = [stat for path, stat in walk.files.items() if path in waiting]
            units += cut(number, source, files)
        self.plan = Plan(place, units)
        self.parts = encode(self.plan, self.fps)
        idle = self.shards - waiting
        self.report.unchanged += sum(shard_of(path) in idle for path in self.present)

    def go(self, progress: Callable[[Progress], None], stop: Callable[[], bool]) -> Report:
        self.stop, total = stop, len(self.jobs)

        def by_listed_file(state: Progress) -> None:
            """A shard counts as one: what it holds is known when its part is there."""
            done = sum(len(unit.files) for unit in self.plan.units[: self.plan.ingested])
            progress(replace(state, done=done, total=total))

        try:
            return super().go(by_listed_file, stop)
        finally:
            self.parts.close()

    def _below(self) -> list[str]:
        return [*self.walk.roots, *(path + INSIDE[:-1] for path in self.shards)]

    def _covers(self, path: str) -> bool:
        return shard_of(path) not in self.walk.files and self.listed.cover(path)

    def _is_new(self, stat: FileStat, videos_again: bool) -> bool:
        if stat.inode == UNCOMPARABLE:
            return True
        if stat.path in self.shards:
            return self.finished.get(stat.path) != json.dumps(about(stat))
        return super()._is_new(stat, videos_again)

    def _segments(self, loaded: Loaded, watch: Watch) -> list[Fresh]:
        return []  # a part brings them

    def _ahead(self, pool: ThreadPoolExecutor) -> Iterator[tuple[FileStat, Future[Loaded]]]:
        for number, unit in enumerate(self.plan.units):
            outcomes = None
            if not self.stop():
                about_it = (self.filler.encoder.fingerprint, self.stop)
                outcomes = self.parts.outcomes(number, *about_it)
            if outcomes is None:
                self.report.stopped = True
                return
            met: set[str] = set()
            again = False
            for outcome in outcomes:
                met.add(outcome.stat.path)
                again = again or outcome.again
                yield outcome.stat, outcome.future()
            self._flush()
            if not self.shards & met:  # else something is wrong with the shard itself
                self._finish_shards(unit, met, again)
            self.plan.finished(number)

    def _forget_missing(self) -> None:
        super()._forget_missing()
        # should such a shard come back, it is read again
        self.store.erase(self._subject, {shard_of(path) or path for path in self.missing})

    def _finish_shards(self, unit: Unit, met: set[str], again: bool) -> None:
        """Forget what a changed shard no longer holds, and note that it is done.

        again: something in it may be read next time, and so the shard is.
        """
        for stat in unit.files if self.listed.sources[unit.source].many else ():
            first = stat.path + INSIDE
            old = [path for path in self.present if path.startswith(first) and path not in met]
            self.store.delete([number for path in old for number in self.present[path].ids])
            self.report.deleted += len(old)
            stale = [path for path in self.noted if path.startswith(first) and path not in met]
            self.store.erase(SKIPPED, [*stale, stat.path])
            if not again:
                self.store.note(self._subject, {stat.path: json.dumps(about(stat))})
