"""Kill `avow index` at random moments: how many items are lost, and how many doubled?

    python -m benchmarks.quality.index_kills [--kills 50] [--files 400] [--videos 20]

The real command indexes a folder and is killed by SIGKILL again and again, each time after
another while; in between, files are added, changed, moved and deleted. At the end it runs
once undisturbed, and the index is compared with the folder and with an index made in one go.
"""

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
from benchmarks._report import keep, sizes_parser

ROOT = Path(__file__).parents[2]


def main() -> None:
    chosen = sizes_parser(__doc__, kills=50, files=400, videos=20, seed=0).parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = killed(Path(name), chosen.kills, chosen.files, chosen.seed, chosen.videos)
    figures["videos"] = chosen.videos
    path = keep("index_kills", figures)
    print(", ".join(f"{value} {key}" for key, value in figures.items()), "->", path)


def killed(
    place: Path, kills: int, files: int, seed: int = 0, videos: int = 0
) -> dict[str, int]:
    """How an index looks after so many kills; videos: how many of the files are."""
    draw = random.Random(seed)
    photos, index = place / "photos", place / "index"
    photos.mkdir()
    for number in range(files):
        make_file(photos / f"{number:05}.{'mp4' if number < videos else 'png'}", number)
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
    whole = place / ("whole" if fruitless else "warm")
    if fruitless:  # the files have changed since
        undisturbed(photos, whole)
    return {"kills": really} | compared(photos, index, whole)


def unharmed(kills: int, files: int) -> dict[str, int]:
    """What `killed` finds where nothing was lost, left over, doubled or wrong."""
    harm = {"lost": 0, "left_over": 0, "doubled": 0, "wrong": 0}
    return {"kills": kills, "files": files} | harm


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


def make_file(path: Path, number: int) -> None:
    make_video(path, number) if path.suffix == ".mp4" else make_picture(path, number)


def make_video(path: Path, number: int) -> None:
    """Three scenes of two seconds, each of sixteen colours."""
    import av

    draw = np.random.default_rng(number)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for _ in range(3):
            tones = Image.fromarray(draw.integers(0, 255, (4, 4, 3), np.uint8))
            large = tones.resize((64, 64), Image.Resampling.NEAREST)
            for _ in range(10):
                container.mux(stream.encode(av.VideoFrame.from_image(large)))
        container.mux(stream.encode())


def make_picture(path: Path, number: int) -> None:
    tones = np.random.default_rng(number).integers(0, 255, (4, 4, 3), np.uint8)
    Image.fromarray(tones).resize((32, 32), Image.Resampling.NEAREST).save(path)


def disturb(photos: Path, draw: random.Random, files: int) -> None:
    """Add, change, move and delete about a quarter of the files each."""
    there = sorted(photos.iterdir())
    draw.shuffle(there)
    part = len(there) // 4
    for path in there[:part]:
        path.rename(photos / f"moved-{draw.randrange(10**9)}{path.suffix}")
    for path in there[part : 2 * part]:
        path.unlink()
    for path in there[2 * part : 3 * part]:
        make_file(path, draw.randrange(10**9))
    for old in there[part : 2 * part][: max(0, files - len(list(photos.iterdir())))]:
        number = draw.randrange(10**9)
        make_file(photos / f"new-{number}{old.suffix}", number)


def compared(photos: Path, index: Path, whole: Path) -> dict[str, int]:
    """Items against files, and vectors against those of an index made in one go."""
    wanted = {str(path.resolve()) for path in photos.iterdir()}
    with Library.open(index) as library, Library.open(whole) as other:
        ids = library.find()
        # a video has several items, one a segment
        places = [(item.path, item.part) for item in library.items(ids)]
        paths = {path for path, _ in places}
        vectors = dict(zip(places, library.vectors(ids), strict=True))
        right = other.find()
        expected = [(item.path, item.part) for item in other.items(right)]
        others = zip(expected, other.vectors(right), strict=True)
        wrong = len(vectors.keys() - set(expected)) + sum(
            not np.allclose(vectors.get(place, np.nan), vector, atol=1e-6)
            for place, vector in others
        )
        rows = library._state.rows
        doubled = len(places) - len(vectors) + len(rows) - len(set(rows.tolist()))
    return {
        "files": len(wanted),
        "lost": len(wanted - paths),
        "left_over": len(paths - wanted),
        "doubled": doubled,
        "wrong": wrong,
    }


if __name__ == "__main__":
    main()
