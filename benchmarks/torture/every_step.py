"""Kill writers before every change of a file, kill them again when they go on, and compare."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import avow
from avow.core.errors import AvowError
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from benchmarks.torture import _gallery
from benchmarks.torture._batch import Batch
from benchmarks.torture._steps import traced

PROMISE = "Every step of every write may be the last."
PROOF = (
    "Adding, updating, deleting, rebuilding, changing the model, opinions, calibrating, an "
    "audit and saving a model are killed before each of their changes of files, which are seen "
    "by tracing the process, SQLite's among them. What is there must open. The work is begun "
    "again, killed once more, and at last let through: it must end as an undisturbed run does."
)
WANTED, BATCH = 2000, 250
IN_MEMORY = True
SLOW = ("calibrate", "audit")
"""Not tried again once every step was."""


@dataclass(frozen=True)
class Write:
    """Something that is written below a folder `home`."""

    base: Callable[[Path, Path], None]
    """Make what is there before."""
    work: Callable[[Path, Path], object]
    observed: Callable[[Path], Any]
    """All that a user sees of it; an AvowError where it cannot be read."""
    begins_empty: bool = False
    """Whether there may be nothing to open when it is killed early."""
    imports: str = "av"
    """What forked processes would import again and again, and have from this one."""


def prepare(place: Path) -> None:
    _gallery.make_views(place)
    _gallery.show(place, "first", place / "shown")
    _gallery.index(place / "shown", place / "base")


def batch(place: Path, first: int, count: int, only: Sequence[str] = ()) -> Batch:
    """only: of WRITES; default: all."""
    seen = Batch(tries=count)
    home = place / "home"
    plan = _plan(place, home, only or list(WRITES))
    for name, steps in plan.items():
        seen.peak(f"steps: {name}", steps)
    every = sorted((at + 1, name) for name, steps in plan.items() for at in range(steps))
    quick = [one for one in every if one[1] not in SLOW]
    whole: dict[str, Any] = {}
    for number in range(first, first + count):
        draw = random.Random(f"steps {number}")
        at, name = every[number] if number < len(every) else draw.choice(quick or every)
        write, again = WRITES[name], draw.randrange(plan[name]) + 1
        if name not in whole:
            import_module(write.imports)
            whole[name] = _undisturbed(write, place, home)[1]
        steps = (at, again)
        lost = partial(_killed, write, place, home, steps, whole[name])
        if seen.ended(f"{number} {name} at {at} and {again}", lost):
            seen.counts[f"killed: {name}"] += 1
    return seen


def _plan(place: Path, home: Path, names: Sequence[str]) -> dict[str, int]:
    """How many steps each write has; counted once."""
    path = place / "steps.json"
    plan = json.loads(path.read_text()) if path.is_file() else {}
    plan |= {
        name: _undisturbed(WRITES[name], place, home)[0] for name in names if name not in plan
    }
    path.write_text(json.dumps(plan))
    return {name: plan[name] for name in names}


def _undisturbed(write: Write, place: Path, home: Path) -> tuple[int, Any]:
    _begin(write, place, home)
    steps, _ = traced(lambda: write.work(place, home), home)
    return steps, write.observed(home)


def _begin(write: Write, place: Path, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    write.base(place, home)


def _killed(write: Write, place: Path, home: Path, kills: tuple[int, int], wanted: Any) -> str:
    _begin(write, place, home)
    for at in kills:
        traced(lambda: write.work(place, home), home, kill_at=at)
        try:
            write.observed(home)
        except AvowError as error:
            if not write.begins_empty:
                return f"after the kill at {at}: {error}"
    traced(lambda: write.work(place, home), home)
    if (ended := write.observed(home)) != wanted:
        return f"it ended as {str(ended)[-300:]} and not as {str(wanted)[-300:]}"
    left = [path.name for path in home.rglob(".*") if path.name.endswith((".new", ".kept"))]
    return f"left behind: {left}" if left else ""


# --- what is written ---------------------------------------------------------------------


def _index_base(place: Path, home: Path) -> None:
    shutil.copytree(place / "base", home / "index")


def _index_contents(home: Path) -> Any:
    if problem := _gallery.trouble(home / "index"):
        raise AvowError(problem)
    return _gallery.contents(home / "index")


def _nothing(place: Path, home: Path) -> None:
    """There is nothing before."""


def _indexing(view: str, name: str = "colours", rebuild: bool = False):
    def work(place: Path, home: Path) -> None:
        photos = place / "shown"  # one place for all views, which follow each other there
        _gallery.show(place, view, photos)
        _gallery.index(photos, home / "index", name, rebuild)

    return work


def _feedback(place: Path, home: Path) -> None:
    with Library.open(home / "index", _gallery.encoder()) as library:
        retriever = Retriever(library, _gallery.encoder())
        for number, good in zip(library.find().tolist(), (True, False, True), strict=False):
            retriever.feedback(f"a thing {good}", int(number), good)


def _calibrated_base(place: Path, home: Path) -> None:
    from benchmarks.torture import _index_damage

    made = place / "calibrated"
    if not made.exists():
        made.mkdir()
        _index_damage.build_index(made)
    shutil.copytree(made / "index-exact", home / "index")
    for path in (home / "index").rglob("trust-*.json"):
        path.unlink()


def _calibrate(place: Path, home: Path) -> None:
    from avow.retrieval.calibrate import calibrate
    from benchmarks.torture import _index_damage

    encoder = _index_damage.Colours()
    with Library.open(home / "index", encoder) as library:
        calibrate(Retriever(library, encoder), place / "calibrated" / "pairs.csv")


def _policies(home: Path) -> Any:
    from avow.trust.policy import Policy

    paths = sorted((home / "index").rglob("trust-*.json"))
    return [(path.name, Policy.load(path) and path.read_text()) for path in paths]


def _pairs(place: Path, home: Path) -> None:
    made = place / "pairs"
    if made.exists():
        return
    made.mkdir()
    lines = [
        f"{name}-{n}.png,a {name} thing {n}" for name in _gallery.COLOURS for n in range(10)
    ]
    for line in lines:
        name = line.partition(",")[0]
        _gallery.picture(name.partition("-")[0]).save(made / name)
    (made / "pairs.csv").write_text("\n".join(["image,caption", *lines]))


def _audit(place: Path, home: Path) -> None:
    avow.audit_pairs(
        str(place / "pairs" / "pairs.csv"), run=_gallery.encoder(), out=home / "audit"
    )


def _audited(home: Path) -> Any:
    path = home / "audit" / "pairs.jsonl"
    if not path.is_file():
        raise AvowError("there is no audit yet")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _model_base(place: Path, home: Path) -> None:
    from benchmarks.torture import _model_damage

    _model_damage.toy_model(seed=0).save_pretrained(home / "model")


def _save(place: Path, home: Path) -> None:
    from benchmarks.torture import _model_damage

    _model_damage.toy_model(seed=1).save_pretrained(home / "model")


def _model(home: Path) -> Any:
    from avow.assembly.model import Model

    return Model.from_pretrained(home / "model").fingerprint


WRITES: dict[str, Write] = {
    "add": Write(_nothing, _indexing("first"), _index_contents, begins_empty=True),
    "update": Write(_index_base, _indexing("second"), _index_contents),
    "delete": Write(_index_base, _indexing("third"), _index_contents),
    "rebuild": Write(_index_base, _indexing("first", rebuild=True), _index_contents),
    "another model": Write(
        _index_base, _indexing("first", "others", rebuild=True), _index_contents
    ),
    "opinions": Write(_index_base, _feedback, _index_contents),
    "calibrate": Write(_calibrated_base, _calibrate, _policies),
    "audit": Write(_pairs, _audit, _audited, begins_empty=True, imports="avow.audit.pairs"),
    "save_pretrained": Write(_model_base, _save, _model),
}
