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
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from avow.core.errors import WrongIndex, WrongTrust
from avow.core.places import DEFAULT
from avow.core.searching import Encoder
from avow.core.shapes import Float, Int64
from avow.retrieval.answer import SearchResult, Uncertainty, at_least
from avow.retrieval.encoders.opening import open_encoder, open_recorded
from avow.retrieval.explain import Explanation, explain
from avow.retrieval.gallery import Gallery, QueryScores
from avow.retrieval.item_pictures import open_item
from avow.retrieval.judging import Judged, judge
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
    understood,
)
from avow.retrieval.read_ahead import read_ahead
from avow.retrieval.request import Candidates, Request, shown_hits, written_hits
from avow.retrieval.where import Where
from avow.trust.policy import Judgements, Policy
from avow.trust.top_k import SHOWN

_GALLERIES_KEPT = 4  # of as many filters, the samples stay in memory
_PARTIAL = "Part of the index did not answer, so this answer is partial and not judged."
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
        k: int = 10,
        risk: float | None = None,
        where: str | Where | None = None,
        kind: str = "image",
        rewrite: bool = True,
    ) -> SearchResult:
        """The k best items for a text, a picture, or both; `without` is what to leave out.

        risk: the share of wrong answers that "answer" may have; default: the policy's own.
        where: a filter such as 'taken>=2024 and path~"holiday"'. kind: "image" or "text".
        rewrite: whether "a bathroom with no toilet" is searched as "a bathroom" without
        "toilet"; False searches the text as it was typed.
        """
        question = ask(text, image, without, kind)
        check_numbers(k, risk)
        chosen = Where.parse(where) if isinstance(where, str) else where
        started = time.perf_counter()
        question, understanding = understood(question, self.encoder, rewrite)
        query = {**question.to_dict(), "where": None if where is None else str(where)}
        leaving = None
        if self._leaves_out(question):
            other = only_text(question.without or "")
            about = (query, "text", other.vector(self.encoder), kind, k)
            leaving = Request(*about, where=chosen, asked=other.asked)
            question = replace(question, without=None)
        vector = question.vector(self.encoder)
        encoded = time.perf_counter() - started
        request = Request(
            query,
            question.style,
            vector,
            kind,
            k,
            risk,
            chosen,
            asked=question.asked,
            understanding=understanding,
            leaving=leaving,
        )
        result = _timed(self._answer(request), encode=encoded)
        if text is None or image is not None or kind != "image":
            return result
        return replace(result, written=written_hits(self.library, request, text))

    def search_many(self, texts: Sequence[str], **asked: Any) -> list[SearchResult]:
        """The answers to some texts, read in batches; asked: more arguments of `search`."""
        reading = copy(self)
        reading._encoder = read_ahead(self.encoder, texts, asked)
        return [reading.search(text, **asked) for text in texts]

    async def asearch(self, text: str | None = None, **asked: Any) -> SearchResult:
        """`search` for programs with an event loop; searches of one retriever take turns."""
        import asyncio  # a search from the command line does without

        def in_turn() -> SearchResult:
            with self._turns:
                return self.search(text, **asked)

        return await asyncio.to_thread(in_turn)

    def similar(
        self, item_id: int, *, k: int = 10, where: str | Where | None = None
    ) -> SearchResult:
        """Items of the same kind that look (or read) like one of the index."""
        check_numbers(k, None)
        chosen = Where.parse(where) if isinstance(where, str) else where
        item = self.library.items([item_id])[0]
        vector = self.library.vectors([item_id])[0]
        kind: Kind = "text" if item.kind == "text" else "image"
        query = {**Question(kind=kind).to_dict()}
        query |= {"similar_to": item_id, "where": None if where is None else str(where)}
        style: Style = "similar" if item.kind == "text" else "picture"
        request = Request(query, style, vector, kind, k, where=chosen, but=item_id)
        return self._answer(request)

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

    def _answer(self, request: Request) -> SearchResult:
        started = time.perf_counter()
        with self._lock:
            self.library.refresh()
            candidates = self._rank(request)
            if not len(candidates.ids):
                return self._nothing(request)
            ranked = time.perf_counter()
            scores = self._score(request, candidates)
            judged = self._judge(request, candidates, scores)
            evidence = self._uncertainty(scores)
            ended = time.perf_counter()
        empty = judged.verdict in ("nothing_found", "not_understood")
        result = SearchResult(
            request.query,
            judged.verdict,
            None if judged.judgements is None else _trust(judged.judgements, empty),
            evidence,
            judged.why,
            () if empty else judged.hits,
            judged.hits if empty else (),
            {"rank": ranked - started, "trust": ended - ranked},
            request.understanding,
            judged.how_many,
        )
        least = None if request.where is None else request.where.least
        return result if least is None else at_least(result, least)

    def _gallery(self, where: Where | None, kind: str) -> Gallery:
        key = (self.library.fingerprint, kind, repr(where))
        if key not in self._galleries:
            outdated = [old for old in self._galleries if old[0] != key[0]]
            for old in outdated or list(self._galleries)[: 1 - _GALLERIES_KEPT]:
                self._galleries.pop(old, None)
            self._galleries[key] = Gallery.of(self.library, where, kind)
        return self._galleries[key]

    def _rank(self, request: Request) -> Candidates:
        """The best items and their scores, and those of the sample where they are known."""
        gallery = self._gallery(request.where, request.kind)
        if not len(gallery):
            return Candidates(gallery, np.empty(0, np.int64), np.empty(0, np.float32))
        most, but = max(request.k, SHOWN), request.but
        wanted = most + (but is not None)
        found = self.library.nearest(request.vector, wanted, gallery.choice)
        ids, scores, about = found.ids, found.scores, (found.sampled, found.missing)
        allowed = ids != but if but is not None else np.ones(len(ids), bool)
        return Candidates(gallery, ids[allowed][:most], scores[allowed][:most], *about)

    def _score(self, request: Request, candidates: Candidates) -> QueryScores:
        """Score the best items in every view, and the sample of the gallery."""
        first = candidates.ids[:SHOWN]
        best, views = self.library.vectors(first), self.library.manifest["views"]
        hits = (best, first, views, request.but, candidates.sampled)
        return QueryScores.of(candidates.gallery, request.vector, *hits)

    def _judge(self, request: Request, candidates: Candidates, scores: QueryScores) -> Judged:
        try:
            policy = self.policy(request.style)
            if candidates.missing:
                hits = shown_hits(self.library, candidates, request.k, None)
                why = f"{_PARTIAL} {' '.join(candidates.missing)}"
                return Judged("unjudged", None, None, why, hits)
            if policy is not None:
                unwanted = None
                if request.leaving is not None:
                    first = candidates.ids[:SHOWN]
                    unwanted = self.probability(policy, request.leaving, first)
                about = (self.library, self.encoder, unwanted)
                return judge(policy, request, candidates, scores, *about)
            why = request.with_hint(_NOT_CALIBRATED)
        except WrongTrust as error:
            why = f"{_NOT_CALIBRATED} {error}"
        hits = shown_hits(self.library, candidates, request.k, None)
        return Judged("unjudged", None, None, why, hits)

    def _leaves_out(self, question: Question) -> bool:
        """Whether what is left out can be judged: a text without another, and a policy."""
        if question.without is None or question.text is None or question.image is not None:
            return False
        try:
            policy = self.policy("text") if question.kind == "image" else None
        except WrongTrust:
            return False
        return policy is not None and policy.tail is not None

    def probability(
        self, policy: Policy, request: Request, items: Int64[np.ndarray, " items"]
    ) -> Float[np.ndarray, " items"]:
        """That each of some items fits a query, whether it is among its best or behind."""
        with self._lock:
            candidates = self._rank(request)
            scores = self._score(request, candidates)
        first, tau, gallery = candidates.ids[:SHOWN], self.encoder.tau, candidates.gallery
        usual = None if gallery.usual is None else self.library.usual(first)
        summary = scores.summary(tau, usual, gallery.usual)
        evidence = self.library.vectors(items) @ request.vector / tau
        if usual is not None:
            usual_items = self.library.usual(items)
            assert usual_items is not None
            evidence = evidence - usual_items.log_mean.mean(0)
        query = (request.words, request.common)
        return probability_of(policy, summary, first, items, evidence, query)

    def _uncertainty(self, scores: QueryScores) -> Uncertainty:
        tau, kind = self.library.manifest["tau"], self.library.manifest["kind"]
        return Uncertainty(scores.uncertainty(tau, kind), scores.gallery, tau, kind)

    def _nothing(self, request: Request) -> SearchResult:
        what = "picture" if request.kind == "image" else "text"
        why = (
            f"There is no {what} in this index yet; `avow index FOLDER` adds some."
            if request.where is None or not len(self.library.find(None, request.kind))
            else f"No {what} passes the filter."
        )
        manifest = self.library.manifest
        nobody = Uncertainty(None, 0, manifest["tau"], manifest["kind"])
        understanding = request.understanding
        return SearchResult(
            request.query, "nothing_found", None, nobody, why, understanding=understanding
        )

    def _load(self, path: Path) -> Policy:
        stamp = path.stat().st_mtime_ns
        if self._policies.get(path, (None,))[0] != stamp:
            self._policies[path] = (stamp, Policy.load(path))
        return self._policies[path][1]


def _trust(judgements: Judgements, empty: bool) -> float:
    """That the answer is good; where nothing is shown, that there was anything to show."""
    return float((judgements.present if empty else judgements.confidence)[0])


def _same_model(encoder: Encoder, library: OpenIndex) -> None:
    if encoder.fingerprint != library.manifest["fingerprint"]:
        raise WrongIndex(
            f"The model {encoder.name!r} has changed since the index in "
            f"{library.address!r} was made. Vectors of two models cannot be compared; "
            "index the folders again with `avow index --rebuild`."
        )


def _timed(result: SearchResult, **more: float) -> SearchResult:
    result.seconds.update(more)
    return result
