"""A clip as a question, and the part of a video that answers one, cut out as a file."""

from pathlib import Path

import numpy as np

from avow.core.clips import Clip, cut
from avow.core.errors import BadQuery, MissingExtra
from avow.core.formats import videos_are_readable
from avow.core.moments import clock
from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.core.videos import probe
from avow.retrieval.answer import SearchResult
from avow.retrieval.store.indexed_folders import FPS
from avow.retrieval.store.reading import Unreadable
from avow.retrieval.store.video_reading import read_segments
from avow.retrieval.store.walk import look

LONGEST = 600.0
"""Seconds of a clip to search with."""


def clip_vector(path: Path, encoder: Encoder) -> Float32[np.ndarray, " dim"]:
    """The mean of the vectors of a clip's segments."""
    if not videos_are_readable():
        raise MissingExtra("Searching with a clip", "av", "video")
    stat = look(str(path))
    if stat is None:
        raise BadQuery(
            f"There is no file {str(path)!r}. Expected a clip to search with; check its name."
        )
    duration = probe(path).duration
    if duration is not None and duration > LONGEST:
        raise BadQuery(
            f"The clip {str(path)!r} lasts {clock(duration)}. Expected at most "
            f"{clock(LONGEST)} to search with; cut out the part that you mean."
        )
    try:
        segments = read_segments(stat, "", encoder, FPS, lambda _: False)
    except Unreadable as error:
        raise BadQuery(
            f"The clip {str(path)!r} cannot be searched with ({error}). Expected a video "
            "that can be decoded; choose another one."
        ) from error
    vectors = [segment.vector for segment in segments if segment.vector is not None]
    return np.stack(vectors).mean(0).astype(np.float32)


def cut_best(result: SearchResult, out: Path) -> Clip:
    """Write the best moment of a result to a file of its own, without coding it again."""
    for hit in result.hits:
        if hit.moment is not None:
            return cut(Path(hit.path), hit.moment.start, hit.moment.end, out)
    raise BadQuery(
        "There is no moment of a video among the answers. Expected one to cut out; ask for "
        "videos alone with --where kind=video, or leave out --clip."
    )
