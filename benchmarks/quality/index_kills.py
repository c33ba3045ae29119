"""Kill `avow index` at random moments: how many items are lost, and how many doubled?

    python -m benchmarks.quality.index_kills [--kills 50] [--files 400]

The real command indexes a folder and is killed by SIGKILL again and again, each time after
another while; in between, files are added, changed, moved and deleted. At the end it runs
once undisturbed, and the index is compared with the folder and with an index made in one go.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from avow.retrieval.library import Library
from benchmarks._report import keep

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = killed(Path(name), chosen.kills, chosen.files, chosen.seed)
    path = keep("index_kills", figures)
    print(", ".join(f"{value} {key}" for key, value in figures.items()), "->", path)


def killed(place: Path, kills: int, files: int, seed: int = 0) -> dict[str, int]:
    """How an index looks after so many kills."""
    draw = random.Random(seed)
    photos, index = place / "photos", place / "index"
    photos.mkdir()
    for number in range(files):
        make_picture(photos / f"{number:05}.png", number)
    lasts = undisturbed(photos, place / "warm")
    really = fruitless = 0
    while really < kills and fruitless < 5 * kills:
        if run_and_kill(photos, index, lasts * draw.random()):
            really += 1
            print(f"\r{really} kills", end="", file=sys.stderr, flush=True)
        else:  # it was done before its time: give it something to do
            fruitless += 1
            disturb(photos, draw, files)
    undisturbed(photos, index)
    whole = place / "whole"
    undisturbed(photos, whole)
    return {"kills": really} | compared(photos, index, whole)


def command(photos: Path, index: Path) -> subprocess.Popen[bytes]:
    outside = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    words = ["index", photos, "--index", index, "--model", "plugged.colours"]
    words += ["--transfer", "0"]  # only the index is killed at
    settings = {"PYTHONPATH": outside, "OMP_NUM_THREADS": "1", "ENCODER_PAUSE": "0.05"}
    return subprocess.Popen(
        [sys.executable, "-m", "avow", *map(str, words), "--batch", "8"],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
    )


def run_and_kill(photos: Path, index: Path, after: float) -> bool:
    """Whether the command was still at work when it was killed."""
    running = command(photos, index)
    started = time.monotonic()
    # what counts is the writing, not the start of Python: wait for the lock to be taken
    while running.poll() is None and not _writes(index, running.pid):
        time.sleep(0.005)
        if time.monotonic() - started > 300:
            raise SystemExit("avow index has not begun after 300 s")
    try:
        running.wait(after)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGKILL)
    return running.wait() == -signal.SIGKILL


def _writes(index: Path, process: int) -> bool:
    try:
        return (index / "writer.lock").read_text() == str(process)
    except OSError:
        return False


def undisturbed(photos: Path, index: Path) -> float:
    """Seconds of writing."""
    running = command(photos, index)
    while running.poll() is None and not _writes(index, running.pid):
        time.sleep(0.005)
    started = time.monotonic()
    if running.wait():
        raise SystemExit("avow index failed")
    return time.monotonic() - started


def make_picture(path: Path, number: int) -> None:
    tones = np.random.default_rng(number).integers(0, 255, (4, 4, 3), np.uint8)
    Image.fromarray(tones).resize((32, 32), Image.Resampling.NEAREST).save(path)


def disturb(photos: Path, draw: random.Random, files: int) -> None:
    """Add, change, move and delete about a quarter of the files each."""
    there = sorted(photos.iterdir())
    draw.shuffle(there)
    part = len(there) // 4
    for path in there[:part]:
        path.rename(photos / f"moved-{draw.randrange(10**9)}.png")
    for path in there[part : 2 * part]:
        path.unlink()
    for path in there[2 * part : 3 * part]:
        make_picture(path, draw.randrange(10**9))
    for _ in range(max(0, files - len(list(photos.iterdir())))):
        number = draw.randrange(10**9)
        make_picture(photos / f"new-{number}.png", number)


def compared(photos: Path, index: Path, whole: Path) -> dict[str, int]:
    """Items against files, and vectors against those of an index made in one go."""
    wanted = {str(path.resolve()) for path in photos.iterdir()}
    with Library.open(index) as library, Library.open(whole) as other:
        ids = library.find()
        paths = [item.path for item in library.items(ids)]
        vectors = dict(zip(paths, library.vectors(ids), strict=True))
        right = other.find()
        others = zip(other.items(right), other.vectors(right), strict=True)
        wrong = sum(
            not np.allclose(vectors.get(item.path, np.nan), vector, atol=1e-6)
            for item, vector in others
        )
        rows = library._state.rows
        doubled = len(paths) - len(set(paths)) + len(rows) - len(set(rows.tolist()))
    return {
        "files": len(wanted),
        "lost": len(wanted - set(paths)),
        "left_over": len(set(paths) - wanted),
        "doubled": doubled,
        "wrong": wrong,
    }


if __name__ == "__main__":
    main()
