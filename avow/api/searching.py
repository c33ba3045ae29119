"""Routes that search: by text, by picture, by an item of the index; and why."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, File, Form, Path, Query, Response, UploadFile
from PIL import Image

from avow.api.answers import Explained, Found, Mistake
from avow.api.clips import HEAD, container_of, uploaded_clip
from avow.api.limits import ANSWERS, LARGEST_ID, LETTERS
from avow.api.pictures import heat, uploaded
from avow.api.service import Here, Service
from avow.retrieval.answer import SearchResult
from avow.retrieval.question import ClipFile
from avow.retrieval.request import Page

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Mistake}
    for status in (400, 401, 403, 404, 413, 415, 421, 422, 429, 503, 504)
}
router = APIRouter(prefix="/api", responses=REFUSALS)

Kind = Literal["image", "text"]
ItemId = Annotated[int, Path(ge=0, le=LARGEST_ID)]
Text = Annotated[str, Query(max_length=LETTERS, description="What to look for, in words.")]
Without = Annotated[str, Query(max_length=LETTERS, description="What to leave out.")]
Chosen = Annotated[
    str, Query(max_length=LETTERS, description="A filter such as 'taken>=2024 and tag=dog'.")
]
Many = Annotated[int, Query(ge=1, le=ANSWERS, description="How many answers.")]
Skipped = Annotated[
    int, Query(ge=0, le=LARGEST_ID, description="How many of the best to leave out.")
]
Risk = Annotated[
    float | None, Query(gt=0, lt=1, description="Bearable share of wrong answers.")
]
Rewrite = Annotated[
    bool, Query(description="Whether a negation in the text becomes what to leave out.")
]


async def page_of(k: Many = 10, offset: Skipped = 0) -> Page:
    """A coroutine, as `service_of` is."""
    return Page(k, offset)


Sent = Annotated[Page, Depends(page_of)]


class Reply:
    """One search of the service, and the response it is sent with."""

    def __init__(self, here: Service, response: Response):
        self.here, self.response = here, response

    async def search(
        self,
        text: str,
        content: bytes | None,
        without: str,
        where: str,
        page: Page,
        **more: Any,
    ) -> Found:
        """more: the other arguments of `Retriever.search`."""
        here, text = self.here, text.strip()
        chosen = {"without": without.strip() or None, "where": where.strip() or None}
        settings: dict[str, Any] = {**chosen, "k": page, **more}

        def work() -> SearchResult:
            with self._looked_at(content) as image:
                return here.retriever.search(text or None, image=image, **settings)

        if text and not content:
            waiting = here.together.enter(text, settings)
            try:
                result = await here.searching.run(here.together.answer, waiting)
            finally:
                here.together.leave(waiting)
        else:
            result = await here.searching.run(work)
        here.metrics.judged(result.verdict)
        self.response.headers["Server-Timing"] = ", ".join(
            f"{part};dur={1000 * seconds:.2f}" for part, seconds in result.seconds.items()
        )
        return Found.model_validate(result.to_dict())

    @contextmanager
    def _looked_at(self, content: bytes | None) -> Iterator[Image.Image | ClipFile | None]:
        """A picture or a clip that was sent, told apart by their first bytes."""
        limits = self.here.limits
        container = container_of(content[:HEAD]) if content else None
        if container is None or content is None:
            yield uploaded(content, limits.pixels) if content else None
            return
        with uploaded_clip(content, container, limits.clip_seconds) as clip:
            yield clip


async def reply_of(here: Here, response: Response) -> Reply:
    """A coroutine, as `service_of` is."""
    return Reply(here, response)


Replying = Annotated[Reply, Depends(reply_of)]


@router.get("/search")
async def search_by_text(
    reply: Replying,
    text: Text = "",
    without: Without = "",
    where: Chosen = "",
    risk: Risk = None,
    kind: Kind = "image",
    rewrite: Rewrite = True,
    *,
    page: Sent,
) -> Found:
    """Search with words."""
    more = {"risk": risk, "kind": kind, "rewrite": rewrite}
    return await reply.search(text, None, without, where, page, **more)


def _chosen_in_form(
    k: Annotated[int, Form(ge=1, le=ANSWERS)] = 10,
    offset: Annotated[int, Form(ge=0, le=LARGEST_ID)] = 0,
    risk: Annotated[float | None, Form(gt=0, lt=1)] = None,
    kind: Annotated[Kind, Form()] = "image",
    rewrite: Annotated[bool, Form()] = True,
) -> dict[str, Any]:
    return {"page": Page(k, offset), "risk": risk, "kind": kind, "rewrite": rewrite}


@router.post("/search")
async def search(
    reply: Replying,
    more: Annotated[dict[str, Any], Depends(_chosen_in_form)],
    text: Annotated[str, Form(max_length=LETTERS)] = "",
    image: Annotated[UploadFile | None, File(description="A picture or a clip.")] = None,
    without: Annotated[str, Form(max_length=LETTERS)] = "",
    where: Annotated[str, Form(max_length=LETTERS)] = "",
) -> Found:
    """Search with words, a picture or a short video, or both."""
    content = None if image is None else await image.read()
    return await reply.search(text, content, without, where, **more)


@router.get("/items/{item_id}/similar")
async def similar(here: Here, item_id: ItemId, page: Sent, where: Chosen = "") -> Found:
    """What looks like an item of the index."""
    await here.item(item_id)
    chosen = where.strip() or None
    result = await here.searching.run(here.retriever.similar, item_id, k=page, where=chosen)
    here.metrics.judged(result.verdict)
    return Found.model_validate(result.to_dict())


@router.get("/items/{item_id}/explain")
async def explain(here: Here, item_id: ItemId, text: Text) -> Explained:
    """Which words and which parts of a picture carried a match."""
    return Explained.model_validate(await _explained(here, item_id, text))


@router.get(
    "/items/{item_id}/explain/heat",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
async def explain_heat(here: Here, item_id: ItemId, text: Text) -> Response:
    """The same as a transparent picture to lay over the photograph."""
    explanation = await _explained(here, item_id, text)
    cells = np.asarray(explanation["cells"], np.float32)
    return Response(
        await here.drawing.run(heat, cells),
        media_type="image/png",
        headers={"Cache-Control": "private, max-age=300"},
    )


async def _explained(here: Service, item_id: int, text: str) -> dict[str, Any]:
    await here.picture(item_id, "parts to show")
    explanation = await here.searching.run(here.retriever.explain, text, item_id)
    return explanation.to_dict()
