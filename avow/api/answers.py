"""What the server answers, as types: they check every answer and write the OpenAPI page."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Verdict = Literal["answer", "check", "nothing_found", "not_understood", "unjudged"]
JobState = Literal["running", "done", "cancelled", "failed"]


class Mistake(BaseModel):
    """Why a request was not fulfilled."""

    error: str = Field(examples=["There is no item 12 in the index."])
    request_id: str = Field(description="As in the header X-Request-ID and in the log.")


class Placed(BaseModel):
    """When something is shown in its video, and where a camera was."""

    start: float | None = Field(None, description="Of a moment, in seconds of its video.")
    end: float | None = None
    key_frame: float | None = Field(None, description="When the frame that stands for it is.")
    duration: float | None = Field(None, description="Seconds of the whole video.")
    latitude: float | None = Field(None, description="Where a camera says it was, in degrees.")
    longitude: float | None = None


class Hit(Placed):
    """One answer, with the probability that it is relevant where that can be said."""

    model_config = ConfigDict(extra="allow")

    rank: int
    id: int
    path: str
    p_relevant: float | None
    similarity: float
    kind: str = Field("image", description="image, video (a moment of one) or text.")
    same_as: int | None = Field(None, description="The first of pictures that look the same.")
    by: Literal["picture", "text"] = Field(
        "picture", description="What was found: what it shows, or words written in it."
    )


class Uncertainty(BaseModel):
    """u, and what it was formed with; it means nothing without."""

    model_config = ConfigDict(extra="allow")

    u: float | None
    K: int
    tau: float
    evidence: str


class HowMany(BaseModel):
    """How many items of the gallery fit: the expected number, and an interval for it."""

    expected: float
    low: float
    high: float


class Heading(BaseModel):
    """The verdict in words, and what the stated probability is of."""

    verdict: str = Field(examples=["Answer among the best ten"])
    claim: str | None = Field(None, examples=["that one of these 3 fits"])
    sure: str | None = Field(None, examples=["65 %"])


class Found(BaseModel):
    """The result of a search: the same object that `avow search --json` prints."""

    model_config = ConfigDict(extra="allow")

    query: dict[str, Any]
    verdict: Verdict
    heading: Heading
    trust: float | None
    searched: int = Field(description="Items that could have been answers.")
    uncertainty: Uncertainty | None
    why: str
    understanding: dict[str, Any] | None = None
    how_many: HowMany | None = None
    hits: list[Hit]
    near_misses: list[Hit]
    written: list[Hit] = Field(
        [], description="Pictures in which the words are written, where they were read."
    )


class ItemAnswer(Placed):
    """A photograph, a moment of a video or a text of the index."""

    id: int
    kind: str = Field(description="image, video (a moment of one) or text.")
    path: str
    text: str | None
    size: int
    width: int | None
    height: int | None
    modified: float
    taken: str | None
    content: str
    tags: list[str] = Field(description="The first of them.")
    tags_total: int
    same_as: int | None


class Items(BaseModel):
    total: int
    offset: int
    items: list[ItemAnswer]


class Word(BaseModel):
    word: str
    weight: float | None = Field(description="Null for words that hold others together.")


class Explained(BaseModel):
    """How much each word and each part of the picture adds to the similarity."""

    similarity: float
    words: list[Word]
    cells: list[list[float]]


class SkippedFile(BaseModel):
    path: str
    why: str
    when: float


class UploadLimits(BaseModel):
    upload_bytes: int
    pixels: int
    clip_seconds: float


class IndexAnswer(BaseModel):
    """What is in the index, which model made it, and what was left out."""

    folder: str
    folders: list[str]
    may_add: bool = Field(description="Whether folders can be added from the page.")
    images: int = Field(description="Pictures and moments of videos.")
    videos: int = Field(description="Files of videos.")
    moments: int = Field(description="Moments of them.")
    texts: int
    model: str
    model_fingerprint: str
    fingerprint: str
    engine: str
    exact: bool
    feedback: int
    skipped_total: int
    skipped: list[SkippedFile] = Field(description="The first of them.")
    limits: UploadLimits


class Body(BaseModel):
    """What a request brings as JSON; every string in it is a text."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _only_text(cls, body: Any) -> Any:
        if isinstance(body, bytes):  # no JSON at all, which the model itself refuses
            return body
        try:
            json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError(
                "it holds half of a character (a lone surrogate such as '\\ud800'), which "
                "cannot be written as UTF-8"
            ) from None
        return body


class JobAsked(Body):
    """Which folder to scan; all that are indexed where none is named."""

    folder: str | None = Field(None, max_length=4096)


class JobAnswer(BaseModel):
    id: int
    folders: list[str]
    state: JobState
    done: int
    total: int
    says: str
    began: float
    ended: float | None


class Jobs(BaseModel):
    jobs: list[JobAnswer] = Field(description="Newest first.")


class Told(Body):
    """What a person says of an answer; `good: null` takes it back."""

    query: dict[str, Any]
    item_id: int = Field(ge=0, le=2**53 - 1)
    good: bool | None


class Kept(BaseModel):
    kept: int = Field(description="How many opinions the index holds now.")


class TicksUsed(BaseModel):
    """What the ticks of this index changed; the numbers are null where they change nothing."""

    used: bool
    says: str = Field(description="For people: what was ticked, and what that did.")
    outlook: str = Field(description="How well P is known now, and how many more would help.")
    ticks: int
    agree: int
    change: float | None = Field(description="Mean P of the ticked hits after, over before.")
    error_before: float | None = Field(description="Mean squared error over the ticks.")
    error_after: float | None = Field(description="The same by the ticks of other queries.")
    known_to: float | None = Field(description="Standard deviation that is left in P.")
    more: int | None = Field(description="Ticks that would make P known well.")


class RiskOfKind(BaseModel):
    asked: Literal["names", "descriptions", "questions"] = Field(
        description="What it is about: names and descriptions, or all questions together."
    )
    risk: float
    promised: bool
    coverage: float = Field(
        description="Share of calibration queries answered, of those over galleries of about "
        "this size where there are any."
    )
    wrong: float | None = Field(
        description="Share of wrong answers over galleries of about this size."
    )
    threshold: float | None
    reason: str
    says: str = Field(description="For people: what this risk costs here.")


class RiskOffered(BaseModel):
    risk: float | None = Field(description="null: the usual risk of each kind of query.")
    says: str = Field(description="For people: what this risk costs here.")
    kinds: list[RiskOfKind]


class Calibration(BaseModel):
    """Whether answers can be judged here, what that rests on, and what each risk costs."""

    fitted: bool
    why: str
    conditions: dict[str, Any] | None
    doubts: list[str]
    risks: list[RiskOffered] = Field(description="The usual one first.")


class Health(BaseModel):
    status: Literal["ok"]
    version: str


class Ready(BaseModel):
    status: Literal["ready"]
