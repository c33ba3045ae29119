"""What a search gives back, in one shape for the command line, the page and programs."""

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from numpy import ndarray

from avow.core.moments import Moment
from avow.core.shapes import Float
from avow.core.verdicts import EMPTY, HEADS, Verdict
from avow.retrieval.understanding import Understanding
from avow.trust.coherence import TEN, Number
from avow.trust.policy import Judgements
from avow.trust.top_k import SHOWN

if TYPE_CHECKING:
    import pandas
    import pyarrow

ALIKE = 0.85
"""Answers with at least this share of the first one's probability fit as well as it."""
SURE = 0.9
"""Of the numbers of fitting items, one in ten lies below its interval, and one above."""
_NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve".split()


@dataclass(frozen=True, repr=False)
class Hit:
    """One item of the index that a search shows, with its probability.

    >>> hit = avow.open("my-index").search("a cat").hits[0]
    >>> hit.rank, hit.kind, 0.5 < hit.p_relevant <= 1
    (1, 'image', True)
    """

    rank: int
    path: str
    p_relevant: float | None
    """Probability that a person would say it fits; None where nothing is calibrated."""
    similarity: float
    id: int
    kind: str = "image"
    text: str | None = None
    width: int | None = None
    height: int | None = None
    taken: str | None = None
    tags: tuple[str, ...] = ()
    """The first ones."""
    tags_total: int = 0
    """How many there are."""
    start: float | None = None
    """Of a moment of a video, in seconds of its file."""
    end: float | None = None
    key_frame: float | None = None
    """When the frame is shown that stands for the moment."""
    duration: float | None = None
    """Of the whole video."""
    latitude: float | None = None
    """Where a camera says it was, in degrees; None where it does not say."""
    longitude: float | None = None
    same_as: int | None = None
    """The first of pictures that look the same, where `avow index --dedupe` was used."""

    by: Literal["picture", "text"] = "picture"
    """Whether what is shown was found, or the words that are written in it."""

    @property
    def moment(self) -> Moment | None:
        """When it is shown; None for pictures and texts."""
        if None in (times := (self.start, self.end, self.key_frame, self.duration)):
            return None
        return Moment(*times)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "tags": list(self.tags)}  # all else is plain: no deep copy

    def __repr__(self) -> str:
        sure = "" if self.p_relevant is None else f" P {self.p_relevant:.2f}"
        moment = "" if self.moment is None else f" {self.moment}"
        return f"<Hit {self.rank}: {self.path!r}{moment}{sure}>"


@dataclass(frozen=True)
class Uncertainty:
    """u = K / S, which means nothing without K, tau and the evidence function."""

    u: float | None
    K: int
    tau: float
    evidence: str


@dataclass(frozen=True)
class HowMany:
    """How many items of the gallery fit: the expected number, and an interval for it."""

    expected: float
    low: float
    high: float
    """Four out of five held-out queries had as many as between `low` and `high`."""

    @classmethod
    def of(cls, number: Number, place: int = 0, anything: float = 1.0) -> "HowMany":
        """Of one query. anything: the probability that one of its first ten fits.

        One query in ten may have fewer than `low`. Where it is stated that none may fit as
        often as that, none is the least.
        """
        expected, low, high = (
            float(part[place]) for part in (number.expected, number.low, number.high)
        )
        return cls(expected, low if anything >= SURE else 0.0, high)

    def and_more(self, sure: int) -> "HowMany":
        """The same beside so many others that fit for certain."""
        return HowMany(self.expected + sure, self.low + sure, self.high + sure)

    def in_words(self, noun: str) -> str:
        """ "About 40 pictures fit." """
        if self.expected < 0.5:
            return f"At most one {noun} fits."
        if self.high < 2.5:
            sure = round(self.low) > 0
            return f"One {noun} fits, or two." if sure else f"At most two {noun}s fit."
        about = _rounded(self.expected)
        between = f"{_rounded(self.low)} to {_rounded(self.high)}"
        return f"About {about} {noun}{'s fit' if about > 1 else ' fits'} ({between})."

    def if_any(self, noun: str) -> str:
        """The same where it is more likely that none fits: the expected number misleads."""
        most = _rounded(self.high)
        return f"Probably none fits, and at most {most} {noun}{'s' if most > 1 else ''}."


