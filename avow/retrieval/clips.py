"""A clip as a question, and the part of a video that answers one, cut out as a file."""

from itertools import count
from pathlib import Path

import numpy as np

from avow.core.clips import Clip, cut
from avow.core.errors import BadQuery, MissingExtra, UnreadableVideo
from avow.core.formats import videos_are_readable
from avow.core.moments import clock
from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.core.videos import probe
from avow.retrieval.answer import SearchResult
from avow.retrieval.question import ClipFile
from avow.retrieval.store.indexed_folders import FPS
from avow.retrieval.store.reading import Unreadable
from avow.retrieval.store.video_reading import (
    FRAMES_AT_ONCE,
    Stopped,
    Watch,
    read_segments,
)
from avow.retrieval.store.walk import look


def clip_vector(clip: ClipFile, encoder: Encoder) -> Float32[np.ndarray, " dim"]:
    """The mean of the vectors of a clip's segments."""
    if not videos_are_readable():
        raise MissingExtra("Searching with a clip", "av", "video")
    stat = look(str(clip.path))
    if stat is None:
        raise BadQuery(
            f"There is no file {clip.name!r}. Expected a clip to search with; check its name."
        )
    try:
        _check_length(clip, probe(clip.path).duration or 0.0)
        segments = read_segments(stat, "", encoder, FPS, _enough(clip))
    except Stopped as error:  # its headers said nothing of its length, or too little
        raise _too_long(clip, "more than that") from error
    except (Unreadable, UnreadableVideo) as error:
        why = error.why if isinstance(error, UnreadableVideo) else error
        raise BadQuery(
            f"The clip {clip.name!r} cannot be searched with ({why}). Expected a video "
            "that can be decoded; choose another one."
        ) from error
    vectors = [segment.vector for segment in segments if segment.vector is not None]
    return np.stack(vectors).mean(0).astype(np.float32)


def _check_length(clip: ClipFile, seconds: float) -> None:
    if seconds > clip.longest:
        raise _too_long(clip, clock(seconds))


def _enough(clip: ClipFile) -> Watch:
    """Stops when more frames were read than a clip may have."""
    batches = count(1)
    most = FPS * clip.longest + FRAMES_AT_ONCE
    return lambda _: next(batches) * FRAMES_AT_ONCE > most


def _too_long(clip: ClipFile, lasts: str) -> BadQuery:
    return BadQuery(
        f"The clip {clip.name!r} lasts {lasts}. Expected at most {clock(clip.longest)} to "
        "search with; cut out the part that you mean."
    )


def cut_best(result: SearchResult, out: Path) -> Clip:
    """Write the best moment of a result to a file of its own, without coding it again."""
    for hit in result.hits:
        if hit.moment is not None:
            return cut(Path(hit.path), hit.moment.start, hit.moment.end, out)
    raise BadQuery(
        "There is no moment of a video among the answers. Expected one to cut out; ask for "
        "videos alone with --where kind=video, or leave out --clip."
    )
