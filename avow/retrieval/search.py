"""Search an index: rank, look at the whole gallery, and say how far to trust the answer.

    retriever = Retriever.open("my-index")
    found = retriever.search("two dogs on a beach")
    found.verdict        "answer", "check", "nothing_found" or "unjudged"
    found.hits[0].path

Filters choose before anything is ranked, and trust is judged on what they leave.
"""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from PIL import Image

from avow.assembly.photographs import open_photograph
from avow.core.errors import BadQuery, WrongIndex, WrongTrust
from avow.core.searching import Encoder
from avow.retrieval.answer import Hit, SearchResult, Uncertainty, Verdict, in_words
from avow.retrieval.encoder import open_encoder
from avow.retrieval.explain import Explanation, explain
from avow.retrieval.gallery import Gallery, Seen
from avow.retrieval.library import Library
from avow.retrieval.question import Question, Style, ask, check_numbers
from avow.retrieval.where import Where
from avow.trust.policy import Policy, Ruling
from avow.trust.sight import SHOWN

_GALLERIES_KEPT = 4  # of as many filters, the samples stay in memory
_NOT_CALIBRATED = "This kind of search is not calibrated yet."


class Retriever:
    """A model, an index made with it, and the trust that was fitted for both."""

    def __init__(self, library: Library, encoder: Encoder | None = None, device: str = "cpu"):
        self.library = library
        self._encoder, self._device = encoder, device
        self._lock = threading.RLock()
        self._galleries: dict[tuple[str, str, str], Gallery] = {}
        self._policies: dict[Path, tuple[int, Policy]] = {}

    @classmethod
    def open(
        cls, folder: str | Path | None = None, model: str | None = None, device: str = "cpu"
    ) -> "Retriever":
        """folder: an index; default: the one under AVOW_HOME. model: default: the index's.

        Nothing heavy is loaded before it is needed.
        """
        place = None if folder is None else Path(folder)
        encoder = None if model is None else open_encoder(model, device)
        return cls(Library.open(place, encoder), encoder, device)

    @property
    def encoder(self) -> Encoder:
        """The model of the index; loaded when first used."""
        with self._lock:
            if self._encoder is None:
                made = open_encoder(self.library.manifest["model"], self._device)
                _same_model(made, self.library)
                self._encoder = made
            return self._encoder

    def search(
        self,
        text: str | None = None,
        *,
        image: str | Path | Image.Image | None = None,
        without: str | None = None,
        k: int = 10,
        risk: float | None = None,
        where: str | Where | None = None,
        kind: str = "image",
    ) -> SearchResult:
        """The k best items for a text, a picture, or both; `without` is what to leave out.

        risk: the share of wrong answers that "answer" may have; default: the policy's own.
        where: a filter such as 'year>=2024 and path~"holiday"'. kind: "image" or "text".
        """
        question = ask(text, image, without, kind)
        check_numbers(k, risk)
        chosen = Where.parse(where) if isinstance(where, str) else where
        started = time.perf_counter()
        vector = question.vector(self.encoder)
        encoded = time.perf_counter() - started
        query = {**question.to_dict(), "where": None if where is None else str(where)}
        found = self._answer(query, question.style, vector, k, risk, chosen, kind)
        return _timed(found, encode=encoded)

    def similar(
        self, item_id: int, *, k: int = 10, where: str | Where | None = None
    ) -> SearchResult:
        """Items of the same kind that look (or read) like one of the index."""
        check_numbers(k, None)
        chosen = Where.parse(where) if isinstance(where, str) else where
        item = self.library.items([item_id])[0]
        vector = self.library.vectors([item_id])[0]
        query = {**Question(kind="image" if item.kind == "image" else "text").to_dict()}
        query |= {"similar_to": item_id, "where": None if where is None else str(where)}
        return self._answer(query, "similar", vector, k, None, chosen, item.kind, but=item_id)

    def explain(self, text: str, item_id: int) -> Explanation:
        """Which words, and which parts of a picture of the index, carry the match."""
        question = ask(text)
        assert question.text is not None
        return explain(self.encoder, question.text, self.photograph(item_id))

    def photograph(self, item_id: int) -> Image.Image:
        """A picture of the index, opened."""
        item = self.library.items([item_id])[0]
        if item.kind != "image":
            raise BadQuery(
                f"Item {item_id} ({item.path!r}) is a text. Expected a picture; choose "
                "another hit."
            )
        return open_photograph(Path(item.path))

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

    def policy(self, style: Style) -> Policy | None:
        """What was fitted for this index, else for its model; None where nothing was."""
        if style not in ("text", "image"):
            return None
        home = getattr(self.encoder, "home", None)
        for place in (self.model_folder, home):
            if place is not None and (place / f"trust-{style}.json").is_file():
                return self._load(place / f"trust-{style}.json")
        return None

    @property
    def model_folder(self) -> Path:
        """Where the index keeps what belongs to its model."""
        return self.library.folder / "models" / self.library.manifest["fingerprint"]

    # --- the parts of an answer -------------------------------------------------------

    def _answer(
        self,
        query: dict[str, Any],
        style: Style,
        vector: Float32[np.ndarray, " dim"],
        k: int,
        risk: float | None,
        where: Where | None,
        kind: str,
        but: int | None = None,
    ) -> SearchResult:
        started = time.perf_counter()
        with self._lock:
            self.library.refresh()
            gallery = self._gallery(where, kind)
            ids, scores, sampled = self._rank(gallery, vector, k, but)
            if not len(ids):
                return self._nothing(query, where, kind)
            ranked = time.perf_counter()
            best, views = self.library.vectors(ids[:SHOWN]), self.library.manifest["views"]
            seen = Seen.of(gallery, vector, best, ids[:SHOWN], views, but, sampled)
            words = len((query.get("text") or "").split())
            with torch.inference_mode():
                verdict, ruling, why = self._judge(seen, gallery, ids, style, words, k, risk)
                evidence = self._uncertainty(seen)
            judged = time.perf_counter()
            hits = self._hits(ids, scores, k, ruling)
        empty = verdict == "nothing_found"
        return SearchResult(
            query,
            verdict,
            None if ruling is None else _trust(ruling, empty),
            evidence,
            why,
            () if empty else hits,
            hits if empty else (),
            {"rank": ranked - started, "trust": judged - ranked},
        )

    def _gallery(self, where: Where | None, kind: str) -> Gallery:
        key = (self.library.fingerprint, kind, repr(where))
        if key not in self._galleries:
            others = [old for old in self._galleries if old[0] != key[0]]
            for old in others or list(self._galleries)[: 1 - _GALLERIES_KEPT]:
                self._galleries.pop(old, None)
            self._galleries[key] = Gallery.of(self.library, where, kind)
        return self._galleries[key]

    def _rank(
        self, gallery: Gallery, vector: Float32[np.ndarray, " dim"], k: int, but: int | None
    ) -> tuple[
        Int64[np.ndarray, " found"],
        Float32[np.ndarray, " found"],
        Float32[np.ndarray, " sample"] | None,
    ]:
        """The best items and their scores, and those of the sample where they are known."""
        if not len(gallery):
            return np.empty(0, np.int64), np.empty(0, np.float32), None
        wanted, sampled = max(k, SHOWN) + (but is not None), None
        if gallery.whole:
            ids, scores, sampled = self.library.search_and_watch(
                vector, wanted, gallery.sampled
            )
        else:
            found = self.library.search(vector[None], wanted, gallery.ids)
            ids, scores = found[0][0], found[1][0]
        kept = ids != but if but is not None else np.ones(len(ids), bool)
        return ids[kept][: max(k, SHOWN)], scores[kept][: max(k, SHOWN)], sampled

    def _judge(
        self,
        seen: Seen,
        gallery: Gallery,
        ids: Int64[np.ndarray, " found"],
        style: Style,
        words: int,
        k: int,
        risk: float | None,
    ) -> tuple[Verdict, Ruling | None, str]:
        usual = None if gallery.usual is None else self.library.usual(ids[:SHOWN])
        try:
            policy = self.policy(style)
            if policy is None:
                return "unjudged", None, _NOT_CALIBRATED
            sight = seen.sight(self.encoder.tau, usual, gallery.usual)
            ruling = policy.judge(
                sight,
                np.array([words]),
                shown=min(k, SHOWN, len(ids)),
                risk=risk,
                model=self.encoder.fingerprint,
            )
        except WrongTrust as error:
            return "unjudged", None, f"{_NOT_CALIBRATED} {error}"
        verdict: Verdict = _VERDICTS[ruling.verdicts[0]]
        odd = ruling.odd is not None and policy.is_odd(float(ruling.odd[0]))
        noun = "picture" if style == "text" else "text"
        why = in_words(verdict, ruling.probability[0], noun, odd, ruling.doubts)
        return verdict, ruling, why

    def _uncertainty(self, seen: Seen) -> Uncertainty:
        tau, kind = self.library.manifest["tau"], self.library.manifest["kind"]
        return Uncertainty(seen.uncertainty(tau, kind), seen.gallery, tau, kind)

    def _hits(
        self,
        ids: Int64[np.ndarray, " found"],
        scores: Float32[np.ndarray, " found"],
        k: int,
        ruling: Ruling | None,
    ) -> tuple[Hit, ...]:
        """The first k: by probability where it is known, behind them by similarity."""
        first = np.arange(0) if ruling is None else ruling.order[0]
        beyond = np.arange(0 if ruling is None else SHOWN, len(ids))
        places = np.concatenate([first, beyond])[:k]
        stated = [] if ruling is None else ruling.probability[0].tolist()
        stated += [None] * (len(places) - len(stated))
        items = self.library.items(ids[places])
        return tuple(
            Hit(
                rank,
                item.path,
                p,
                float(score),
                item.id,
                item.kind,
                item.text,
                item.width,
                item.height,
                item.taken,
                item.tags,
            )
            for rank, (item, score, p) in enumerate(
                zip(items, scores[places], stated, strict=True), start=1
            )
        )

    def _nothing(self, query: dict[str, Any], where: Where | None, kind: str) -> SearchResult:
        what = "picture" if kind == "image" else "text"
        why = (
            f"There is no {what} in this index yet; `avow index FOLDER` adds some."
            if where is None or not len(self.library.find(None, kind))
            else f"No {what} passes the filter."
        )
        manifest = self.library.manifest
        nobody = Uncertainty(None, 0, manifest["tau"], manifest["kind"])
        return SearchResult(query, "nothing_found", None, nobody, why)

    def _load(self, path: Path) -> Policy:
        stamp = path.stat().st_mtime_ns
        if self._policies.get(path, (None,))[0] != stamp:
            self._policies[path] = (stamp, Policy.load(path))
        return self._policies[path][1]


_VERDICTS: dict[str, Verdict] = {
    "answer": "answer",
    "check": "check",
    "nothing found": "nothing_found",
}


def _trust(ruling: Ruling, empty: bool) -> float:
    """That the answer is good; where nothing is shown, that there was anything to show."""
    return float((ruling.present if empty else ruling.confidence)[0])


def _same_model(encoder: Encoder, library: Library) -> None:
    if encoder.fingerprint != library.manifest["fingerprint"]:
        raise WrongIndex(
            f"The model {encoder.name!r} has changed since the index in "
            f"{str(library.folder)!r} was made. Vectors of two models cannot be compared; "
            "index the folders again with `avow index --rebuild`."
        )


def _timed(found: SearchResult, **more: float) -> SearchResult:
    found.seconds.update(more)
    return found