@dataclass(frozen=True)
class Heading:
    """The verdict in words, and what its probability is of; faces show the parts, or one line.

    "Answer among the best ten; that one of these 3 fits: 65 %"
    """

    verdict: str
    claim: str | None = None
    """What the probability is of; None where none is stated of what is shown."""
    sure: str | None = None

    def __str__(self) -> str:
        return (
            self.verdict if self.claim is None else f"{self.verdict}; {self.claim}: {self.sure}"
        )


@dataclass(frozen=True, repr=False)
class SearchResult:
    """The hits of a search, its verdict, and how far they can be trusted.

    >>> result = avow.open("my-index").search("a cat")
    >>> result.verdict in ("answer", "check")
    True
    >>> absent = avow.open("my-index").search("a submarine under the ice")
    >>> absent.verdict, len(absent.hits)
    ('nothing_found', 0)
    """

    query: dict[str, Any]
    verdict: Verdict
    trust: float | None
    """Probability that the answer is good; None where nothing is calibrated."""
    uncertainty: Uncertainty
    why: str
    hits: tuple[Hit, ...] = ()
    near_misses: tuple[Hit, ...] = ()
    """What would have been shown, where nothing was found."""
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    """How long encoding, ranking and judging took; not part of the answer."""
    understanding: Understanding | None = None
    """What was understood of the text, where the model reads English alone."""
    how_many: HowMany | None = None
    """How many items of the gallery fit, where the policy can say."""
    written: tuple[Hit, ...] = ()
    """Pictures in which the words of the query are written; no probability is stated."""
    apart: int = 0
    """Items that were searched too and are not among the K of `uncertainty`: the picture that
    was asked with, where the index holds it."""

    @property
    def searched(self) -> int:
        """How many items could have been answers."""
        return self.uncertainty.K + self.apart

    @property
    def heading(self) -> Heading:
        """The verdict, and the probability that one of those shown fits.

        The verdict is for the best ten, however few are shown, so where it is "answer" and
        fewer are less sure than that, the heading says for how many it is.
        """
        head, shown = HEADS[self.verdict], len(self.hits)
        if self.trust is None or self.verdict in EMPTY:
            return Heading(head)
        these = "one of these fits"
        if shown < min(TEN, self.searched):
            these = "this one fits" if shown == 1 else f"one of these {shown} fits"
            ten = self.verdict == "answer" and self.how_many is not None
            head = f"{head} among the best ten" if ten and self.trust < SURE else head
        return Heading(head, f"that {these}", percent(self.trust))

    def __repr__(self) -> str:
        from avow.retrieval.notebook import short  # every search would wait for its imports

        return short(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from avow.retrieval.notebook import html_of

        return html_of(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """The hits as a table of pandas; its `attrs` have the verdict and why."""
        from avow.retrieval.tables import as_pandas

        return as_pandas(self)

    def to_arrow(self) -> "pyarrow.Table":
        """The hits as a table of Arrow; its metadata has the verdict and why."""
        from avow.retrieval.tables import as_arrow

        return as_arrow(self)

    def to_dict(self) -> dict[str, Any]:
        understanding, many = self.understanding, self.how_many
        return {
            "query": self.query,
            "verdict": self.verdict,
            "heading": asdict(self.heading),
            "trust": self.trust,
            "searched": self.searched,
            "uncertainty": asdict(self.uncertainty),
            "why": self.why,
            "understanding": None if understanding is None else understanding.to_dict(),
            "how_many": None if many is None else asdict(many),
            "hits": [hit.to_dict() for hit in self.hits],
            "near_misses": [hit.to_dict() for hit in self.near_misses],
            "written": [hit.to_dict() for hit in self.written],
        }


def percent(share: float) -> str:
    """A probability as every face writes it: 84 %, and never 100 % or 0 % for almost that."""
    if 0 < share < 0.01:
        return "< 1 %"
    return "> 99 %" if 0.99 < share < 1 else f"{int(100 * share + 0.5)} %"


def at_least(result: SearchResult, least: float) -> SearchResult:
    """The same result without answers that are less likely to fit than `p>=` in its filter."""
    likely = tuple(hit for hit in result.hits if (hit.p_relevant or 0.0) >= least)
    if len(likely) == len(result.hits):
        return result
    if likely:
        return replace(result, hits=likely)
    if result.verdict == "unjudged":
        none = "No answer of this search has a probability, so none passes p>= in the filter."
        why = f"{none} {result.why}"
    else:
        best = percent(max(hit.p_relevant or 0.0 for hit in result.hits))
        why = f"No answer is at least {100 * least:g} % likely to fit; the best is {best}."
    said = {"verdict": "nothing_found", "why": why}
    return replace(result, hits=(), near_misses=result.hits, **said)  # type: ignore[arg-type]


def in_words(
    verdict: Verdict,
    judgements: Judgements,
    noun: str,
    many: HowMany | None = None,
    odd: bool = False,
    source: str = "",
    leaves_out: bool = False,
) -> str:
    """Why the verdict is what it is, from the numbers that are shown beside it.

    judgements: of all hits that are judged, so that every page says the same. noun: what was
    looked for. odd: whether the query is unlike those of the calibration.
    source: the model that the policy was transferred from, where it was.
    leaves_out: whether hits must not show something, for which no promise was fitted.
    """
    parts = []
    if verdict == "nothing_found":
        parts.append(_absent(judgements, noun))
    else:
        parts.append(_standing(judgements.probability[0], noun))
        if many is not None:
            none = judgements.one_of_first is not None and _below_half(judgements.present[0])
            parts.append(many.if_any(noun) if none else many.in_words(noun))
        if verdict == "check":
            reason = _NO_PROMISE if leaves_out else "That is not sure enough to promise"
            parts.append(f"{reason}, so look before you rely on it.")
    if odd:
        parts.append("Unlike anything this model was calibrated on.")
    if source:
        parts.append(f"Trust is transferred from the {source} model.")
    if judgements.doubts:
        parts.append(f"Careful: {'; '.join(judgements.doubts)}.")
    return " ".join(parts)


_NO_PROMISE = "Nothing is promised of a search that leaves something out"


def _absent(judgements: Judgements, noun: str) -> str:
    """That nothing fits, with its probability where the policy judges ten hits together."""
    if judgements.one_of_first is None:
        return f"Probably no {noun} here fits."
    chance = percent(float(judgements.present[0]))
    best = _count(judgements.one_of_first.shape[1]).lower()
    these = f"one of the best {best}" if best != "one" else "the best one"
    return f"Probably no {noun} here fits: the chance that {these} does is {chance}."


def _below_half(share: float) -> bool:
    """As it is written: what rounds to 50 % is not called improbable."""
    return int(100 * share + 0.5) < 50


def _standing(probability: Float[ndarray, " shown"], noun: str) -> str:
    """How well the first answer fits, and how many fit as well."""
    first = float(probability[0])
    alike = int((probability >= ALIKE * first).sum())
    share = percent(first)
    if alike == 1:
        return f"The first {noun} fits with a probability of {share}."
    count = _count(alike) if alike < SHOWN else f"At least {alike}"  # no more are judged
    least = percent(float(probability[:alike].min()))
    if least == share:
        return f"{count} {noun}s are equally likely to fit, each with about {share}."
    return (
        f"{count} {noun}s are about equally likely to fit, with "
        f"{least.removesuffix(' %')} to {share}."
    )


def _rounded(number: float) -> int:
    """A number as people say it: two digits at most."""
    whole = int(max(number, 0) + 0.5)
    digits = 10 ** max(len(str(whole)) - 2, 0)
    return int(whole / digits + 0.5) * digits


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
