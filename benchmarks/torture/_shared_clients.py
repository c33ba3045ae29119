"""Writers and readers of a shared store in one process, which may be killed at any moment."""

import os
import random
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from avow.core.errors import Unavailable
from avow.retrieval.indexing import index_folders
from avow.retrieval.opening import open_library
from benchmarks.torture import _gallery
from benchmarks.torture._batch import line_of
from benchmarks.torture._history import ABSENT, Log

WRITERS, READERS = 2, 2
CLIPS = 4
"""Different videos; a version takes one of them."""
VARIABLES = {"postgres": "AVOW_PG_DSN", "milvus": "AVOW_MILVUS_URI"}
EXTRA = "sometimes.png"
JUMP = 86_400.0
"""Seconds by which the clock may be wrong."""


def make_clips(place: Path) -> None:
    """Videos that are told apart by their size."""
    place.mkdir()
    for number in range(CLIPS):
        size = (64 + 16 * number, 48)
        _gallery.write_video(place / f"{number}.mp4", [("red", 1), ("green", 1)], size=size)


def work(
    place: Path, address: str, servers: list[str], reads: int, seed: str, jumps: bool = True
) -> None:
    """Write, and read so often in all; what is done goes to the log before and after.

    servers: by which each of the clients reaches the store, in turns. jumps: of the clock.
    """
    log, end = Log(place / "log"), threading.Event()
    lock = threading.Lock()

    def opened(number: int) -> Any:
        with lock:  # the address of the server is read when the store is opened
            _name(address, servers[number % len(servers)])
            return open_library(address)

    def index(number: int, folder: Path) -> None:
        with lock:
            _name(address, servers[number % len(servers)])
        index_folders(
            [folder],
            index=Path(address),
            encoder=_gallery.encoder(),
            prune=True,
            batch=1000,
            workers=1,
        )

    def write(number: int) -> None:
        draw, who = random.Random(f"{seed} writer {number}"), f"writer {number}"
        folder = place / who.replace(" ", "-")
        while not end.is_set():
            _tried(
                log,
                who,
                lambda: _version(place, folder, draw, log, lambda: index(number, folder)),
            )
            _wrong_clock(draw, jumps)
            end.wait(0.05)

    def ask(number: int) -> None:
        draw, who = random.Random(f"{seed} reader {number}"), f"reader {number}"
        library = None
        for turn in range(reads // READERS):

            def once(turn: int = turn) -> None:
                nonlocal library
                library = library or opened(number)
                read(library, who, log)
                if turn % 4 == 0:
                    text = f"{seed} {who} {turn}"
                    log.say(what="opinion", who=who, text=text)
                    library.record({"text": text}, 1, True)
                    log.say(what="acknowledged", who=who)

            _tried(log, who, once)
            _wrong_clock(draw, jumps)
            time.sleep(0.03)
        if library is not None:
            library.close()

    writers = [threading.Thread(target=write, args=[n], daemon=True) for n in range(WRITERS)]
    readers = [threading.Thread(target=ask, args=[n], daemon=True) for n in range(READERS)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    end.set()
    for thread in writers:
        thread.join()


def settle(place: Path, address: str, servers: list[str]) -> None:
    """Nothing disturbs any more: each writer once, and then what is there."""
    _name(address, servers[0])
    log = Log(place / "log")
    for number in range(WRITERS):
        folder, draw = place / f"writer-{number}", random.Random(f"last {number}")

        def index(folder: Path = folder) -> None:
            how = {"encoder": _gallery.encoder(), "prune": True}
            index_folders([folder], index=Path(address), **how)

        _version(place, folder, draw, log, index)
    with open_library(address) as library:
        read(library, "the last reader", log)


def _name(address: str, server: str) -> None:
    """Of stores that are opened from here on, the server."""
    os.environ[VARIABLES[address.partition(":")[0]]] = server


def _version(place: Path, folder: Path, draw: random.Random, log: Log, index: Any) -> None:
    """Give all files of a writer a new version, and bring the store up to date."""
    number = time.monotonic_ns()
    folder.mkdir(exist_ok=True)
    side = 20 + number // 1000 % 400
    _gallery.picture(colour(side), (side, 30)).save(folder / "picture.png")
    (folder / "notes.csv").write_text(f"text\nfirst {side}\nsecond {side}\n")
    clip = draw.randrange(CLIPS)
    (folder / "clip.mp4").write_bytes((place / "clips" / f"{clip}.mp4").read_bytes())
    extra = draw.random() < 0.5
    if extra:
        _gallery.picture(colour(side), (side, 40)).save(folder / EXTRA)
    else:
        (folder / EXTRA).unlink(missing_ok=True)
    versions = {"picture.png": side, "notes.csv": side, "clip.mp4": 64 + 16 * clip}
    versions[EXTRA] = side if extra else ABSENT
    who = folder.name.replace("-", " ")
    files = {str(folder / name): version for name, version in versions.items()}
    log.say(what="write", who=who, files=files)
    index()
    log.say(what="acknowledged", who=who)


def colour(side: int) -> tuple[int, int, int]:
    return side % 256, (7 * side) % 256, (31 * side) % 256


def read(library: Any, who: str, log: Log) -> None:
    """Look at everything that is there, and log it."""
    start = time.monotonic_ns()
    library.refresh()
    opinions = [one.query["text"] for one in library.feedback()]
    partial, seen, wrong = False, {}, []
    query = _gallery.encoder().encode_texts(["red"])
    for kind in ("image", "text"):
        found = library.nearest(query, 1000, library.choose(None, kind, 1024))
        partial |= bool(found.missing)
        for item, score in zip(library.items(found.ids[0]), found.scores[0], strict=True):
            seen.setdefault(item.path, []).append(item)
            wrong += _wrong_score(item, float(score))
    files = {path: _versions(items) for path, items in seen.items()}
    about = {"files": files, "opinions": opinions, "partial": partial, "wrong": wrong}
    log.say(what="read", who=who, start=start, **about)


def _versions(items: list[Any]) -> list[int]:
    """One version where all items of a file are there and of one version; else what is seen."""
    if items[0].kind == "text":
        said = sorted(item.text for item in items)
        sides = {int(text.split()[-1]) for text in said}
        whole = [text.split()[0] for text in said] == ["first", "second"]
        return sorted(sides) if whole else [*sorted(sides), len(said)]
    sides = sorted({item.width for item in items})
    parts = [item.part for item in items]
    return sides if len(set(parts)) == len(parts) else [*sides, *sides]


_SCORES: dict[int, float] = {}


def _wrong_score(item: Any, score: float) -> list[str]:
    if item.kind == "text" or item.moment is not None:
        return []
    side = item.width
    if side not in _SCORES:
        encoder = _gallery.encoder()
        pixels = encoder.prepare(_gallery.picture(colour(side)))
        vector = encoder.encode_prepared(pixels[None])[0]
        _SCORES[side] = float(encoder.encode_texts(["red"])[0] @ vector)
    right = _SCORES[side]
    return [] if abs(right - score) < 1e-3 else [f"{item.path} has {score}, not {right}"]


def _tried(log: Log, who: str, step: Any) -> None:
    try:
        step()
    except Unavailable:
        log.say(what="refused", who=who)
        time.sleep(0.1)
    except Exception as error:
        log.say(what="traceback", who=who, told=line_of(error))


class _Clock(ModuleType):
    """`time` with a wrong time of day; what counts seconds is right."""

    def __init__(self, shift: float):
        super().__init__("time")
        self.__dict__.update({**vars(time), "time": lambda: time.time() + shift})


def _wrong_clock(draw: random.Random, jumps: bool) -> None:
    """Sometimes the clock jumps, for Avow: gRPC counts its seconds by the time of day."""
    if jumps and draw.random() < 0.2:
        clock = _Clock(JUMP * (2 * draw.random() - 1))
        for name, module in list(sys.modules.items()):
            if name.startswith("avow.") and isinstance(vars(module).get("time"), ModuleType):
                module.__dict__["time"] = clock
