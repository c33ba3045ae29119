"""The item of an index that somebody names by its number or by its file."""

from pathlib import Path

from avow.core.errors import BadQuery
from avow.core.moments import seconds_of
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.where import Where


def item_named(library: OpenIndex, name: str, at: str | None = None) -> int | None:
    """The item with this number, or of this file; None where the index has no such file.

    at: a time in a video, such as "1:15"; without it the first moment stands for a video.
    """
    file = Path(name).expanduser()
    if name.isdecimal() and not file.exists():
        return library.items([int(name)])[0].id
    seconds = None if at is None else seconds_of(at)
    if at is not None and seconds is None:
        raise BadQuery(f"The time is {at!r}. Expected one such as 75 or 1:15; write it so.")
    for place in dict.fromkeys((file.absolute(), file.resolve())):
        where = Where.parse(f"path={quoted(str(place))}")
        found = [int(n) for kind in ("image", "text") for n in library.find(where, kind)]
        if found:
            return _shown_at(library, found, seconds)
    return None


def quoted(value: str) -> str:
    """A value as a filter takes it, whatever letters it has."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shown_at(library: OpenIndex, ids: list[int], seconds: float | None) -> int:
    """The moment of a video that is shown at a time; else the first of the items."""
    if seconds is None:
        return min(ids)
    times = {item.id: item.moment for item in library.items(ids)}
    for number, moment in times.items():
        if moment is not None and moment.start <= seconds < moment.end:
            return number
    last = max((moment.end for moment in times.values() if moment is not None), default=None)
    raise BadQuery(
        "The file is no video, so it has no moments. Leave out the time."
        if last is None
        else f"The time is {seconds:g} s, and the video ends at {last:g} s. Name another."
    )
