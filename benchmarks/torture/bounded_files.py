"""Index broken pictures, videos and tables: each is read or listed, at a bounded cost."""

import io
import os
import random
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import numpy as np
from PIL import Image

from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from benchmarks.torture import _gallery
from benchmarks.torture._batch import Batch, line_of

PROMISE = "A file costs a bounded time and memory, whatever is in it."
PROOF = (
    "Pictures of every format, videos and tables of texts are changed: bits, ranges, sizes in "
    "their headers, pieces of one file in another. They are indexed fifty at a time. Each must "
    "be indexed or listed as skipped with a reason; a death of the indexer, a traceback or a "
    "file that is neither is a loss. Every second fifty are decoded as pictures of strangers, "
    "in processes with limits."
)
WANTED, BATCH = 100_000, 500
FOLDER = 50
"""Files that are indexed at once."""
_FORMATS: dict[str, tuple[str, dict[str, object]]] = {
    ".png": ("PNG", {}),
    ".jpg": ("JPEG", {"quality": 60}),
    ".jpeg": ("JPEG", {"progressive": True}),
    ".webp": ("WEBP", {}),
    ".gif": ("GIF", {}),
    ".bmp": ("BMP", {}),
    ".tiff": ("TIFF", {"compression": "tiff_lzw"}),
    ".tif": ("TIFF", {"compression": "jpeg"}),
    ".heic": ("HEIF", {}),
}


_TABLES = (".csv", ".jsonl")


def prepare(place: Path) -> None:
    """One intact file of every kind."""
    seeds = place / "seeds"
    seeds.mkdir()
    draw = np.random.default_rng(0)
    for suffix, (name, how) in _FORMATS.items():
        pixels = draw.integers(0, 255, (6, 8, 3), np.uint8)
        image = Image.fromarray(pixels).resize((64, 48))
        stream = io.BytesIO()
        try:
            if suffix == ".heic":
                import pillow_heif

                pillow_heif.register_heif_opener()
            image.save(stream, name, **how)
        except (ImportError, KeyError, OSError):
            continue  # this Pillow does not write it
        (seeds / f"seed{suffix}").write_bytes(stream.getvalue())
    frames = [Image.new("P", (32, 32), tone) for tone in range(5)]
    frames[0].save(seeds / "moving.gif", save_all=True, append_images=frames[1:])
    _gallery.write_video(seeds / "clip.mp4", [("red", 1), ("blue", 1)])
    (seeds / "notes.csv").write_text("text,tags\na red boat,boat;sea\nblue sky,sky\n")
    (seeds / "notes.jsonl").write_text('{"text": "a red boat", "tags": ["sea"]}\n')


def batch(place: Path, first: int, count: int) -> Batch:
    seen = Batch(tries=count)
    seeds = sorted((place / "seeds").iterdir())
    contents = [path.read_bytes() for path in seeds]
    folder, index = place / "folder", place / "index"
    # once, so that what is imported and allocated once is not counted
    _indexed(place / "seeds", index)
    before = _memory()
    for start in range(first, first + count, FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(index, ignore_errors=True)
        folder.mkdir()
        for number in range(start, min(start + FOLDER, first + count)):
            draw = random.Random(f"file {number}")
            seed = draw.choices(range(len(seeds)), [_share(path) for path in seeds])[0]
            data = changed(contents[seed], draw.choice(contents), draw)
            (folder / f"{number}{seeds[seed].suffix}").write_bytes(data)
        started = time.monotonic()
        elsewhere = start // FOLDER % 2 == 1
        seen.counts["decoded in processes with limits"] += FOLDER * elsewhere
        how = {"AVOW_UNTRUSTED": "pictures" if elsewhere else "0"}
        try:
            with patch.dict(os.environ, how):
                seen.losses += [f"{start} {told}" for told in _indexed(folder, index, seen)]
        except Exception as error:
            seen.tracebacks.append(f"{start} to {start + FOLDER - 1}: {line_of(error)}")
        seen.peak(f"seconds for {FOLDER} files", round(time.monotonic() - started, 1))
    seen.peak("more memory than before, MB", round(_memory() - before))
    return seen


def _indexed(folder: Path, index: Path, seen: Batch | None = None) -> list[str]:
    """Index a folder; which files are neither items nor skipped."""
    index_folders([folder], index=index, encoder=_gallery.encoder(), workers=2)
    with Library.open(index) as library:
        kinds = [library.find(), library.find(None, "text")]
        indexed = {item.path for ids in kinds for item in library.items(ids)}
        skipped = {one.path: one.why for one in library.skipped()}
    if seen is not None:
        seen.counts["indexed"] += len(indexed)
        seen.counts["skipped with a reason"] += len(skipped)
    files = {str(path.resolve()) for path in folder.iterdir()}
    lost = files - indexed - skipped.keys()
    # a table may have no text left, and then nothing of it is an item
    return [f"{path} is nowhere" for path in sorted(lost) if not path.endswith(_TABLES)]


def _share(path: Path) -> int:
    """Mostly pictures; a video takes as long as many of them."""
    return 1 if path.suffix in (".mp4", *_TABLES) else 4


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- changes ------------------------------------------------------------------------------


def changed(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """Some bytes of a file other than they were."""
    held = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        if held:
            draw.choice(CHANGES)(held, other, draw)
    return bytes(held)


def _flip(held: bytearray, other: bytes, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 4, 32))):
        held[draw.randrange(len(held))] ^= 1 << draw.randrange(8)


def _head(held: bytearray, other: bytes, draw: random.Random) -> None:
    """Another number near the beginning, where sizes and kinds stand."""
    start = draw.randrange(min(len(held), 80))
    value = draw.choice((0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, draw.getrandbits(32)))
    size = draw.choice((1, 2, 4))
    orders: tuple[Literal["little", "big"], ...] = ("little", "big")
    order = draw.choice(orders)
    held[start : start + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, order)


def _cut(held: bytearray, other: bytes, draw: random.Random) -> None:
    del held[draw.randrange(len(held)) :]


def _zeros(held: bytearray, other: bytes, draw: random.Random) -> None:
    start = draw.randrange(len(held))
    size = min(draw.choice((1, 16, 200)), len(held) - start)
    held[start : start + size] = bytes(size)


def _piece(held: bytearray, other: bytes, draw: random.Random) -> None:
    start, at = draw.randrange(len(other)), draw.randrange(len(held))
    held[at : at + draw.choice((0, 50))] = other[start : start + draw.choice((8, 60, 500))]


def _again(held: bytearray, other: bytes, draw: random.Random) -> None:
    start, at = draw.randrange(len(held)), draw.randrange(len(held))
    held[at:at] = held[start : start + draw.choice((8, 100))] * draw.choice((1, 3, 50))


CHANGES: tuple[Callable[[bytearray, bytes, random.Random], None], ...] = (
    *(_flip, _flip, _head, _head, _cut),
    *(_zeros, _piece, _again),
)
