"""Flip bits and damage files of an index and of a run: told, or the answer is the same."""

import random
import shutil
from pathlib import Path
from typing import Any

from avow.core.errors import AvowError
from avow.retrieval.store.inspection import inspect_index
from benchmarks.torture import _index_damage, _model_damage
from benchmarks.torture._batch import Batch, line_of

PROMISE = "Damage is told, or changes no answer."
PROOF = (
    "One file of a small calibrated index or of a run with its model, bank, trust and "
    "features is damaged: in three of four tries one bit is flipped, else a range is zeroed "
    "or swapped, the file is cut, emptied or removed. Everything is opened, searched, filtered "
    "and computed again; another answer without a word is a loss. One told damage of an index "
    "in ten is repaired by the command that its sentence names."
)
WANTED, BATCH = 20_000, 1000
IN_MEMORY = True
REPAIRED = 10


def prepare(place: Path) -> None:
    for engine in _index_damage.engines():
        _index_damage.build_index(place, engine)
    _model_damage.write_run(place / "run")


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch(tries=count)
    wanted = {
        engine: _index_damage.answers(place / f"index-{engine}")
        for engine in _index_damage.engines()
    }
    expected = _model_damage.answers(place / "run")
    for number in range(first, first + count):
        draw = random.Random(f"damage {number}")
        if draw.random() < 0.5:
            _damaged_index(place, draw, wanted, seen, number)
        else:
            _damaged_run(place, draw, expected, seen, number)
    return seen


def _damaged_index(
    place: Path, draw: random.Random, wanted: dict[str, Any], seen: Batch, number: int
) -> None:
    engine = draw.choice(list(wanted))
    copy = place / "copy"
    shutil.copytree(place / f"index-{engine}", copy)
    what = _hit(copy, draw)
    outcome, message = _index_damage.outcome(copy, wanted[engine])
    try:
        named = bool(inspect_index(copy))
    except AvowError:
        named = True
    except Exception as error:
        named, outcome, message = True, "traceback", f"check: {line_of(error)}"
    seen.counts[f"index: {outcome}"] += 1
    told = f"{number} index with {engine}: {what}: {message}"
    if outcome == "silent":
        seen.losses.append(told)
    elif outcome == "traceback":
        seen.tracebacks.append(told)
    elif outcome == "told" and not named:
        seen.losses.append(f"{told} (avow check does not name it)")
    elif outcome == "told" and number % REPAIRED == 0:
        mended = _index_damage.repaired(copy, place, wanted[engine])
        seen.counts["index: repaired"] += mended
        if not mended:
            seen.losses.append(f"{told} (not repaired)")
    shutil.rmtree(copy)


def _damaged_run(
    place: Path, draw: random.Random, expected: str, seen: Batch, number: int
) -> None:
    broken = place / "broken"
    shutil.copytree(place / "run", broken)
    what = _hit(broken, draw)
    try:
        outcome = "harmless" if _model_damage.answers(broken) == expected else "silent"
    except AvowError:
        outcome = "told"
    except Exception as error:
        outcome = "traceback"
        seen.tracebacks.append(f"{number} run: {what}: {line_of(error)}")
    if outcome == "silent":
        seen.losses.append(f"{number} run: {what}: another number came out")
    seen.counts[f"run: {outcome}"] += 1
    shutil.rmtree(broken)


def _hit(folder: Path, draw: random.Random) -> str:
    """Damage one file; mostly by a bit, which is what checksums are for."""
    if draw.random() < 0.25:
        return " ".join(_index_damage.damage(folder, draw))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = draw.choices(files, [1 + one.stat().st_size / 2**16 for one in files])[0]
    data = bytearray(path.read_bytes())
    if not data:
        return f"{path.name} is empty"
    place, bit = draw.randrange(len(data)), draw.randrange(8)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"{path.name}, bit {bit} of byte {place}"
