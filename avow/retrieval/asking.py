"""Questions to requests: each is understood, and the texts of all are encoded in one batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.core.tracing import spanned
from avow.retrieval.question import Question, understood
from avow.retrieval.request import Page, Request
from avow.retrieval.where import Where


@spanned("encode")
def requests_of(
    questions: Sequence[Question],
    encoder: Encoder,
    left_out: Callable[[Question], Question | None],
    page: Page,
    risk: float | None,
    where: str | Where | None,
    rewrite: bool,
) -> list[Request]:
    """left_out: what a question leaves out, where that can be judged as a search of its own."""
    chosen = Where.parse(where) if isinstance(where, str) else where
    read = [understood(question, encoder, rewrite) for question in questions]
    others = [left_out(question) for question, _ in read]
    plain = [
        question if other is None else replace(question, without=None)
        for (question, _), other in zip(read, others, strict=True)
    ]
    both = [question for pair in zip(plain, others, strict=True) for question in pair]
    vectors = iter(_vectors([question for question in both if question is not None], encoder))
    requests = []
    for (question, understanding), one, other in zip(read, plain, others, strict=True):
        query = {**question.to_dict(), "where": None if where is None else str(where)}
        about = (query, one.style, next(vectors), question.kind, page, risk, chosen)
        request = Request(*about, asked=one.asked, understanding=understanding)
        if other is not None:
            about = (query, "text", next(vectors), question.kind, page)
            leaving = Request(*about, where=chosen, asked=other.asked)
            request = replace(request, leaving=leaving)
        requests.append(request)
    return requests


def _vectors(
    questions: Sequence[Question], encoder: Encoder
) -> list[Float32[np.ndarray, " dim"]]:
    """The vector of every question; a text that several ask for is read once."""
    texts = list(dict.fromkeys(text for question in questions for text in question.texts))
    encoded = encoder.encode_texts(texts) if texts else ()
    known = dict(zip(texts, encoded, strict=True))
    return [question.vector(encoder, known) for question in questions]
