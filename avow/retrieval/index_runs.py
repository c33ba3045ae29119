"""The run that brings an index up to date: file by file, or in units, here or elsewhere."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from avow.core.searching import Encoder
from avow.core.written_text import ReadText
from avow.retrieval.sharding.cluster import Cluster
from avow.retrieval.store.changes import survey
from avow.retrieval.store.ingest import Run
from avow.retrieval.store.writer import Writer


@dataclass(frozen=True)
class RunSettings:
    batch: int
    workers: int
    """Threads that read; 0: one a core."""
    prune: bool
    fps: float
    read_text: ReadText | None
    cluster: Cluster | None = None
    """Who encodes units; None: this process."""

    @property
    def threads(self) -> int:
        if self.workers:
            return self.workers
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4


def prepare_run(
    writer: Writer,
    encoder: Encoder,
    folders: Sequence[str | Path],
    index: Path,
    how: RunSettings,
    in_units: bool,
) -> tuple[Run, list[str]]:
    """A run, and what the index covers after it.

    in_units: over sources of any kind; otherwise over folders of this machine, file by file.
    """
    if not in_units:
        space = (writer.model, writer.generation)
        changes = survey(writer.link, folders, index, *space, how.read_text is not None)
        speed = (how.batch, how.threads)
        run = Run(writer, encoder, changes, *speed, how.prune, how.fps, how.read_text)
        return run, changes.walk.roots
    from avow.retrieval.sharding import here, work  # most indexes do without
    from avow.retrieval.sharding import run as planned

    names, ocr = tuple(str(folder) for folder in folders), how.read_text is not None
    listed = planned.list_sources(names, writer, index, how.fps, ocr)
    units = work.Work(names, encoder.fingerprint, how.batch, how.threads, how.fps, ocr)
    if how.cluster is None:
        parts = here.Here(listed.plan, work.Worker(units, encoder, how.read_text))
    else:
        from avow.retrieval.sharding.on_ray import OnRay

        parts = OnRay(listed.plan, units, how.cluster)
    run = planned.PlannedRun(writer, encoder, listed, parts, how.batch, how.prune)
    return run, listed.noted
