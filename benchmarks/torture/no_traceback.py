"""Ask the server and the command line for anything: a result or a sentence, and no 5xx."""

import random
from collections.abc import Sequence
from pathlib import Path

from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from benchmarks.torture import _command_lines, _gallery
from benchmarks.torture._batch import Batch
from benchmarks.torture._requests import ask

PROMISE = "Whatever is asked or typed, there is no traceback and no 5xx but 503."
PROOF = (
    "Requests are made from the server's own description of itself, right ones and wrong ones; "
    "every answer must have a status and a shape that the description names. Command lines, "
    "recipes and environments are put together at random from what exists and what does not; "
    "each must end in a result or in a sentence. Each is run in a forked process; one in a "
    "hundred in a new one, as a shell starts it, and one request in forty over a connection."
)
WANTED, BATCH = 120_000, 6_000
IN_MEMORY = True
REQUESTS = 5
"""Of six tries, so many are requests; the others are command lines and recipes."""
AT_ONCE = 25
"""Command lines of one forked process."""
NEW = 100
"""One command line in so many is a process of its own."""


def prepare(place: Path) -> None:
    from search_samples import save_pictures

    home = place / "typed"
    save_pictures(home / "pictures", 6)
    (home / "notes.csv").write_text("text,tags\na red boat,boat;sea\nblue sky,sky\n")
    (home / "pairs.csv").write_text("query,file\na red dog,red-000.png\n")
    (home / "model.pt").write_bytes(b"no model")
    index_folders([home / "pictures"], index=home / "index", encoder=open_encoder())
    _gallery.make_views(place)
    _gallery.show(place, "second", place / "photos")
    _gallery.index(place / "photos", place / "index")


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch()
    numbers = range(first, first + count)
    with _command_lines.Desk(place / "typed", place / "work") as desk:
        typed = [number for number in numbers if number % 6 >= REQUESTS]
        for start in range(0, len(typed), AT_ONCE):
            _type(desk, typed[start : start + AT_ONCE], seen)
    if asked := [number for number in numbers if number % 6 < REQUESTS]:
        ask(place, asked, seen)
    return seen


def _type(desk: _command_lines.Desk, numbers: Sequence[int], seen: Batch) -> None:
    drawn = {n: _command_lines.drawn(random.Random(f"typed {n}")) for n in numbers}
    anew = [n for n in numbers if n // 6 % NEW == NEW - 1]
    forked = [n for n in numbers if n not in anew]
    ends = dict(zip(forked, desk.run([drawn[n] for n in forked]), strict=True))
    ends |= {n: desk.run_anew(drawn[n]) for n in anew}
    seen.tries += len(ends)
    seen.counts["typed: in a process of its own"] += len(anew)
    for number, (end, told) in ends.items():
        seen.counts[f"typed: {end}"] += 1
        if end in _command_lines.BAD:
            seen.tracebacks.append(f"{number} {drawn[number].shown}: {told}")
