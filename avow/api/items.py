"""Routes for the items of the index: lists, facts, thumbnails, files of pictures."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from avow.api.answers import ItemAnswer, Items
from avow.api.limits import ANSWERS, LARGEST_ID
from avow.api.pictures import SIZES, content_of, media_type
from avow.api.refusals import Refusal
from avow.api.searching import REFUSALS, Chosen, ItemId, Kind
from avow.api.service import Here
from avow.retrieval.library import Item
from avow.retrieval.where import Where

router = APIRouter(prefix="/api/items", responses=REFUSALS)


@router.get("")
async def items(
    here: Here,
    kind: Kind = "image",
    where: Chosen = "",
    offset: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    limit: Annotated[int, Query(ge=1, le=ANSWERS)] = 50,
) -> Items:
    """Everything of a kind that passes a filter, newest first, a page at a time."""

    def work() -> tuple[int, list[Item]]:
        library = here.retriever.library
        library.refresh()
        ids = library.find(Where.parse(where) if where.strip() else None, kind)[::-1]
        return len(ids), library.items(ids[offset : offset + limit])

    # a filter may take seconds, which pictures and short questions should not wait for
    pool = here.searching if where.strip() else here.reading
    total, page = await pool.run(work)
    return Items(total=total, offset=offset, items=[item_answer(item) for item in page])


@router.get("/{item_id}")
async def item(here: Here, item_id: ItemId) -> ItemAnswer:
    """What the index knows of an item."""
    return item_answer(await here.item(item_id))


@router.get(
    "/{item_id}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, 304: {"description": "As you have it."}},
)
async def thumbnail(
    request: Request,
    here: Here,
    item_id: ItemId,
    size: Annotated[int, Query(ge=16, le=SIZES[-1])] = 512,
) -> Response:
    """A small JPEG of a picture, upright; of a moment of a video, its key frame."""
    item, path = await here.picture(item_id)
    key = None if item.moment is None else item.moment.key
    mark = f'"{item.content}-{size}"' if key is None else f'"{item.content}-{key}-{size}"'
    headers = {"ETag": mark, "Cache-Control": "private, max-age=300"}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    jpeg = await here.drawing.run(here.thumbnails.make, path, item.content, size, key)
    return Response(jpeg, media_type="image/jpeg", headers=headers)


@router.get(
    "/{item_id}/picture",
    response_class=FileResponse,
    responses={200: {"content": {"image/*": {}}}},
)
async def picture(here: Here, item_id: ItemId) -> Response:
    """The file of a picture as it is."""
    item, path = await here.picture(item_id)
    if item.moment is not None:
        raise Refusal(404, f"Item {item_id} is a moment of a video. Its file is at 'media'.")
    headers = {"Cache-Control": "private, no-cache"}
    if isinstance(path, Path):
        kind = await here.reading.run(media_type, path)
        return FileResponse(path, media_type=kind, headers=headers)
    content = await here.drawing.run(content_of, path)
    kind = await here.reading.run(media_type, content)
    return Response(content, media_type=kind, headers=headers)


def item_answer(item: Item) -> ItemAnswer:
    moment = item.moment
    times: dict[str, Any] = {} if moment is None else asdict(moment)
    times["key_frame"] = times.pop("key", None)
    return ItemAnswer.model_validate({**asdict(item), "tags": list(item.tags), **times})
