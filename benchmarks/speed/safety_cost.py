"""What the checksums of an index cost: an earlier Avow and this one, side by side.

    python -m benchmarks.speed.safety_cost --before CHECKOUT [--repeats 5] [--items 50000]

Both index the same files and open and search what they have made, each in processes of its
own, in turn. Times are processor time, so that other work on the machine hardly counts; of
every process the least is taken, and of all processes the median. "first_answer" is the
Retriever's opening: an index opened, its model loaded and one question answered.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMITS = {"library_open": 1.05, "first_answer": 1.05, "index_pictures": 1.03, "search": 1.05}
PICTURES = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout to compare with")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--work", default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        print(json.dumps(measured(Path(chosen.work), chosen.items)))
        return
    from benchmarks._report import keep

    for figures in compared(chosen.before, chosen.repeats, chosen.items):
        path = keep("safety_cost", figures)  # after every round: a run may be cut short
        print(f"{figures['repeats']} rounds -> {path}")
        for name, part in figures["parts"].items():
            old, new, ratio = part["before"], part["after"], part["ratio"]
            print(f"{name:16} {old:9.4f} s {new:9.4f} s  x {ratio:.3f}", flush=True)


def compared(before: Path, repeats: int, items: int) -> Iterator[dict[str, Any]]:
    """The figures of all rounds so far, after each of them."""
    trees = {"before": before.resolve(), "after": ROOT}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_files(place, items)
        for number in range(repeats):
            # whoever comes first finds a colder machine: take turns
            for tree in sorted(trees, reverse=bool(number % 2)):
                found[tree].append(_process(trees[tree], place / tree, items))
                print(number, tree, found[tree][-1], file=sys.stderr)
            yield {
                "repeats": number + 1,
                "items": items,
                "pictures": PICTURES,
                "parts": _medians(found["before"], found["after"]),
            }


def _medians(
    before: list[dict[str, float]], after: list[dict[str, float]]
) -> dict[str, dict[str, float]]:
    parts = {}
    for name in after[0]:
        ratios = [new[name] / old[name] for old, new in zip(before, after, strict=True)]
        parts[name] = {
            "before": statistics.median(one[name] for one in before),
            "after": statistics.median(one[name] for one in after),
            "ratio": statistics.median(ratios),
        }
        if name in LIMITS:
            parts[name]["limit"] = LIMITS[name]
    return parts


def _process(tree: Path, place: Path, items: int) -> dict[str, float]:
    outside = f"{tree}{os.pathsep}{ROOT / 'tests'}"
    settings = {"PYTHONPATH": outside, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [__file__, "--before", str(tree), "--work", str(place), "--items", str(items)]
    done = subprocess.run(
        [sys.executable, *words], env=os.environ | settings, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def make_files(place: Path, items: int) -> None:
    """Photographs of noise, and a table of texts."""
    import numpy as np
    from PIL import Image

    for name in ("pictures", "texts"):
        (place / name).mkdir()
    for number in range(PICTURES):
        tones = np.random.default_rng(number).integers(0, 255, (12, 16, 3), np.uint8)
        picture = Image.fromarray(tones).resize((640, 480), Image.Resampling.BICUBIC)
        picture.save(place / "pictures" / f"{number:04}.jpg")
    lines = (f"text number {number}" for number in range(items))
    (place / "texts" / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")


def measured(place: Path, items: int) -> dict[str, float]:
    """The times of one version, in this process."""
    from encoders import ColourEncoder  # type: ignore[import-not-found]

    import avow

    try:
        from avow.retrieval.encoders.opening import open_encoder
    except ImportError:  # as it was called before
        from avow.retrieval.encoder import open_encoder  # type: ignore[import-not-found]
    from avow.retrieval.indexing import index_folders
    from avow.retrieval.library import Library
    from avow.retrieval.search import Retriever

    assert str(place.name) == (
        "after" if Path(avow.__file__).is_relative_to(ROOT) else "before"
    )
    quick = ColourEncoder(dim=512)
    texts, pictures = place / "texts", place / "pictures"
    figures: dict[str, float] = {}
    if not texts.exists():
        index_folders([place.parent / "texts"], index=texts, encoder=quick)
    number = sum(1 for _ in place.glob("pictures-*"))
    encoder = open_encoder("default")
    fresh = place / f"pictures-{number}"
    figures["index_pictures"] = _seconds(
        lambda: index_folders([place.parent / "pictures"], index=fresh, encoder=encoder), 1
    )
    few = place / f"texts-{number}"
    figures["index_2000_texts"] = _seconds(
        lambda: index_folders([_some(place, 2000)], index=few, encoder=quick), 1
    )
    figures["first_answer"] = _seconds(
        lambda: Retriever.open(fresh).search("a dog on a beach", k=5), 3
    )
    figures["library_open"] = _seconds(lambda: Library.open(texts, quick).close(), 7)
    with Library.open(texts, quick) as library:
        retriever = Retriever(library, quick)
        figures["first_search"] = _seconds(lambda: _ask(retriever, 0), 1)
        figures["search"] = statistics.median(
            _seconds(lambda n=n: _ask(retriever, n), 1) for n in range(40)
        )
        asked = {"where": 'path~"texts"'}
        figures["first_filter"] = _seconds(lambda: _ask(retriever, 0, **asked), 1)
        figures["filter"] = _seconds(lambda: library.find(_where(), "text"), 5)
    assert pictures.exists() or len(library) == items
    return figures


def _ask(retriever: Any, number: int, **more: Any) -> Any:
    return retriever.search(f"text number {number}", k=10, kind="text", **more)


def _where() -> Any:
    from avow.retrieval.where import Where

    return Where.parse('name~"texts" and size>1')


def _some(place: Path, count: int) -> Path:
    folder = place / "some"
    if not folder.exists():
        folder.mkdir()
        lines = (f"some text number {number}" for number in range(count))
        (folder / "texts.csv").write_text("text\n" + "\n".join(lines) + "\n")
    return folder


def _seconds(work: Callable[[], Any], times: int) -> float:
    """The least processor time of several runs."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return round(min(taken), 6)


if __name__ == "__main__":
    main()
