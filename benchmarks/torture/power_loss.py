"""Let the power fail at any moment: what was acknowledged is there, and all goes on from it."""

import json
import random
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from avow.core.errors import AvowError
from avow.retrieval.library import Library
from avow.retrieval.store.inspection import inspect_index
from benchmarks.torture import _gallery
from benchmarks.torture._batch import Batch
from benchmarks.torture._disk import crashed
from benchmarks.torture._steps import SAID, Change, Recording, traced

PROMISE = "After a power loss every acknowledged item and opinion is there."
PROOF = (
    "All writes, renames and syncs of indexing, updating, opinions, deleting and rebuilding "
    "are recorded by tracing the process. The power fails after one of them: what was not "
    "synced is dropped, kept, torn or reordered. The index must open without damage, hold all "
    "that was acknowledged before, and become the index of an undisturbed run when indexing "
    "goes on."
)
WANTED, BATCH = 1000, 50


def prepare(place: Path) -> None:
    _gallery.make_views(place)
    for view in _gallery.VIEWS:
        _gallery.show(place, view, place / "photos")
        _gallery.index(place / "photos", place / f"whole-{view}")


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch(tries=count)
    wanted = {view: _gallery.contents(place / f"whole-{view}") for view in _gallery.VIEWS}
    home, crash = place / "home", place / "crash"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    recording = Recording()
    traced(lambda: _work(place, home), home, record=recording)
    changes = [one for one in recording.changes if not one.paths[0].endswith(SAID)]
    seen.peak("changes of files", len(changes))
    for number in range(first, first + count):
        draw = random.Random(f"power {number}")
        until = draw.randrange(len(recording.changes)) + 1
        before = recording.changes[:until]
        said = [json.loads(one.data) for one in before if one.kind == "said"]
        disk, how = crashed(home, _without_messages(before), draw)
        shutil.rmtree(crash, ignore_errors=True)
        disk.materialise(crash)
        if not seen.ended(f"{number} {how}", partial(_lost, place, crash, said, wanted)):
            continue
        seen.counts[f"reached the disk: {how.split()[0]}"] += 1
        seen.counts["with something acknowledged"] += any("view" in one for one in said)
    return seen


def _without_messages(changes: Sequence[Change]) -> list[Change]:
    return [one for one in changes if not one.paths[0].endswith(SAID)]


def _work(place: Path, home: Path) -> None:
    """Write in every way there is, and say when something is acknowledged."""
    index, photos = home / "index", place / "photos"
    with (home / SAID).open("w") as stream:

        def say(**what: Any) -> None:
            stream.write(json.dumps(what))
            stream.flush()

        reader, view = None, ""
        for view in _gallery.VIEWS:
            _gallery.show(place, view, photos)
            say(begun=view)
            _gallery.index(photos, index)
            say(view=view)
            if reader is None:  # from now on the last one to close is never the writer
                reader = Library.open(index)
            for good in (True, False):
                with Library.open(index) as library:
                    [item] = library.items(library.find()[:1])
                    library.record({"text": f"{view} {good}"}, item.id, good)
                    say(query=str({"text": f"{view} {good}"}))
        say(begun=view)
        _gallery.index(photos, index, rebuild=True)
        say(view=view)


def _lost(place: Path, crash: Path, said: list[dict[str, str]], wanted: dict[str, Any]) -> str:
    return _missing(crash / "index", said, wanted) or _going_on(place, crash, wanted)


def _missing(index: Path, said: list[dict[str, str]], wanted: dict[str, Any]) -> str:
    """What was acknowledged and is not there; nothing where all is well."""
    views = [one["view"] for one in said if "view" in one]
    if not views:
        return ""
    held = _gallery.contents(index)
    if damage := inspect_index(index):
        return damage[0].what
    begun = [one["begun"] for one in said if "begun" in one]
    now, later = (wanted[one]["items"] for one in (views[-1], begun[-1]))
    missing = [row[:3] for row in set(now) & set(later) - set(held["items"])]
    strange = [row[:3] for row in set(held["items"]) - set(now) - set(later)]
    opinions = {query for query, _, _ in held["feedback"]}
    unheard = [one["query"] for one in said if "query" in one and one["query"] not in opinions]
    if missing or strange or unheard:
        return f"missing {missing}, nobody indexed {strange}, opinions lost {unheard}"
    return ""


def _going_on(place: Path, crash: Path, wanted: dict[str, Any]) -> str:
    last = list(_gallery.VIEWS)[-1]
    _gallery.show(place, last, place / "photos")
    crash.mkdir(exist_ok=True)
    try:
        _gallery.index(place / "photos", crash / "index")
    except AvowError as error:
        return f"indexing does not go on: {error}"
    held = _gallery.contents(crash / "index")
    if held["items"] != wanted[last]["items"]:
        return "indexing went on to another index"
    return "; ".join(one.what for one in inspect_index(crash / "index"))
