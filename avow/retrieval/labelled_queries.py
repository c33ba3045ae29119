"""Queries whose right answers are known: from a file of pairs, and from feedback.

pairs.csv      query,file            one line per right file; a query may have several
pairs.jsonl    {"query": "two dogs", "file": "beach/1.jpg"}
               of a video, the moment at a time: "film.mp4#t=72" or "film.mp4#t=1:12"
feedback       "good" and "not good" of searches in this index
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from avow.core.captions import check_caption
from avow.core.errors import BadData, BadQuery
from avow.core.inputs import table_text
from avow.core.moments import Moment, seconds_of
from avow.core.searching import Encoder
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words, one_form
from avow.retrieval.gallery import slices
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.question import ask
from avow.trust.fitting import CalibrationQueries
from avow.trust.gallery_sampling import ScoredQueries

MOST = 20_000
"""Pictures that queries are scored against; of a larger index, a sample with the right ones."""
_QUERY, _FILE = ("query", "text", "caption"), ("file", "path", "image")


@dataclass
class LabelledQueries:
    """Right pictures of text queries, by item number."""

    right: dict[str, set[int]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    """Files that were named and are not in the index."""
    passed_over: int = 0
    """Rows of feedback whose query is damaged, or no text that can be searched for."""

    def add(self, query: str, item: int) -> None:
        self.right.setdefault(" ".join(query.split()), set()).add(item)

    def __len__(self) -> int:
        return len(self.right)


def read_known(library: OpenIndex, pairs: Path | None) -> LabelledQueries:
    """Queries with their right pictures: from the feedback in the index and a file of pairs."""
    labelled = LabelledQueries()
    here = {int(number) for number in library.find(None, "image")}
    feedback, labelled.passed_over = _text_feedback(library)
    for (text, item), good in feedback.items():
        if good and item in here:
            labelled.add(text, item)
    if pairs is not None:
        places = _places(library)
        for query, file in _lines(pairs):
            item = _item(places, file, pairs.parent)
            if item is None:
                labelled.lost.append(file)
            else:
                labelled.add(query, item)
    return labelled


def read_ticks(library: OpenIndex) -> dict[str, dict[int, bool]]:
    """The latest feedback on every picture that is still in the index, by query."""
    here = {int(number) for number in library.find(None, "image")}
    ticks: dict[str, dict[int, bool]] = {}
    for (text, item), good in _text_feedback(library)[0].items():
        if item in here:
            ticks.setdefault(" ".join(text.split()), {})[item] = good
    return ticks


def _text_feedback(library: OpenIndex) -> tuple[dict[tuple[str, int], bool], int]:
    """The latest feedback per query and item, plain text searches only; the count of unusable
    rows.
    """
    feedback, unusable = {}, 0
    for row in library.feedback():
        text, asked = row.query.get("text"), row.query
        if asked and (asked.get("image") or asked.get("without") or text is None):
            continue  # another kind of search
        if isinstance(text, str) and _is_question(text):
            feedback[text, row.item_id] = row.good
        else:
            unusable += 1
    return feedback, unusable


def _is_question(text: str) -> bool:
    try:
        text.encode()
        ask(text)
    except (UnicodeEncodeError, BadQuery):
        return False
    return True


def scored(
    library: OpenIndex, encoder: Encoder, labelled: LabelledQueries, seed: int = 0
) -> CalibrationQueries:
    """Score the labelled queries against the pictures of the index."""
    texts = sorted(labelled.right)
    forms = [one_form(text) for text in texts] if encoder.english else texts
    ids = _candidates(library, labelled, seed)
    views = encoder.views
    vectors = np.asarray(encoder.encode_texts(forms), np.float32)
    asked = slices(vectors, views)
    items = slices(library.vectors(ids), views)
    similarity = (np.float32(views) * asked @ items.swapaxes(1, 2)).astype(np.float32)
    match = np.stack([np.isin(ids, sorted(labelled.right[text])) for text in texts])
    own = min(1, views - 1)
    usual = library.usual(ids)
    return CalibrationQueries(
        "text",
        ScoredQueries(
            similarity.astype(np.float32, copy=False),
            match,
            own,
            encoder.tau,
            encoder.kind,
            usual,
        ),
        count_words(forms),
        commonness(forms),
        texts=forms,
        vectors=vectors,
    )


def _candidates(library: OpenIndex, labelled: LabelledQueries, seed: int) -> np.ndarray:
    ids = library.find(None, "image")
    if len(ids) <= MOST:
        return ids
    needed = np.array(sorted(set().union(*labelled.right.values())), np.int64)
    unlabelled = np.setdiff1d(ids, needed)
    drawn = np.random.default_rng(seed).choice(unlabelled, MOST - len(needed), replace=False)
    return np.sort(np.concatenate([needed, drawn]))


@dataclass(frozen=True)
class _Places:
    """Where files are in the index: pictures by number, videos by their moments."""

    pictures: dict[str, int]
    videos: dict[str, list[tuple[Moment, int]]]

    def item(self, name: str) -> int | None:
        """A picture; or the moment of a video at a time, written "film.mp4#t=72" or "…#t=1:12".

        Without a time, only a video that is one moment.
        """
        path, _, time = name.partition("#t=")
        moments = self.videos.get(path, [])
        if not time and len(moments) == 1:
            return moments[0][1]
        seconds = seconds_of(time.partition(",")[0]) if time else None
        if seconds is not None:
            for moment, number in moments:
                if moment.start <= seconds < moment.end:
                    return number
        return self.pictures.get(name)


def _places(library: OpenIndex) -> _Places:
    """By path, and by name where only one file has it."""
    pictures: dict[str, int] = {}
    videos: dict[str, list[tuple[Moment, int]]] = {}
    names: dict[str, set[str]] = {}
    for item in library.items(library.find(None, "image")):
        names.setdefault(Path(item.path).name, set()).add(item.path)
        if item.moment is None:
            pictures[item.path] = item.id
        else:
            videos.setdefault(item.path, []).append((item.moment, item.id))
    for name, paths in names.items():
        path = next(iter(paths))
        if len(paths) == 1 and path in pictures:
            pictures.setdefault(name, pictures[path])
        elif len(paths) == 1:
            videos.setdefault(name, videos[path])
    return _Places(pictures, videos)


def _item(places: _Places, file: str, beside: Path) -> int | None:
    for name in (file, str((beside / file).resolve()), Path(file).name):
        if (number := places.item(name)) is not None:
            return number
    return None


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    expected = "a .csv or .jsonl file with a query and its right file on each line"
    text = table_text(path, "pairs", expected)
    for number, row in _from_json(text) if path.suffix == ".jsonl" else _from_csv(text, path):
        query, file = row
        if not query.strip() or not file.strip():
            raise _bad_line(path, number)
        check_caption(query, f"The query on line {number} of {str(path)!r}")
        yield query, file.strip()


def _from_json(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            query = next(content[key] for key in _QUERY if key in content)
            file = next(content[key] for key in _FILE if key in content)
            yield number, (str(query), str(file))
        except (ValueError, TypeError, StopIteration):
            yield number, ("", "")


def _from_csv(text: str, path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    reader = csv.reader(text.splitlines())
    try:
        rows = list(reader)
    except csv.Error as error:  # a field of more than 131,072 characters, say
        raise _bad_line(path, reader.line_num) from error
    places = _columns(rows[0]) if rows else None
    for number, row in enumerate(rows, 1):
        if not row or (number == 1 and places is not None):
            continue
        query, file = places or (0, 1)
        enough = len(row) > max(query, file)
        yield number, (row[query], row[file]) if enough else ("", "")


def _columns(heads: Sequence[str]) -> tuple[int, int] | None:
    """Where the query and the file stand, if the first line says so."""
    low = [head.strip().lower() for head in heads]
    query = next((low.index(name) for name in _QUERY if name in low), None)
    file = next((low.index(name) for name in _FILE if name in low), None)
    return None if query is None or file is None else (query, file)


def _bad_line(path: Path, number: int) -> BadData:
    return BadData(
        f"Line {number} of {str(path)!r} has no query or no file. Expected both, as in "
        '\'two dogs,beach/1.jpg\' or {"query": "two dogs", "file": "beach/1.jpg"}; '
        "correct or delete the line."
    )
