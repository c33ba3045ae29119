"""Does a search refuse what is not there, and still answer what is?

    python -m benchmarks.quality.refusal [--home DIR]

Indexes the photographs of the sample's packages and of Flickr8k's test split with the
default model, and asks the lists of benchmarks/quality/refusal_queries.json through the search
itself, in three galleries: the sample alone, Flickr8k test alone, both together. A query
has a right picture at rank 1 when the list names it or a caption of it has all the query's
content words. Prints the share refused of what is absent, the share answered of what is
right at rank 1, and their ratio to a cut on similarity that answers as many. Last, the share
refused of all other absent names, which were in no list that anybody has looked at.
"""

import argparse
import json
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from avow.core.places import avow_home
from avow.data.nouns import FUNCTION, stem
from avow.data.opening import open_dataset
from avow.data.words import word_tokenize
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.search import Retriever
from benchmarks._report import keep
from benchmarks.quality.refusal_queries import away, captions_of

LISTS = Path(__file__).with_name("refusal_queries.json")
GALLERIES = {
    "sample": 'not path~"*/flickr8k-test/*"',
    "flickr8k": 'path~"*/flickr8k-test/*"',
    "mixed": None,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", type=Path, default=avow_home() / "benchmarks" / "refusal")
    chosen = parser.parse_args()
    retriever = Retriever.open(build_index(chosen.home))
    said, spoken = captions(), captions_of()
    rows = {}
    for name, where in GALLERIES.items():
        lists = json.loads(LISTS.read_text())[name]
        row = judge(retriever, where, lists, said)
        known = {query for some in lists["absent"].values() for query in some}
        others = [query for query in away(spoken[name]) if query not in known]
        row |= {"others": len(others), "others_refused": refusals(retriever, where, others)}
        rows[name] = row
        print(
            f"{name:<9} K {row['K']:>5}: refused {row['refused']} of {row['absent']} absent "
            f"(near {row['near']}, far {row['far']}); {row['rank1']:.0%} of {row['queries']} "
            f"right at rank 1, of those {row['kept']:.0%} answered; a cut on similarity that "
            f"answers as many refuses {row['similarity']} (x{row['ratio']:.2f}); of the "
            f"{row['others']} other absent names {row['others_refused']:.0%} are refused"
        )
    print(f"-> {keep('refusal', {'rows': rows, 'lists': LISTS.name})}")


def build_index(home: Path) -> Path:
    photographs = home / "flickr8k-test"
    split = open_dataset("flickr8k").splits["test"]
    if not photographs.is_dir():
        photographs.mkdir(parents=True)
        for file in split.files or ():
            shutil.copy(file, photographs / file.name)
    inside = {"skimage": "data", "sklearn": "datasets/images"}
    folders = [str(photographs)]
    for package, place in inside.items():
        found = find_spec(package)
        assert found is not None and found.submodule_search_locations
        folders.append(str(Path(found.submodule_search_locations[0]) / place))
    index_folders(folders, index=home / "index", encoder=open_encoder())
    return home / "index"


def captions() -> dict[str, list[set[str]]]:
    """The words of every caption, by the name of its photograph."""
    split = open_dataset("flickr8k").splits["test"]
    found: dict[str, list[set[str]]] = {}
    for text, image in zip(split.captions, split.image_of.tolist(), strict=True):
        found.setdefault(split.image_ids[image], []).append(stems(text))
    return found


def stems(text: str) -> set[str]:
    return {stem(word) for word in word_tokenize(text.lower()) if word not in FUNCTION}


def judge(
    retriever: Retriever, where: str | None, lists: dict[str, Any], said: dict[str, Any]
) -> dict[str, Any]:
    refused, scores = {}, {}
    for kind, queries in lists["absent"].items():
        found = [retriever.search(query, where=where) for query in queries]
        refused[kind] = [one.verdict == "nothing_found" for one in found]
        scores[kind] = [first(one).similarity for one in found]
    answers = {query: retriever.search(query, where=where) for query in lists["answerable"]}
    right = {
        query: is_right(query, first(one).path, lists["answerable"][query], said)
        for query, one in answers.items()
    }
    kept = [answers[query].verdict != "nothing_found" for query, yes in right.items() if yes]
    alike = [first(answers[query]).similarity for query, yes in right.items() if yes]
    cut = np.quantile(alike, 1 - np.mean(kept))
    absent = [one for some in refused.values() for one in some]
    plain = int(sum(score < cut for some in scores.values() for score in some))
    return {
        "K": answers[next(iter(answers))].uncertainty.K,
        "absent": len(absent),
        "refused": sum(absent),
        **{kind: sum(some) for kind, some in refused.items()},
        "queries": len(answers),
        "rank1": float(np.mean(list(right.values()))),
        "nouns": _share(
            yes for query, yes in right.items() if isinstance(lists["answerable"][query], str)
        ),
        "kept": float(np.mean(kept)),
        "similarity": plain,
        "ratio": sum(absent) / max(plain, 1),
        "missed": [query for query, yes in right.items() if not yes][:40],
    }


def refusals(retriever: Retriever, where: str | None, queries: list[str]) -> float:
    """The share of queries that are refused."""
    found = (retriever.search(query, where=where) for query in queries)
    return float(np.mean([one.verdict == "nothing_found" for one in found]))


def _share(happened: Iterable[bool]) -> float | None:
    """Of the nouns for the sample's photographs, where the gallery has them."""
    listed = list(happened)
    return float(np.mean(listed)) if listed else None


def first(found: Any) -> Any:
    return (found.hits or found.near_misses)[0]


def is_right(query: str, path: str, listed: str | list[str], said: dict[str, Any]) -> bool:
    place = Path(path)
    names = [listed] if isinstance(listed, str) else listed
    twins = {"motorcycle_right": "motorcycle_left"}
    if place.name in names or twins.get(place.stem, place.stem) in names:
        return True
    asked = stems(query)
    return any(asked <= words for words in said.get(place.name, []))


if __name__ == "__main__":
    main()
