"""A picture that asks for pictures and is in the index itself: shown first, judged apart.

Its own likeness is no measure for the others: beside a similarity of 1 all of them would be
judged too low. So it is put first as what it is, and the others are judged as
`Retriever.similar` judges them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from avow.retrieval.answer import Hit, SearchResult, at_least
from avow.retrieval.ranking import Ranked
from avow.retrieval.request import Page, ReadItems, Request, shown_hits

SAME = 0.995
"""Similarity of a picture with itself, whatever form its vector is kept in; two photographs of
Flickr8k's and COCO's dev splits have .93 at most."""
SURE = 0.999
"""What is stated of the picture itself; a copy that was changed a little looks the same."""


def is_inside(request: Request, ranked: Ranked) -> bool:
    """Whether the best item of a search by a picture is that picture."""
    alone = request.style == "picture" and request.but is None
    return alone and float(ranked.scores[0, 0]) >= SAME


def itself_first(
    request: Request,
    ranked: Ranked,
    read: ReadItems,
    answer: Callable[[Sequence[Request]], list[SearchResult]],
) -> SearchResult:
    """The picture itself, then what is answered of all others."""
    itself = shown_hits(read, ranked.of(0), 1, None)[0]
    page = request.page
    others = answer([replace(request, but=itself.id, page=Page(page.end))])[0]
    noun = "picture" if itself.moment is None else "moment"
    why = f"The first is the same {noun}, or looks just like it."
    if others.hits or others.near_misses:
        why = f"{why} Of the others: {others.why}"
    hits, misses = _behind(others.hits), _behind(others.near_misses)
    many = others.how_many
    others = replace(others, apart=1, how_many=None if many is None else many.and_more(1))
    if others.verdict == "unjudged":
        return replace(others, why=why, hits=(itself, *hits)[page.offset : page.end])
    itself = replace(itself, p_relevant=SURE)
    found = replace(
        others,
        verdict="answer",
        trust=SURE,
        why=why,
        hits=(itself, *hits)[page.offset : page.end],
        near_misses=misses[max(page.offset - 1, 0) : page.end - 1],
    )
    least = None if request.where is None else request.where.least
    return found if least is None else at_least(found, least)


def _behind(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    return tuple(replace(hit, rank=hit.rank + 1) for hit in hits)
