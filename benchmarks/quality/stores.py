"""Every shared store beside a folder: the same hits, the same P, the same verdicts?

    python -m benchmarks.quality.stores [--pictures 5000] [--queries 300] [--stores ...]

Pictures of Flickr8k are indexed to a folder with the shipped model, and the rows are copied
into every store that answers: `postgres` (the server of AVOW_PG_DSN; also with its graph,
`postgres-hnsw`) and `milvus` (a file of Milvus Lite); where AVOW_MILVUS_URI names a server,
`milvus-server` in place of the last.
Captions and names of what no picture shows ask: one by one, and together with a filter. Then a
tenth of the pictures is deleted, replaced or moved, and `avow index` brings each of them up to
date; then everything is opened anew, after --restart COMMAND has restarted the servers, where
it is given (`python -m benchmarks.milvus_server FOLDER` restarts a Milvus). Stores that are not
asked for keep their earlier figures.

Recall at 10 is held against a plain product of the vectors that the folder has.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from avow.core.errors import AvowError
from avow.core.places import avow_home
from avow.core.searching import Encoder
from avow.data.opening import open_dataset
from avow.retrieval.answer import Hit, SearchResult
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.opening import open_library, open_shared
from avow.retrieval.search import Retriever
from avow.retrieval.shared_indexing import Filler
from avow.retrieval.shared_library import FOLDERS
from avow.retrieval.shared_preparing import How, open_for_writing
from avow.retrieval.store.reading import Fresh
from avow.retrieval.store_contract import Row, item_id
from avow.retrieval.where import Where
from benchmarks._report import RESULTS, commit, keep

NAME, NAMED = "stores", "avow_benchmark"
ENGINES = {"postgres": "exact", "postgres-hnsw": "hnsw"}
ENGINES |= {"milvus": "exact", "milvus-server": "exact"}
FILTERS = (
    *("width>400", "size<100KB", "name~'1*' or name~'2*'"),
    *("height>=350 and not name~'*7*'", "modified>=2000 and width<=400", "name~'33*'"),
)
PAGE, AT_ONCE = 10, 500
FEW = 60
"""Queries without a filter whose nearest are compared with a plain product."""
ROUNDING = 1e-6
"""Similarities that differ by less tie."""
QUERIES = Path(__file__).with_name("refusal_queries.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", type=int, default=5000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--stores", nargs="*", default=usual_stores())
    parser.add_argument("--place", type=Path, default=avow_home() / "benchmarks" / "stores")
    parser.add_argument("--restart", default="", help="a command that restarts the servers")
    chosen = parser.parse_args()
    photos, encoder = chosen.place / "photos", remembering(open_encoder())
    others = laid_out(photos, chosen.pictures)
    place = chosen.place / "local"
    index_folders([photos], index=place, encoder=encoder, prune=True)
    found = earlier()
    addresses: dict[str, Path] = {}
    for name in chosen.stores:
        address = Path(f"{name.split('-')[0]}:{NAMED}_{name.replace('-', '_')}")
        try:
            found[name] = {
                "commit": commit(),
                "copy_s": round(copied(place, address, name, encoder), 1),
            }
            addresses[name] = address
        except AvowError as error:
            found[name] = {"not_run": str(error)}
    asked = questions(photos, chosen.queries)
    try:
        compare("as indexed", place, addresses, encoder, asked, found)
        changes = changed(photos, others)
        for index in (place, *addresses.values()):
            index_folders([photos], index=index, encoder=encoder)
        compare("after changes", place, addresses, encoder, asked, found)
        if chosen.restart:
            subprocess.run(shlex.split(chosen.restart), check=True)
        compare("after a restart", place, addresses, encoder, asked, found)
        for name in addresses:
            found[name]["server_restarted"] = bool(chosen.restart)
    finally:
        for address in addresses.values():
            with closing(opened(address)) as store:
                store.drop()
    about = {"commit": commit(), "pictures": chosen.pictures, "queries": len(asked)}
    about |= {"filters": list(FILTERS), "changes": changes, "page": PAGE}
    keep(NAME, about | {"stores": found})


def usual_stores() -> list[str]:
    """All of them, with one of the two kinds of Milvus: both are named by one variable."""
    is_server = "://" in os.environ.get("AVOW_MILVUS_URI", "")
    return [name for name in ENGINES if name != ("milvus" if is_server else "milvus-server")]


def earlier() -> dict[str, Any]:
    """What was found before, by store."""
    path = RESULTS / f"{NAME}.json"
    return json.loads(path.read_text())["stores"] if path.exists() else {}


def remembering(encoder: Encoder) -> Encoder:
    """The same encoder; a text that was asked before is not encoded again."""
    known: dict[str, np.ndarray] = {}
    encode = encoder.encode_texts

    def encode_texts(texts: Sequence[str]) -> np.ndarray:
        new = list(dict.fromkeys(text for text in texts if text not in known))
        if new:
            known.update(zip(new, encode(new), strict=True))
        return np.stack([known[text] for text in texts])

    encoder.encode_texts = encode_texts
    return encoder


def laid_out(photos: Path, count: int) -> list[Path]:
    """Links to so many pictures, as nothing had changed them; the other pictures there are."""
    files = sorted(
        Path(file)
        for split in open_dataset("flickr8k").splits.values()
        for file in split.files or ()
    )
    photos.mkdir(parents=True, exist_ok=True)
    wanted = {file.name: file for file in files[:count]}
    for there in photos.iterdir():
        if there.name not in wanted or not there.samefile(wanted[there.name]):
            there.unlink()
    for file in wanted.values():
        if not (photos / file.name).exists():
            linked(file, photos / file.name)
    return files[count:]


def linked(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:  # on another disk
        shutil.copy2(file, place)


def changed(photos: Path, others: Sequence[Path]) -> dict[str, int]:
    """Delete, replace and move a tenth of the pictures in all."""
    files, rng = sorted(photos.iterdir()), np.random.default_rng(1)
    part = len(files) // 30
    places = rng.permutation(len(files))[: 3 * part]
    for place in places[:part]:
        files[place].unlink()
    for place, other in zip(places[part : 2 * part], others, strict=False):
        files[place].unlink()
        linked(other, files[place])
    for place in places[2 * part :]:
        files[place].rename(photos / f"moved-{files[place].name}")
    return {"deleted": part, "replaced": min(part, len(others)), "moved": part}


def questions(photos: Path, count: int) -> list[str]:
    """Captions of pictures that are there, and for a third names that no caption has."""
    absent = json.loads(QUERIES.read_text())["flickr8k"]["absent"]
    absent = [*absent["near"], *absent["far"]]
    rng, names = np.random.default_rng(0), {file.name for file in photos.iterdir()}
    captions = [
        split.captions[caption]
        for split in open_dataset("flickr8k").splits.values()
        for caption, image in enumerate(split.image_of.tolist())
        if split.files and split.files[image].name in names
    ]
    names_asked = absent[: count // 3]
    places = rng.choice(len(captions), count - len(names_asked), replace=False)
    return [*(captions[place] for place in places), *names_asked]


def opened(address: Path) -> Any:
    store = open_shared(address)
    assert store is not None, f"{address} is a folder"
    return store


def copied(place: Path, address: Path, name: str, encoder: Encoder) -> float:
    """The rows of a folder in a store, in seconds; all but the encoding is as usual."""
    started = time.perf_counter()
    with closing(opened(address)) as store, TemporaryDirectory() as bank:
        store.drop()
        open_for_writing(store, encoder, How(engine=ENGINES[name]))
        filler = Filler(store, encoder, Path(bank))
        with Library.open(place) as library:
            for ids in np.array_split(library.find(), max(1, len(library) // AT_ONCE)):
                filler.put(*fresh_rows(library, ids))
            store.note(FOLDERS, dict.fromkeys(library.folders(), ""))
    return time.perf_counter() - started


def fresh_rows(library: Library, ids: np.ndarray) -> tuple[list[Fresh], list[Row]]:
    items, rows = [], []
    for item, vector in zip(library.items(ids), library.vectors(ids), strict=True):
        about = (item.text, item.width, item.height, item.taken, None, item.tags)
        items.append(Fresh(item.part, item.kind, item.content, *about, vector=vector))
        named = (item.path, item.part, item.content)
        stat = Path(item.path).stat()
        sizes = (item.content, 1, stat.st_size, stat.st_mtime_ns)
        rows.append(Row(item_id(*named), item.kind, *named, *sizes, *about))
    return items, rows


@contextmanager
def searching(index: Path, encoder: Encoder) -> Iterator[Retriever]:
    with open_library(index) as library:
        yield Retriever(library, encoder)


def compare(
    stage: str,
    place: Path,
    addresses: dict[str, Path],
    encoder: Encoder,
    asked: Sequence[str],
    found: dict[str, Any],
) -> None:
    """Ask the folder and every store the same, and note how they differ."""
    with searching(place, encoder) as local:
        plain, filtered = answers(local, asked)
        shares = [(list(asked[:FEW]), None), *in_turns(asked)[1:]]
        right = [nearest(local.library, encoder, *some) for some in shares]
        for name, address in addresses.items():
            with searching(address, encoder) as shared:
                mine, mine_filtered = answers(shared, asked)
                reached = [nearest(shared.library, encoder, *some) for some in shares]
            both = {
                "plain": differences(mine, plain) | {"recall": recall(reached[:1], right[:1])},
                "filtered": differences(mine_filtered, filtered)
                | {"recall": recall(reached[1:], right[1:])},
                "items": len(local.library),
            }
            found[name].setdefault("stages", {})[stage] = both
            print(stage, name, both, flush=True)


def answers(retriever: Retriever, asked: Sequence[str]) -> list[list[SearchResult]]:
    """Without a filter one by one; and each with one of the filters, many at once."""
    filtered = [
        result
        for texts, where in in_turns(asked)[1:]
        for result in retriever.search_many(texts, k=PAGE, where=where)
    ]
    return [[retriever.search(text, k=PAGE) for text in asked], filtered]


def in_turns(asked: Sequence[str]) -> list[tuple[list[str], str | None]]:
    """All questions without a filter, then every filter with its share of them."""
    shares = [(list(asked[turn :: len(FILTERS)]), where) for turn, where in enumerate(FILTERS)]
    return [(list(asked), None), *shares]


def differences(mine: list[SearchResult], right: list[SearchResult]) -> dict[str, Any]:
    """What a person would see change.

    Hits that tie may stand in either order; P reads the rank, so there it is compared place
    by place.
    """
    hits, tied, words, moved, trusts = [], [], [], [0.0], [0.0]
    for one, other in zip(mine, right, strict=True):
        shown = [(result.hits or result.near_misses) for result in (one, other)]
        paths = [[hit.path for hit in some] for some in shown]
        hits.append(paths[0] == paths[1])
        tied.append(not hits[-1] and alike_but_for_ties(*shown))
        words.append((one.verdict, one.why) == (other.verdict, other.why))
        stated = {hit.path: hit.p_relevant for hit in shown[1]}
        pairs = zip(*shown, strict=True) if tied[-1] else ()
        moved += [abs((a.p_relevant or 0.0) - (b.p_relevant or 0.0)) for a, b in pairs]
        moved += [
            abs((hit.p_relevant or 0.0) - (stated[hit.path] or 0.0))
            for hit in shown[0]
            if hit.path in stated and not tied[-1]
        ]
        trusts.append(abs((one.trust or 0.0) - (other.trust or 0.0)))
    return {
        "searches": len(right),
        "answered": sum(result.verdict == "answer" for result in right),
        "same_hits": sum(hits),
        "tied": sum(tied),
        "same_verdicts": sum(words),
        "largest_p": float(f"{max(moved):.3g}"),
        "largest_trust": float(f"{max(trusts):.3g}"),
    }


def alike_but_for_ties(mine: Sequence[Hit], right: Sequence[Hit]) -> bool:
    """Whether the same hits stand in two orders that have the same similarity in each place."""
    if sorted(hit.path for hit in mine) != sorted(hit.path for hit in right):
        return False
    places = zip(mine, right, strict=True)
    return all(abs(one.similarity - other.similarity) <= ROUNDING for one, other in places)


def nearest(
    library: OpenIndex, encoder: Encoder, asked: Sequence[str], where: str | None
) -> list[set[str]]:
    """The nearest of every query: of a folder by a plain product, else as the store says."""
    condition = None if where is None else Where.parse(where)
    queries = encoder.encode_texts(list(asked))
    if isinstance(library, Library):
        passing = library.find(condition)
        scores = queries @ library.vectors(passing).T
        ids = passing[np.argsort(-scores, 1, kind="stable")[:, :PAGE]]
    else:
        choice = library.choose(condition, "image", 1)
        parts = [queries[start : start + 32] for start in range(0, len(queries), 32)]
        ids = np.concatenate([library.nearest(part, PAGE, choice).ids for part in parts])
    paths = {item.id: item.path for item in library.items(np.unique(ids))}
    return [{paths[number] for number in row} for row in ids.tolist()]


def recall(reached: list[list[set[str]]], right: list[list[set[str]]]) -> float:
    pairs = [
        pair
        for one, other in zip(reached, right, strict=True)
        for pair in zip(one, other, strict=True)
        if pair[1]
    ]
    return round(float(np.mean([len(one & other) / len(other) for one, other in pairs])), 5)


if __name__ == "__main__":
    main()
