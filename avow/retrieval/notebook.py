"""An answer as a notebook shows it: the verdict, the pictures, and how well each fits.

retriever.search("two dogs on a beach")        in the last line of a cell
"""

import base64
import io
from typing import TYPE_CHECKING, Any

from avow.core.errors import AvowError
from avow.core.photographs import open_photograph, upright_rgb
from avow.reports.page import render

if TYPE_CHECKING:
    from avow.retrieval.answer import Hit, SearchResult

SHOWN = 12
"""Pictures; a table has all of them (`to_pandas`)."""
EDGE = 220
_QUALITY = 80


def html_of(result: "SearchResult") -> str:
    """A piece of HTML that stands alone: style and pictures are inside."""
    hits = result.hits or result.near_misses
    return render(
        "search_result.html",
        result=result,
        nearest=not result.hits and bool(result.near_misses),
        shown=[(hit, _picture(hit)) for hit in hits[:SHOWN]],
        more=max(len(hits) - SHOWN, 0),
    )


def short(result: "SearchResult") -> str:
    """One line of an answer, for a console."""
    sure = "" if result.trust is None else f", P {result.trust:.2f}"
    if not result.hits:
        return f"<SearchResult {result.verdict!r}{sure}: {result.why}>"
    first = result.hits[0]
    many = "1 hit" if len(result.hits) == 1 else f"{len(result.hits)} hits"
    return f"<SearchResult {result.verdict!r}{sure}: {many}, first {first!r}>"


def _picture(hit: "Hit") -> str | None:
    """The picture of a hit, or the key frame of a moment, as the source of an `img`."""
    if hit.kind == "text":
        return None
    try:
        picture = _opened(hit)
    except (AvowError, OSError):
        return None  # moved or gone; its path is shown all the same
    picture.thumbnail((EDGE, EDGE))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"


def _opened(hit: "Hit") -> Any:
    from pathlib import Path

    if hit.moment is None:
        return upright_rgb(open_photograph(Path(hit.path)))
    from PIL.Image import fromarray

    from avow.core.videos import frame_at  # needs PyAV

    return fromarray(frame_at(Path(hit.path), hit.moment.key).image)
