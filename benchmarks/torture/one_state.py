"""Search while a writer is killed again and again: each answer is of one committed state.

The folder has groups of pictures, all of one colour, and one picture that has the colour of the
newest group. A group comes and goes as a whole, in one transaction each. So an answer is of one
committed state when every group in it is complete, and the one picture has the colour of the
newest group that is there; every similarity must be the one of that colour.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from benchmarks.torture import _gallery
from benchmarks.torture._batch import Batch, line_of

PROMISE = "Every answer is of one committed state."
PROOF = (
    "Readers and servers search an index while a writer changes it and is killed at random "
    "moments. Pictures come and go in groups, a group in one transaction, so an answer with "
    "part of a group, with a picture as it was before and others as they are after, or with "
    "another similarity than the picture has, is of no committed state, and a loss."
)
WANTED, BATCH = 20_000, 1000
GROUP = 5
READERS, SERVERS = 2, 1
PAUSE = 0.03
"""Seconds between two questions, so that the writer gets on meanwhile."""
_SPAWN = multiprocessing.get_context("spawn")


def prepare(place: Path) -> None:
    change(place / "photos", 0)
    _write(place)


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch(tries=count)
    answers, end = _SPAWN.Queue(), _SPAWN.Event()
    each = -(-count // (READERS + SERVERS))
    port = _free_port()
    server = _SPAWN.Process(target=serve, args=[place, port], daemon=True)
    server.start()
    asking = [
        _SPAWN.Process(target=read, args=[place, each, answers], daemon=True)
        for _ in range(READERS)
    ]
    asking += [
        _SPAWN.Process(target=ask, args=[port, each, answers], daemon=True)
        for _ in range(SERVERS)
    ]
    for process in asking:
        process.start()
    writer = _SPAWN.Process(target=write_and_die, args=[place, first, end, answers])
    writer.start()
    got = 0
    while got < len(asking):
        kind, value = answers.get(timeout=3000)
        if kind == "done":
            got += 1
        elif kind == "loss":
            seen.losses.append(f"{first} {value}")
        elif kind == "traceback":
            seen.tracebacks.append(f"{first} {value}")
        else:
            seen.counts[kind] += value
    end.set()
    writer.join()
    while not answers.empty():
        kind, value = answers.get()
        if kind in ("kills", "runs"):
            seen.counts[kind] += value
    server.terminate()
    server.join()
    return seen


# --- the writer ---------------------------------------------------------------------------


def colour(number: int) -> tuple[int, int, int]:
    """Of a group, its own."""
    draw = random.Random(f"colour {number}")
    return draw.randrange(256), draw.randrange(256), draw.randrange(256)


def change(photos: Path, number: int) -> None:
    """Make group `number` the only one."""
    shutil.rmtree(photos, ignore_errors=True)
    photos.mkdir()
    for part in range(GROUP):
        _gallery.picture(colour(number), (40 + part, 30)).save(photos / f"{number}-{part}.png")
    _gallery.picture(colour(number), (60, 30)).save(photos / "newest.png")


def _write(place: Path) -> None:
    index_folders(
        [place / "photos"], index=place / "index", encoder=_gallery.encoder(), prune=True
    )


def write_and_die(place: Path, first: int, end: Any, answers: Any) -> None:
    """Write in children of our own, most of which are killed."""
    draw = random.Random(f"writer {first}")
    # greater than in every batch before: a change takes longer than a millisecond
    number = time.time_ns() // 10**6
    kills = runs = 0
    while not end.is_set():
        number += 1
        change(place / "photos", number)
        for _ in range(draw.choice((1, 2, 4))):
            child = os.fork()
            if not child:
                try:
                    _write(place)
                finally:
                    os._exit(0)
            time.sleep(0.15 * draw.random())
            os.kill(child, signal.SIGKILL)
            kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        if draw.random() < 0.5:
            _write(place)
            runs += 1
    answers.put(("kills", kills))
    answers.put(("runs", runs))


# --- those who ask ------------------------------------------------------------------------


def read(place: Path, count: int, answers: Any) -> None:
    encoder = _gallery.encoder()
    states: set[tuple[int, ...]] = set()
    try:
        with Library.open(place / "index", encoder) as library:
            query = encoder.encode_texts(["red"])
            for _ in range(count):
                time.sleep(PAUSE)
                library.refresh()
                ids, scores = library.search(query, 100)
                names = [Path(item.path).name for item in library.items(ids[0])]
                wrong = judged(names, scores[0].tolist(), states)
                if wrong:
                    answers.put(("loss", wrong))
        answers.put(("answers of readers", count))
        answers.put(("states that readers saw", len(states)))
    except BaseException as error:
        answers.put(("traceback", line_of(error)))
    answers.put(("done", 1))


def serve(place: Path, port: int) -> None:
    from avow.api import Limits, create_app
    from avow.cli.serve import listen, run

    encoder = _gallery.encoder()
    retriever = Retriever(Library.open(place / "index", encoder), encoder)
    run(create_app(retriever, limits=Limits()), listen("127.0.0.1", port))


def ask(port: int, count: int, answers: Any) -> None:
    states: set[tuple[int, ...]] = set()
    done = busy = 0
    end = time.monotonic() + 300
    while done < count:
        try:
            address = f"http://127.0.0.1:{port}/api/search?text=red&k=100"
            with urllib.request.urlopen(address, timeout=120) as answer:
                hits = json.loads(answer.read())["hits"]
        except urllib.error.HTTPError as error:
            if error.code != 503:
                answers.put(("traceback", f"the server answered {error.code}"))
                done += 1
            busy += 1
            continue
        except OSError as error:  # it has not started yet
            if time.monotonic() > end:
                answers.put(("traceback", f"the server does not answer: {error}"))
                break
            time.sleep(0.1)
            continue
        done += 1
        time.sleep(PAUSE)
        names = [Path(hit["path"]).name for hit in hits]
        wrong = judged(names, [hit["similarity"] for hit in hits], states)
        if wrong:
            answers.put(("loss", f"server: {wrong}"))
    answers.put(("answers of servers", done))
    answers.put(("states that clients saw", len(states)))
    answers.put(("done", 1))


def judged(names: list[str], scores: list[float], states: set[tuple[int, ...]]) -> str:
    """Why an answer is of no committed state; nothing where it is of one."""
    groups: dict[int, int] = {}
    for name in names:
        if name != "newest.png":
            number = int(name.partition("-")[0])
            groups[number] = groups.get(number, 0) + 1
    states.add(tuple(sorted(groups)))
    if any(size != GROUP for size in groups.values()) or names.count("newest.png") != 1:
        return f"groups {groups} with {names.count('newest.png')} newest"
    for name, score in zip(names, scores, strict=True):
        number = max(groups) if name == "newest.png" else int(name.partition("-")[0])
        if abs(score - _similarity(number)) > 1e-3:
            return f"{name} has {score} and not {_similarity(number)} with groups {groups}"
    return ""


_KNOWN: dict[int, float] = {}


def _similarity(number: int) -> float:
    if number not in _KNOWN:
        encoder = _gallery.encoder()
        pixels = encoder.prepare(_gallery.picture(colour(number)))
        vector = encoder.encode_prepared(np.asarray(pixels)[None])[0]
        _KNOWN[number] = float(encoder.encode_texts(["red"])[0] @ vector)
    return _KNOWN[number]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
