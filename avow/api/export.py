"""Chosen items as one archive: the files of pictures and videos as they are, piece by piece.

Nothing is gathered in memory: an archive of any size goes out while it is made. Pictures of
shards and at URLs are read one by one as their turn comes. A file that cannot be handed out is
named with its reason in a list at the end of the archive.

The name of an archive holds the numbers of its items, so that any server of the same store
can be asked for it. Only one process that serves alone remembers a longer list.
"""

import io
import os
import secrets
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from fastapi import APIRouter
from fastapi import Path as PathParameter
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from avow.api import videos
from avow.api.answers import Body
from avow.api.limits import ANSWERS, LARGEST_ID
from avow.api.pictures import Origin, content_of, media_type, origin
from avow.api.refusals import Refusal
from avow.api.searching import REFUSALS
from avow.api.service import Here, Service
from avow.retrieval.item_pictures import why_not_fetched
from avow.retrieval.library import Item

MOST = 10_000
"""Items of one archive."""
LEFT_OUT = "left out.txt"
_AT_ONCE = 2**20
LONGEST_NAME = 4000
"""Letters; proxies pass on addresses of 8,000."""
_KEPT = 16  # archives that were named
_READ = 17 * MOST  # letters of as many numbers
_SUFFIX = "-n.zip"
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)  # of the format
router = APIRouter(prefix="/api/export", responses=REFUSALS)


class Chosen(Body):
    """Which items to put into an archive."""

    ids: list[Annotated[int, Field(ge=0, le=LARGEST_ID)]] = Field(min_length=1, max_length=MOST)


@dataclass(frozen=True)
class Entry:
    """One file of an archive."""

    place: Origin
    name: str
    modified: float
    """Seconds since 1970; 0 where it is not known."""

    def opened(self) -> tuple[io.BufferedIOBase, ZipInfo]:
        """Its bytes, and how the archive describes it."""
        if isinstance(self.place, Path):
            about = ZipInfo.from_file(self.place, self.name, strict_timestamps=False)
            return self.place.open("rb"), about
        content = content_of(self.place)
        media_type(content)
        about = ZipInfo(self.name, max(_FIRST_TIME, time.localtime(self.modified)[:6]))
        about.external_attr = 0o644 << 16
        return io.BytesIO(content), about


class Prepared(BaseModel):
    """Where the archive can be fetched from, once or again, while few others are asked for."""

    name: str = Field(description="Fetch it with GET /api/export/NAME.")
    files: int
    left_out: list[str] = Field(description="Why items are left out; the first of them.")


@router.post("")
async def prepare_export(here: Here, chosen: Chosen) -> Prepared:
    """Name an archive of the files of some items; nothing is made before it is fetched."""
    numbers = list(dict.fromkeys(chosen.ids))
    files, left_out = await here.reading.run(_files, here, numbers)
    if not files:
        raise Refusal(404, f"None of these files can be handed out: {left_out[0]}")
    name = _name_of(numbers)
    if len(name) > LONGEST_NAME:
        if here.by_many:
            raise Refusal(
                413,
                f"{len(numbers)} items are too many for one archive of this server, which "
                "runs as several processes. Choose fewer, such as 500.",
            )
        name = f"{secrets.token_urlsafe(16)}.zip"
        here.exports[name] = numbers
        while len(here.exports) > _KEPT:
            here.exports.pop(next(iter(here.exports)), None)
    return Prepared(name=name, files=len(files), left_out=left_out[:ANSWERS])


@router.get(
    "/{name}",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}}},
)
async def export(
    here: Here, name: Annotated[str, PathParameter(max_length=LONGEST_NAME)]
) -> StreamingResponse:
    """The files of the items that were chosen, as they are, in an archive."""
    numbers = here.exports.get(name) or _numbers_of(name)
    if not numbers:
        raise Refusal(404, f"There is no archive {name!r}. Choose its items again.")
    files, left_out = await here.reading.run(_files, here, numbers)
    headers = {"Content-Disposition": 'attachment; filename="avow.zip"'}
    return StreamingResponse(
        zipped(files, left_out), media_type="application/zip", headers=headers
    )


def zipped(files: Sequence[Entry], left_out: Sequence[str] = ()) -> Iterator[bytes]:
    """An archive of files under some names, in pieces."""
    out, left = _Pieces(), list(left_out)
    with ZipFile(out, "w", ZIP_STORED) as archive:  # type: ignore[arg-type]
        for entry in files:
            try:
                source, about = entry.opened()
            except OSError as error:
                left.append(f"{entry.name}: {error.strerror}")
                continue
            except Refusal as error:
                left.append(f"{entry.name}: {error.detail}")
                continue
            with source, archive.open(about, "w", force_zip64=True) as target:
                while piece := source.read(_AT_ONCE):
                    target.write(piece)
                    yield out.take()
        if left:
            archive.writestr(LEFT_OUT, "\n".join(left) + "\n")
    yield out.take()


class _Pieces:
    """What an archive writes, until it is taken."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, piece: bytes) -> int:
        self._held += piece
        return len(piece)

    def flush(self) -> None:
        """Nothing waits elsewhere."""

    def take(self) -> bytes:
        taken, self._held = bytes(self._held), bytearray()
        return taken


def _files(here: Service, numbers: Sequence[int]) -> tuple[list[Entry], list[str]]:
    """Files with names that differ, each once, and why others are left out."""
    folders = here.retriever.library.folders()
    chosen: dict[Path | str, Entry] = {}
    names: set[str] = set()
    left_out = []
    for number in numbers:
        try:
            item = here.read_item(number)
            place = _place(item, folders)
        except Refusal as error:
            left_out.append(f"item {number}: {error.detail}")
            continue
        key = place if isinstance(place, Path) else item.path
        if key not in chosen:
            name = _free_name(Path(item.path).name, names)
            chosen[key] = Entry(place, name, item.modified)
    return list(chosen.values()), left_out


def _place(item: Item, folders: Sequence[str]) -> Origin:
    """Where the file of an item comes from; only pictures and videos go out, as one by one."""
    if item.kind == "text":
        raise Refusal(404, "a text has no picture to hand out")
    if why := why_not_fetched(item):
        raise Refusal(404, why)
    place = origin(item, folders)
    if isinstance(place, Path):
        (media_type if item.kind == "image" else videos.media_type)(place)
    return place


def _name_of(numbers: Sequence[int]) -> str:
    """The numbers as letters of an address, packed."""
    packed = zlib.compress(",".join(map(str, numbers)).encode(), 9)
    return urlsafe_b64encode(packed).decode().rstrip("=") + _SUFFIX


def _numbers_of(name: str) -> list[int]:
    """What `_name_of` packed; nothing where somebody made the name up."""
    packed = name.removesuffix(_SUFFIX)
    if packed == name:
        return []
    try:
        reading = zlib.decompressobj()
        written = reading.decompress(
            urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), _READ
        )
        numbers = [int(one) for one in written.decode("ascii").split(",")]
    except (ValueError, zlib.error):
        return []
    sound = reading.eof and len(numbers) <= MOST
    return numbers if sound and all(0 <= one <= LARGEST_ID for one in numbers) else []


def _free_name(name: str, taken: set[str]) -> str:
    stem, suffix = os.path.splitext(name)
    free, count = name, 1
    while free.casefold() in taken:
        count += 1
        free = f"{stem} ({count}){suffix}"
    taken.add(free.casefold())
    return free
