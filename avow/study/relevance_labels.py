"""Which pictures a query fits, as people would say: labels read from the pictures' captions.

    query, captions of a picture --largest cosine of sentence vectors--> agreement
    agreement --monotone curve, fitted on experts' judgements--> P(a person says it fits)

A captioned set names one right picture per caption, and a query has many. The agreement of a
query with a picture's own captions tells the others: of all pairs that experts judged it
orders those that fit before the rest with an AUROC of about .96
(`benchmarks/quality/labels.py`). Half of the judged images fits the curve, the other half
checks it.

The sentence vectors are those of all-MiniLM-L6-v2, which the default model's text network
began with, so a second measure that shares nothing with it stands beside them: the share of
content words that a picture's captions have (`word_overlap`).

Papers: Hodosh, Young, Hockenmaier, "Framing Image Description as a Ranking Task", JAIR 2013
(the judgements); Reimers, Gurevych, "Sentence-BERT", EMNLP 2019 (sentence vectors).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from avow.blocks.sentences import sentence_vectors as sentence_vectors
from avow.core.logistic import expit
from avow.data.judgements import JudgedPairs
from avow.data.words import word_tokenize
from avow.study.human_agreement import STRICT
from avow.study.short_queries import content_stems

_QUERIES_AT_ONCE = 1024

Vectors = Float[np.ndarray, "texts dim"]
Labels = Float[np.ndarray, "queries images"]


@dataclass(frozen=True)
class FitCurve:
    """P(a person says it fits) = expit(slope * agreement + offset)."""

    slope: float
    offset: float
    pairs: int
    """Judged pairs it was fitted on."""

    def __call__(self, agreement: Labels) -> Labels:
        return expit(self.slope * agreement + self.offset)


def fit_curve(
    agreement: Float[np.ndarray, " pairs"], fits: Bool[np.ndarray, " pairs"]
) -> FitCurve:
    """The curve of judged pairs; leave out the pairs of a picture with its own caption."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e6).fit(agreement[:, None], fits)
    return FitCurve(float(model.coef_[0, 0]), float(model.intercept_[0]), len(fits))


def expert_half(images: int, seed: int = 0) -> Bool[np.ndarray, " images"]:
    """Which half of the judged images may be fitted on; the other half is for checking."""
    return np.random.default_rng(seed).permutation(images) < images // 2


def expert_curve(
    pairs: JudgedPairs,
    agreement: Labels,
    fitted_on: Bool[np.ndarray, " images"],
    at_least: int = STRICT,
) -> FitCurve:
    """The curve of the experts' pairs whose image may be fitted on.

    A pair fits where most experts gave it `at_least` this score; STRICT: the caption describes
    the image without errors.
    """
    rows = fitted_on[pairs.image] & ~pairs.own
    return fit_curve(agreement[pairs.text, pairs.image][rows], pairs.called(at_least)[rows])


def labels(
    agreement: Labels, curve: FitCurve, own: Int[np.ndarray, " queries"] | None = None
) -> Labels:
    """P(a person says it fits) of every query and image. own: the image of every caption."""
    stated = np.asarray(curve(agreement))
    if own is not None:
        stated[np.arange(len(stated)), own] = 1
    return stated


def drawn(probability: Labels, seed: int = 0) -> Bool[np.ndarray, "queries images"]:
    """Labels that are yes as often as they are probable: what fits expect as truth."""
    return np.random.default_rng(seed).random(probability.shape) < probability


def agreement(
    queries: Float[np.ndarray, "queries dim"],
    captions: Float[np.ndarray, "captions dim"],
    image_of: Int[np.ndarray, " captions"],
    images: int,
) -> Labels:
    """The largest cosine of every query with the captions of every image, in blocks.

    An image without captions agrees with nothing.
    """
    order = np.argsort(image_of, kind="stable")
    named, starts = np.unique(image_of[order], return_index=True)
    largest = np.full((len(queries), images), -1, np.float32)
    ordered = captions[order].T
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        rows = slice(start, start + _QUERIES_AT_ONCE)
        largest[rows, named] = np.maximum.reduceat(queries[rows] @ ordered, starts, axis=1)
    return largest


def word_overlap(
    queries: Sequence[str],
    captions: Sequence[str],
    image_of: Int[np.ndarray, " captions"],
    images: int,
) -> Labels:
    """The share of a query's content words that the captions of an image have together."""
    spoken: list[set[str]] = [set() for _ in range(images)]
    for caption, image in zip(captions, image_of.tolist(), strict=True):
        spoken[image] |= content_stems(word_tokenize(caption.lower()))
    asked = [content_stems(word_tokenize(query.lower())) for query in queries]
    number = {word: place for place, word in enumerate(sorted(set().union(*asked, *spoken)))}
    asks, says = (_incidence(rows, number) for rows in (asked, spoken))
    return asks @ says.T / np.maximum(asks.sum(1, keepdims=True), 1)


def _incidence(
    rows: Sequence[set[str]], number: dict[str, int]
) -> Float[np.ndarray, "rows words"]:
    table = np.zeros((len(rows), len(number)), np.float32)
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    table[owner, [number[word] for row in rows for word in sorted(row)]] = 1
    return table
