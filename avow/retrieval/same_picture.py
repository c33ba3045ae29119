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
    """Whether the best item of a search by a picture is that picture, or another copy of it."""
    alone = request.style == "picture" and not request.put_apart
    return alone and float(ranked.scores[0, 0]) >= SAME


def itself_first(
    request: Request,
    ranked: Ranked,
    read: ReadItems,
    answer: Callable[[Sequence[Request]], list[SearchResult]],
) -> SearchResult:
    """The picture itself and its copies, then what is answered of all others."""
    same = _same(shown_hits(read, ranked.of(0), int((ranked.scores[0] >= SAME).sum()), None))
    but, page, count = (*request.but, *(hit.id for hit in same)), request.page, len(same)
    without = replace(request, but=but, put_apart=True, page=Page(page.end))
    others = answer([without])[0]
    why = _why(same)
    if others.hits or others.near_misses:
        why = f"{why} Of the others: {others.why}"
    hits, misses = _behind(others.hits, count), _behind(others.near_misses, count)
    many = others.how_many
    others = replace(others, apart=count, how_many=many and many.and_more(count))
    if others.verdict == "unjudged":
        return replace(others, why=why, hits=(*same, *hits)[page.offset : page.end])
    sure = tuple(replace(hit, p_relevant=SURE) for hit in same)
    found = replace(
        others,
        verdict="answer",
        trust=SURE,
        why=why,
        hits=(*sure, *hits)[page.offset : page.end],
        near_misses=misses[max(page.offset - count, 0) : max(page.end - count, 0)],
    )
    least = None if request.where is None else request.where.least
    return found if least is None else at_least(found, least)


def _same(hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """The first, and the pictures among the others; moments that look alike are joined."""
    return (hits[0], *(hit for hit in hits[1:] if hit.kind == "image"))


def _why(same: tuple[Hit, ...]) -> str:
    noun = "picture" if same[0].moment is None else "moment"
    if len(same) == 1:
        return f"The first is the same {noun}, or looks just like it."
    return f"The first {len(same)} are the same {noun}, or look just like it."


def _behind(hits: tuple[Hit, ...], count: int) -> tuple[Hit, ...]:
    return tuple(replace(hit, rank=hit.rank + count) for hit in hits)
