"""Searches of a server that wait for the same turn are answered in one pass."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import serving
from fastapi.testclient import TestClient
from search_samples import index_with_a_cat

import avow
from avow.api import create_app
from avow.api.limits import Limits
from avow.api.together import Together
from avow.core.errors import BadQuery
from avow.retrieval.answer import SearchResult
from avow.retrieval.search import Retriever

TEXTS = ("a cat", "a red wall", "two dogs on a beach", "a cat", "a submarine under the ice")
LONG = 60.0


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Retriever:
    return avow.open(index_with_a_cat(tmp_path_factory.mktemp("together")))


class Watched(Retriever):
    """Notes what is asked at once; its first search waits until `go` is set."""

    def __init__(self, real: Retriever):
        super().__init__(real.library, real.encoder)
        self.go, self.passes = threading.Event(), []

    def search(self, text: str | None = None, **asked: Any) -> SearchResult:
        self.passes.append([text])
        assert self.go.wait(LONG)
        if text == "broken":
            raise BadQuery("This text is broken.")
        return super().search(text, **asked)

    def search_many(self, texts: Sequence[str], **asked: Any) -> list[SearchResult]:
        self.passes.append(list(texts))
        if "broken" in texts:
            raise BadQuery("One of these texts is broken.")
        return super().search_many(texts, **asked)


def in_threads(work: Sequence[Callable[[], object]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    return threads


def told(found: dict[str, Any]) -> tuple[Any, ...]:
    hits = [*found["hits"], *found["near_misses"]]
    return found["query"], found["verdict"], found["why"], [hit["path"] for hit in hits]


def test_who_waits_is_answered_in_the_next_pass_as_alone(real):
    """Clients of a server with one thread for searches, all at once."""
    watched, found = Watched(real), {}
    app = create_app(watched, limits=Limits(seconds=LONG))
    with TestClient(app, base_url="http://127.0.0.1") as client:

        def ask(number: int) -> None:
            where = "width>0" if number == 2 else ""
            asked = {"text": TEXTS[number], "where": where, "k": 3}
            found[number] = client.get("/api/search", params=asked).json()

        threads = in_threads([lambda: ask(0)])
        serving.wait_until(lambda: watched.passes)
        threads += in_threads([lambda n=n: ask(n) for n in range(1, len(TEXTS))])
        searching = client.app.state.service.searching
        serving.wait_until(lambda: searching.inside == len(TEXTS))
        watched.go.set()
        for thread in threads:
            thread.join()
    alike = sorted(TEXTS[number] for number in (1, 3, 4))
    assert watched.passes[0] == [TEXTS[0]]
    assert sorted(map(sorted, watched.passes[1:])) == sorted([alike, [TEXTS[2]]])
    for number, text in enumerate(TEXTS):
        where = "width>0" if number == 2 else None
        assert told(found[number]) == told(real.search(text, k=3, where=where).to_dict())


def test_a_text_that_fails_fails_alone(real):
    watched = Watched(real)
    watched.go.set()
    together = Together(watched, 16, LONG)
    together.answer(together.enter("a cat", {}))
    waiting = [together.enter(text, {}) for text in ("a red wall", "broken", "a cat")]
    verdicts: dict[str, str] = {}

    def answer(one) -> None:
        try:
            verdicts[one.text] = together.answer(one).verdict
        except BadQuery as error:
            verdicts[one.text] = str(error)

    for thread in in_threads([lambda one=one: answer(one) for one in waiting]):
        thread.join()
    assert verdicts["broken"] == "This text is broken."
    assert verdicts["a cat"] == real.search("a cat").verdict
    assert watched.passes[1] and len(watched.passes[1]) == 3 and len(watched.passes) == 5


def test_few_are_taken_along_where_each_takes_long(real):
    watched = Watched(real)
    watched.go.set()
    together = Together(watched, 16, seconds=1e-6)
    waiting = [together.enter(text, {}) for text in TEXTS]
    for one in waiting:
        together.answer(one)
    assert watched.passes == [[text] for text in TEXTS]


def test_who_left_is_not_answered(real):
    watched = Watched(real)
    watched.go.set()
    together = Together(watched, 16, LONG)
    together.answer(together.enter("a cat", {}))
    first, gone = together.enter("a red wall", {}), together.enter("two dogs", {})
    together.leave(gone)
    together.answer(first)
    assert watched.passes[1:] == [["a red wall"]]
