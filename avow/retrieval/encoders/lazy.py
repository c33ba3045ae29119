"""A model that is opened only when something must be encoded.

An index remembers which fingerprint the files of a model had. While they keep their sizes
and times, a run that finds nothing new needs neither the model nor the library under it.
"""

import importlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import avow
from avow.core.errors import BadRecipe
from avow.core.fingerprint import of_text
from avow.core.folder import is_module
from avow.core.places import DEFAULT, avow_home, packaged_folder
from avow.retrieval.sharding.opening import only_folders
from avow.retrieval.store.catalogue import FILE, changing, open_catalogue, sentences
from avow.retrieval.store.changes import skipped_files, survey
from avow.retrieval.store.indexed_folders import frame_rate, reads_text
from avow.retrieval.store.report import Report
from avow.retrieval.store.row_checksums import check_sums, intact, is_sealed

if TYPE_CHECKING:
    from avow.core.searching import Encoder


@dataclass(frozen=True)
class Deferred:
    """A model by name, with what tells whether it is still the same one."""

    name: str
    files: str
    """Changes with the files of the model; empty where they are not at hand."""
    open: Callable[[], Any]
    """Gives the `Encoder`."""

    @classmethod
    def named(cls, name: str, open_encoder: Callable[[str], "Encoder"]) -> "Deferred":
        """A model as a user names it; a dotted name is a module with a `build` function."""
        folder = packaged_folder() if name == DEFAULT else Path(name).expanduser()
        if folder.is_dir():
            return cls(name, files_of(folder), lambda: open_encoder(name))
        if is_module(name):
            return cls(name, "", lambda: outside(name))
        return cls(name, "", lambda: open_encoder(name))

    def remember(self, link: sqlite3.Connection, fingerprint: str) -> None:
        """Note which fingerprint these files have."""
        if self.files:
            with changing(link):
                link.execute("DELETE FROM known WHERE name = ?", [self.name])
                link.execute(
                    "INSERT INTO known (name, files, fingerprint) VALUES (?, ?, ?)",
                    [self.name, self.files, fingerprint],
                )


def files_of(folder: Path) -> str:
    """Changes when a file below `folder` is written, added or taken away."""
    parts = [avow.__version__]
    for home, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            about = os.stat(os.path.join(home, name))
            parts += [os.path.join(home, name), str(about.st_size), str(about.st_mtime_ns)]
    return of_text(parts)


def unchanged(
    folders: Sequence[str | Path],
    index: Path | None,
    model: Deferred,
    fps: float | None = None,
) -> Report | None:
    """The report if nothing has changed since the last run, else None.

    fps: the frame rate of videos that is asked for; None: as it is.
    """
    started = time.monotonic()
    index = index or avow_home() / "index"
    if not model.files or not (index / FILE).is_file() or not only_folders(folders):
        return None
    with sentences(index):
        link = open_catalogue(index)
        try:
            if not is_sealed(link):
                return None  # there are checksums to be added
            if fps is not None and fps != frame_rate(index):
                return None
            check_sums(link, index, ("files", "items", "skipped"))
            row = link.execute(_CURRENT, [model.name, model.files]).fetchone()
            if row is None:
                return None
            model_and_rows = (row[0], row[1])
            changes = survey(link, folders, index, *model_and_rows, reads_text(index))
            if not changes.nothing_to_do:
                return None
            report = Report(unchanged=changes.unchanged, skipped=skipped_files(link))
        finally:
            link.close()
    report.seconds = time.monotonic() - started
    return report


# only where this model is the one last used, and no rebuild was cut off
_CURRENT = f"""
SELECT models.fingerprint, models.generation FROM known
JOIN models ON models.fingerprint = known.fingerprint
WHERE name = ? AND files = ? AND used = (SELECT max(used) FROM models)
AND generation = (SELECT max(number) FROM generations WHERE model = models.fingerprint)
AND {intact("known")} AND {intact("models")}
"""


def outside(name: str) -> "Encoder":
    """The Encoder that a module outside Avow gives; for names that the user typed."""
    try:
        return importlib.import_module(name).build()
    except (ModuleNotFoundError, AttributeError) as error:
        raise BadRecipe(
            f"The model {name!r} cannot be opened ({error}). Expected a folder, a name of "
            "the model hub, or a Python module with a `build` function that gives an Encoder."
        ) from error
