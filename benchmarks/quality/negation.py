"""Queries that leave something out: does a search keep it away?

    python -m benchmarks.quality.negation [--home DIR]

Indexes the dev photographs of COCO with the default model. For pairs of objects A and B that
are often in one photograph, asks "A without B", "A with no B" and "A but no B" as the search
rewrites them and as they stand, and counts which of the first five hits hold A and not B, by
the list of objects. Prints precision at five of both and their ratio, and how often the verdict
was "answer" while all five showed B.
"""

import argparse
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from avow.core.places import avow_home
from avow.data.opening import dataset_file, open_dataset
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.search import Retriever
from avow.study.short_queries import read_objects, with_article
from benchmarks._report import keep

FEWEST, OFTEN, SELDOM, EACH, SHOWN = 15, 0.25, 0.75, 4, 5
FORMS = ("{a} without {b}", "{a} with no {bare}", "{a} but no {bare}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, default=avow_home() / "benchmarks" / "negation")
    chosen = parser.parse_args()
    objects = read_objects(dataset_file("coco", "objects_dev.json"))
    retriever = Retriever.open(build_index(chosen.home, objects))
    rows = [
        asked(retriever, objects, one, other, FORMS[place % len(FORMS)])
        for place, (one, other) in enumerate(tqdm(pairs(objects)))
    ]
    rewritten, plain = (float(np.mean([row[key] for row in rows])) for key in ("left", "plain"))
    wrong = sum(row["answered_wrong"] for row in rows)
    known = sum(row["rewritten"] for row in rows)
    print(
        f"{len(rows)} queries, {known} read as negations: of the first five hold A and not B "
        f"{rewritten:.3f}, as they stand {plain:.3f} (x{rewritten / max(plain, 1e-9):.2f}); "
        f"answered while all five show B: {wrong}"
    )
    summary = {"queries": len(rows), "read": known, "left_out": rewritten, "plain": plain}
    print(f"-> {keep('negation', {**summary, 'answered_wrong': wrong, 'rows': rows})}")


def build_index(home: Path, objects: dict[str, tuple[str, ...]]) -> Path:
    folder = home / "photographs"
    split = open_dataset("coco").splits["dev"]
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for file in split.files or ():
            if file.name in objects:
                shutil.copy(file, folder / file.name)
    index_folders([str(folder)], index=home / "index", encoder=open_encoder())
    return home / "index"


def pairs(objects: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Objects that many photographs hold, each with others that are often beside it."""
    count = Counter(name for held in objects.values() for name in set(held))
    found = []
    for name in sorted(one for one, number in count.items() if number >= FEWEST):
        beside = Counter(
            other for held in objects.values() if name in held for other in set(held) - {name}
        )
        often = [
            other
            for other, number in sorted(beside.items(), key=lambda item: (-item[1], item[0]))
            if OFTEN <= number / count[name] <= SELDOM
            and not set(other.split()) & set(name.split())
        ]
        found += [(name, other) for other in often[:EACH]]
    return found


def asked(
    retriever: Retriever, objects: dict[str, tuple[str, ...]], one: str, other: str, form: str
) -> dict[str, Any]:
    text = form.format(a=with_article(one), b=with_article(other), bare=other)
    left = retriever.search(text, k=SHOWN)
    plain = retriever.search(text, k=SHOWN, rewrite=False)
    held = [objects[Path(hit.path).name] for hit in left.hits or left.near_misses]
    before = [objects[Path(hit.path).name] for hit in plain.hits or plain.near_misses]
    return {
        "query": text,
        "rewritten": left.query["without"] is not None,
        "verdict": left.verdict,
        "left": float(np.mean([one in names and other not in names for names in held])),
        "plain": float(np.mean([one in names and other not in names for names in before])),
        "answered_wrong": left.verdict == "answer" and all(other in names for names in held),
    }


if __name__ == "__main__":
    main()
