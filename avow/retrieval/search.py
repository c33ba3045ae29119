"""Search an index: rank, look at the whole gallery, and say how far to trust the answer.

    retriever = Retriever.open("my-index")
    result = retriever.search("two dogs on a beach")
    result.verdict       "answer", "check", "nothing_found", "not_understood" or "unjudged"
    result.hits[0].path

Filters choose before anything is ranked, and trust is judged on what they leave.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from avow.core.errors import WrongIndex, WrongTrust
from avow.core.places import DEFAULT
from avow.core.searching import Encoder
from avow.core.shapes import Float, Int64
from avow.core.tracing import spanned
from avow.retrieval.answer import SearchResult, Uncertainty
from avow.retrieval.asking import requests_of
from avow.retrieval.encoders.opening import open_encoder, open_recorded
from avow.retrieval.explain import Explanation, explain
from avow.retrieval.gallery import Gallery, QueryScores
from avow.retrieval.item_pictures import open_item
from avow.retrieval.judging import (
    Judged,
    judge,
    nothing_there,
    partial_answers,
    result_of,
    unjudged,
)
from avow.retrieval.leaving_out import probability_of
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.opening import open_library
from avow.retrieval.question import (
    ClipFile,
    Kind,
    Question,
    Style,
    ask,
    check_numbers,
    only_text,
)
from avow.retrieval.ranking import Ranked, rank, score
from avow.retrieval.request import Page, Request, of_queries, written_hits
from avow.retrieval.same_picture import is_inside, itself_first
from avow.retrieval.where import Where
from avow.trust.policy import Policy

_GALLERIES_KEPT = 4  # of as many filters, the samples stay in memory
MANY = 64
"""Texts that `search_many` answers at once."""
_NOT_CALIBRATED = "This kind of search is not calibrated yet."


class Retriever:
    """A model, an index made with it, and the policy that was fitted for both.

    >>> retriever = avow.open("my-index")
    >>> similar = retriever.similar(retriever.search("a cat").hits[0].id, k=2)
    >>> len(similar.hits or similar.near_misses)
    2
    """

    def __init__(
        self,
        library: OpenIndex,
        encoder: Encoder | None = None,
        device: str = "cpu",
        *,
        threads: int = 0,
        allow_code: bool = False,
    ):
        self.library, self.allow_code, self._threads = library, allow_code, threads
        self._encoder, self._device = encoder, device
        self._lock, self._turns = threading.RLock(), threading.Lock()
        self._galleries: dict[tuple[str, str, str], Gallery] = {}
        self._policies: dict[Path, tuple[int, Policy]] = {}

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        model: str | None = None,
        device: str = "cpu",
        *,
        threads: int = 0,
        allow_code: bool = False,
    ) -> "Retriever":
        """Open an index to search it.

        folder: an index, or a store such as "postgres:archive"; default: the one under
        AVOW_HOME. model: default: the index's.
        threads: that encode one question; 0: one per core.
        Nothing heavy is loaded before it is needed. allow_code: import the modules outside
        Avow that the index or its model names, and download what they name. Both only for
        files of people you trust: importing a module runs its code.

            >>> result = avow.open("my-index").search("a cat", k=3)
            >>> result.hits[0].path.endswith("chelsea.png")
            True
        """
        encoder = None
        if model is not None:
            encoder = open_encoder(model, device, threads=threads, allow_code=allow_code)
        library = open_library(folder, encoder, allow_code=allow_code)
        return cls(library, encoder, device, threads=threads, allow_code=allow_code)

    @property
    def encoder(self) -> Encoder:
        """The model of the index; loaded when first used."""
        with self._lock:
            if self._encoder is None:
                named = self.library.manifest["model"]
                options = {"threads": self._threads, "allow_code": self.allow_code}
                encoder = open_recorded(named, self._device, **options)
                _same_model(encoder, self.library)
                self._encoder = encoder
            return self._encoder

    def search(
        self,
        text: str | None = None,
        *,
        image: str | Path | Image.Image | ClipFile | None = None,
        without: str | None = None,
        k: int | Page = 10,
        risk: float | None = None,
        where: str | Where | None = None,
        kind: str = "image",
        rewrite: bool = True,
    ) -> SearchResult:
        """The k best items for a text, a picture, or both; `without` is what to leave out.

        k: how many; a `Page` also says how many of the best come before them. risk: the share
        of wrong answers that "answer" may have; default: the policy's own.
        where: a filter such as 'taken>=2024 and path~"holiday"'. kind: "image" or "text".
        rewrite: whether "a bathroom with no toilet" is searched as "a bathroom" without
        "toilet"; False searches the text as it was typed.
        """
        question = ask(text, image, without, kind)
        return self._search([question], k, risk, where, rewrite)[0]

    def search_many(
        self,
        texts: Sequence[str],
        *,
        without: str | None = None,
        k: int | Page = 10,
        risk: float | None = None,
        where: str | Where | None = None,
        kind: str = "image",
        rewrite: bool = True,
    ) -> list[SearchResult]:
        """What `search` gives for each text; they are encoded, ranked and judged together.

        `MANY` of them at once, which bounds the memory.
        """
        results = []
        for start in range(0, len(texts), MANY):
            part = [ask(text, None, without, kind) for text in texts[start : start + MANY]]
            results += self._search(part, k, risk, where, rewrite)
        return results

    async def asearch(self, text: str | None = None, **asked: Any) -> SearchResult:
        """`search` for programs with an event loop; searches of one retriever take turns."""
        import asyncio  # a search from the command line does without

        def in_turn() -> SearchResult:
            with self._turns:
                return self.search(text, **asked)

        return await asyncio.to_thread(in_turn)

    def similar(
        self, item_id: int, *, k: int | Page = 10, where: str | Where | None = None
    ) -> SearchResult:
        """Items of the same kind that look (or read) like one of the index."""
        page = self._page(k, None)
        chosen = Where.parse(where) if isinstance(where, str) else where
        item = self.library.items([item_id])[0]
        vector = self.library.vectors([item_id])[0]
        kind: Kind = "text" if item.kind == "text" else "image"
        query = {**Question(kind=kind).to_dict()}
        query |= {"similar_to": item_id, "where": None if where is None else str(where)}
        style: Style = "similar" if item.kind == "text" else "picture"
        request = Request(query, style, vector, kind, page, where=chosen, but=(item_id,))
        return self._answer([request])[0]

    def explain(self, text: str, item_id: int) -> Explanation:
        """Which words, and which parts of a picture of the index, carry the match."""
        question = ask(text)
        assert question.text is not None
        return explain(self.encoder, question.text, self.photograph(item_id))

    def photograph(self, item_id: int) -> Image.Image:
        """A picture of the index, opened; of a moment of a video, its key frame."""
        return open_item(self.library.items([item_id])[0])

    def feedback(self, query: str | dict[str, Any], item_id: int, good: bool | None) -> None:
        """Keep that an answer was good or not; `avow calibrate` learns from it.

        query: the text, or the `query` of a result. good: None takes it back.
        """
        asked = ask(query).to_dict() if isinstance(query, str) else query
        self.library.items([item_id])
        if good is None:
            self.library.retract(asked, item_id)
        else:
            self.library.record(asked, item_id, good)

    def policy(self, style: Style, own: bool = True) -> Policy | None:
        """What was fitted for this index, for its model, or transferred from the default one.

        None where nothing was. own: False passes over what was fitted for the index.
        """
        if style not in ("text", "image", "picture"):
            return None
        if style == "picture" and self.library.manifest["vectors"] == "int8x256":
            return None  # two pictures lose more of their similarity than a text and a picture
        name = f"trust-{style}.json"
        self.library.check_attached(name)
        # only the default model brings one for pictures: others need not be loaded for it
        brings = style != "picture" or self.library.manifest["model"] == DEFAULT
        home = getattr(self.encoder, "home", None) if brings else None
        places = [self.model_folder / name] if own else []
        places += [] if home is None else [home / name]
        for path in (*places, self.model_folder / f"transferred-{style}.json"):
            if path.is_file():
                return self._load(path)
        return None

    @property
    def model_folder(self) -> Path:
        """Where the index keeps what belongs to its model."""
        return self.library.folder / "models" / self.library.manifest["fingerprint"]

    # --- the parts of an answer -------------------------------------------------------

    def _page(self, k: int | Page, risk: float | None) -> Page:
        page = k if isinstance(k, Page) else Page(k)
        check_numbers(page.k, risk)
        page = page.within(len(self.library))
        check_numbers(page.end, None)
        return page

    def _search(
        self,
        questions: Sequence[Question],
        k: int | Page,
        risk: float | None,
        where: str | Where | None,
        rewrite: bool,
    ) -> list[SearchResult]:
        """questions: of one kind; several of them are texts."""
        page = self._page(k, risk)
        started = time.perf_counter()
        how = (self.encoder, self._left_out, page, risk, where, rewrite)
        requests = requests_of(questions, *how)
        encoded = (time.perf_counter() - started) / len(questions)
        by_style: dict[Style, list[int]] = {}
        for place, request in enumerate(requests):
            by_style.setdefault(request.style, []).append(place)
        answers: dict[int, SearchResult] = {}
        for places in by_style.values():
            results = self._answer([requests[place] for place in places])
            answers |= dict(zip(places, results, strict=True))
        return [
            _timed(self._with_written(answers[place], question, requests[place]), encoded)
            for place, question in enumerate(questions)
        ]

    def _with_written(
        self, result: SearchResult, question: Question, request: Request
    ) -> SearchResult:
        if question.text is None or question.image is not None or question.kind != "image":
            return result
        return replace(result, written=written_hits(self.library, request, question.text))

    def _answer(self, requests: Sequence[Request]) -> list[SearchResult]:
        """requests: of one style, kind, filter and page."""
        started, first = time.perf_counter(), requests[0]
        with self._lock:
            self.library.refresh()
            gallery = self._gallery(first.where, first.kind)
            ranked = rank(self.library, gallery, requests)
            if ranked.missing:
                return partial_answers(self.library, requests, ranked)
            if not ranked.ids.size:
                return [nothing_there(self.library, request) for request in requests]
            if is_inside(first, ranked):
                return [itself_first(first, ranked, self.library.items, self._answer)]
            between = time.perf_counter()
            scores = score(self.library, requests, ranked)
            judged = self._judge(requests, ranked, scores)
            evidence = self._uncertainty(scores)
            ended = time.perf_counter()
        count = len(requests)
        seconds = {"rank": (between - started) / count, "trust": (ended - between) / count}
        every = zip(requests, judged, evidence, strict=True)
        return [result_of(*about, dict(seconds)) for about in every]

    def _gallery(self, where: Where | None, kind: str) -> Gallery:
        key = (self.library.fingerprint, kind, repr(where))
        if key not in self._galleries:
            outdated = [old for old in self._galleries if old[0] != key[0]]
            for old in outdated or list(self._galleries)[: 1 - _GALLERIES_KEPT]:
                self._galleries.pop(old, None)
            gallery = self._galleries[key] = Gallery.of(self.library, where, kind)
            if gallery.missing:
                return self._galleries.pop(key)  # the next question tries again
        return self._galleries[key]

    @spanned("judge")
    def _judge(
        self, requests: Sequence[Request], ranked: Ranked, scores: QueryScores
    ) -> list[Judged]:
        try:
            policy = self.policy(requests[0].style)
            if policy is not None:
                unwanted = [
                    None
                    if request.leaving is None
                    else self.probability(policy, request.leaving, items)
                    for request, items in zip(requests, ranked.first, strict=True)
                ]
                about = (self.library, self.encoder, unwanted)
                return judge(policy, requests, ranked, scores, *about)
            why = _NOT_CALIBRATED
        except WrongTrust as error:
            why = f"{_NOT_CALIBRATED} {error}"
        return unjudged(self.library, requests, ranked, why)

    def _left_out(self, question: Question) -> Question | None:
        """What is left out, where that can be judged: of a text alone, and by a policy."""
        if question.without is None or question.text is None or question.image is not None:
            return None
        try:
            policy = self.policy("text") if question.kind == "image" else None
        except WrongTrust:
            return None
        if policy is None or policy.tail is None:
            return None
        return only_text(question.without)

    def probability(
        self, policy: Policy, request: Request, items: Int64[np.ndarray, " items"]
    ) -> Float[np.ndarray, " items"]:
        """That each of some items fits a query, whether it is among its best or behind."""
        with self._lock:
            gallery = self._gallery(request.where, request.kind)
            ranked = rank(self.library, gallery, [request])
            scores = score(self.library, [request], ranked)
        first, tau = ranked.first[0], self.encoder.tau
        usual = None if gallery.usual is None else self.library.usual(first)
        summary = scores.summary(tau, usual, gallery.usual)
        evidence = self.library.vectors(items) @ request.vector / tau
        if usual is not None:
            usual_items = self.library.usual(items)
            assert usual_items is not None
            evidence = evidence - usual_items.log_mean.mean(0)
        query, policy = of_queries([request]), policy.for_size(len(gallery))
        return probability_of(policy, summary, first, items, evidence, query, request.vector)

    def _uncertainty(self, scores: QueryScores) -> list[Uncertainty]:
        tau, kind = self.library.manifest["tau"], self.library.manifest["kind"]
        every = scores.uncertainty(tau, kind).tolist()
        return [Uncertainty(u, scores.gallery, tau, kind) for u in every]

    def _load(self, path: Path) -> Policy:
        stamp = path.stat().st_mtime_ns
        if self._policies.get(path, (None,))[0] != stamp:
            self._policies[path] = (stamp, Policy.load(path))
        return self._policies[path][1]


def _same_model(encoder: Encoder, library: OpenIndex) -> None:
    if encoder.fingerprint != library.manifest["fingerprint"]:
        raise WrongIndex(
            f"The model {encoder.name!r} has changed since the index in "
            f"{library.address!r} was made. Vectors of two models cannot be compared; "
            "index the folders again with `avow index --rebuild`."
        )


def _timed(result: SearchResult, encode: float) -> SearchResult:
    return replace(result, seconds=result.seconds | {"encode": encode})
