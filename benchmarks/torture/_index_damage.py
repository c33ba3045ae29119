"""A small calibrated index with every kind of file: damages of it, and how it answers then.

An index (pictures, texts with tags, reference queries, judgements; exact or Faiss) has one of
its files damaged: bits flipped, a range zeroed, truncated, bytes appended, two ranges swapped,
emptied or removed. Then it is opened, searched, filtered and listed. A damage is "told" when
that ends in a sentence, "harmless" when every answer is the same, "silent" when an answer
changed, and a "traceback" otherwise.
"""

import csv
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
from search_samples import ColourEncoder, colours_of, save_pictures  # type: ignore  # noqa: E402

from avow.core.errors import AvowError  # noqa: E402
from avow.retrieval.calibrate import calibrate  # noqa: E402
from avow.retrieval.indexing import index_folders  # noqa: E402
from avow.retrieval.library import Library  # noqa: E402
from avow.retrieval.search import Retriever  # noqa: E402
from avow.retrieval.store.inspection import CALIBRATE, REBUILD, inspect_index  # noqa: E402

PICTURES = 120
QUERIES = ("a red thing over green", "a blue thing", "something or other", "pink over black")
TOLD = ("cannot be read", "is missing")


class Colours(ColourEncoder):
    """With reference queries, so that the index keeps what is usual for its items."""

    bank = ("a red thing", "a green thing", "blue over white", "nothing", "pink and brown")

    def __init__(self) -> None:
        super().__init__("c01045c01045beef", slips=0.25)


# --- damages -------------------------------------------------------------------------------


def flip_bits(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def zero_range(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    length = min(draw.choice((1, 16, 512, 4096)), len(data) - start)
    data[start : start + length] = bytes(length)


def truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def append(data: bytearray, draw: random.Random) -> None:
    data += draw.randbytes(draw.choice((1, 44, 512, 4096)))


def swap_ranges(data: bytearray, draw: random.Random) -> None:
    length = min(draw.choice((4, 64, 512, 4096)), len(data) // 2)
    first = draw.randrange(len(data) - 2 * length + 1)
    second = draw.randrange(first + length, len(data) - length + 1)
    one, other = slice(first, first + length), slice(second, second + length)
    data[one], data[other] = data[other], data[one]


def empty(data: bytearray, draw: random.Random) -> None:
    del data[:]


DAMAGES: dict[str, Callable[[bytearray, random.Random], None] | None] = {
    "bits flipped": flip_bits,
    "range zeroed": zero_range,
    "truncated": truncate,
    "appended": append,
    "ranges swapped": swap_ranges,
    "emptied": empty,
    "removed": None,
}
_WEIGHTS = (6, 4, 2, 1, 3, 1, 1)


def damage(folder: Path, draw: random.Random) -> tuple[str, str]:
    """Damage one file below `folder`; which one, and how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # large files hold more that can break, small ones break more often per byte
    weights = [1 + path.stat().st_size / 2**16 for path in files]
    path = draw.choices(files, weights)[0]
    how = draw.choices(list(DAMAGES), _WEIGHTS)[0]
    change = DAMAGES[how]
    if change is None:
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        if data:
            change(data, draw)
        path.write_bytes(data)
    return path.name, how


# --- an index ------------------------------------------------------------------------------


def build_index(place: Path, engine: str = "exact") -> Path:
    """A small index that has every kind of file an index can have."""
    home, index = place / "pictures", place / f"index-{engine}"
    if not home.exists():
        save_pictures(home, PICTURES)
        (home / "broken.png").write_bytes(b"no picture")
        (home / "notes.csv").write_text(
            "text,tags\na red boat,boat;sea\nblue sky,sky\ngreen grass,grass;sea\n"
        )
        with (place / "pairs.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(("query", "file"))
            for number in range(PICTURES):
                main, under = colours_of(number)
                query = f"a {main} thing over {under} number {number}"
                rows.writerow((query, f"{main}-{number:03d}.png"))
    encoder = Colours()
    index_folders([home], index=index, encoder=encoder, engine=engine)
    with Library.open(index, encoder) as library:
        retriever = Retriever(library, encoder)
        retriever.feedback("a red thing", int(library.find()[0]), True)
        retriever.feedback("a blue thing", int(library.find()[1]), False)
        calibrate(retriever, place / "pairs.csv")
    return index


def answers(index: Path) -> dict[str, Any]:
    """Everything that a user can see of an index."""
    encoder = Colours()
    with Library.open(index, encoder) as library:
        retriever = Retriever(library, encoder)
        found: dict[str, Any] = {}
        found |= {text: _shown(retriever.search(text, k=5)) for text in QUERIES}
        found["filter"] = _shown(retriever.search("red", where='name~"red" or size>9KB'))
        found["tags"] = _shown(retriever.search("red", kind="text", where="tag=sea"))
        found["similar"] = _shown(retriever.similar(int(library.find()[3]), k=3))
        every = np.concatenate([library.find(), library.find(None, "text")])
        found["items"] = [asdict(item) for item in library.items(every)]
        found["folders"] = library.folders()
        found["skipped"] = [asdict(one) for one in library.skipped()]
        found["feedback"] = [asdict(one) for one in library.feedback()]
    return found


def _shown(result: Any) -> dict[str, Any]:
    return {key: value for key, value in result.to_dict().items() if key != "seconds"}


def outcome(index: Path, wanted: dict[str, Any]) -> tuple[str, str]:
    """How a damaged index behaves, and the sentence or the error."""
    try:
        found = answers(index)
    except AvowError as error:
        return "told", str(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    if found == wanted:
        return "harmless", ""
    whys = [part["why"] for part in found.values() if isinstance(part, dict)]
    told = [why for why in whys if any(sign in why for sign in TOLD)]
    changed = [key for key in wanted if found[key] != wanted[key]]
    return ("told", told[0]) if told else ("silent", f"changed: {changed}")


def repaired(index: Path, place: Path, wanted: dict[str, Any]) -> bool:
    """Whether the recommended commands make an index that answers as it did."""
    encoder, folders = Colours(), [place / "pictures"]
    for command in dict.fromkeys(one.run for one in inspect_index(index)):
        if command == CALIBRATE:
            with Library.open(index, encoder) as library:
                calibrate(Retriever(library, encoder), place / "pairs.csv")
        else:
            index_folders(folders, index=index, encoder=encoder, rebuild=command == REBUILD)
    return not inspect_index(index) and _essence(answers(index)) == _essence(wanted)


def _essence(shown: dict[str, Any]) -> list[Any]:
    """Answers without the numbers of items, which may be others after a rebuild."""
    kept = ("path", "p_relevant", "similarity")
    return [
        (shown[text]["verdict"], [_rounded(hit, kept) for hit in shown[text]["hits"]])
        for text in QUERIES
    ]


def _rounded(hit: dict[str, Any], kept: tuple[str, ...]) -> list[Any]:
    """Another order of the rows may change the last digit of a sum."""
    values = [hit[key] for key in kept]
    return [round(value, 5) if isinstance(value, float) else value for value in values]


def engines() -> list[str]:
    return ["exact", *(["faiss"] if _has_faiss() else [])]


def _has_faiss() -> bool:
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True
