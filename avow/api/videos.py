"""Routes for moments of videos: the file in pieces for a player, and the segments beside one.

A file goes out only when it is in the index, still lies in a folder that was indexed with every
link followed, and begins as a video does. A player asks for ranges of bytes and gets those.
"""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse

from avow.api.answers import Items
from avow.api.clips import HEAD, container_of
from avow.api.items import item_answer
from avow.api.refusals import Refusal
from avow.api.searching import REFUSALS, ItemId
from avow.api.service import Here
from avow.retrieval.library import Item

router = APIRouter(prefix="/api/items", responses=REFUSALS)

MOST_NEIGHBOURS = 20
_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".avi": "video/x-msvideo"}
_RELATED = {(".mp4", ".mov"): "video/quicktime", (".webm", ".mkv"): "video/x-matroska"}
"""Types of files whose name says more than their first bytes."""


def media_type(path: Path) -> str:
    """What kind of video a file is; one that does not begin as a video is not handed out."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD)
    except OSError as error:
        sentence = "The file of this item cannot be read. Scan its folder again."
        raise Refusal(404, sentence) from error
    container = container_of(head)
    if container is None:
        sentence = (
            "The file of this item is no video that can be played. Scan its folder again."
        )
        raise Refusal(415, sentence)
    return _RELATED.get((container, path.suffix.lower()), _TYPES[container])


@router.get(
    "/{item_id}/media",
    response_class=FileResponse,
    responses={
        200: {"content": {"video/*": {}}},
        206: {"content": {"video/*": {}}, "description": "The bytes that were asked for."},
        416: {"description": "There are no such bytes."},
    },
)
async def media(here: Here, item_id: ItemId) -> FileResponse:
    """The video of a moment as it is, whole or the range of bytes that is asked for."""
    item, path = await here.picture(item_id, "video")
    if item.moment is None or not isinstance(path, Path):
        raise Refusal(404, f"Item {item_id} is a picture and has no video.")
    kind = await here.reading.run(media_type, path)
    headers = {"Cache-Control": "private, no-cache", "Accept-Ranges": "bytes"}
    return FileResponse(path, media_type=kind, headers=headers)


@router.get("/{item_id}/neighbours")
async def neighbours(
    here: Here,
    item_id: ItemId,
    many: Annotated[int, Query(ge=1, le=MOST_NEIGHBOURS, description="On each side.")] = 4,
) -> Items:
    """The moments of the same video before and after one, in order, and the one itself."""

    def work() -> tuple[int, int, list[Item]]:
        item = here.read_item(item_id)
        numbers = here.retriever.library.segments(item.id)
        place = numbers.index(item.id) if item.id in numbers else 0
        first = max(place - many, 0)
        chosen = numbers[first : place + many + 1]
        return len(numbers), first, here.retriever.library.items(chosen)

    total, first, page = await here.reading.run(work)
    return Items(total=total, offset=first, items=[item_answer(one) for one in page])
