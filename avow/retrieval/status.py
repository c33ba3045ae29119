"""What an index holds, which model made it, and how far its probabilities reach."""

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from avow.core.errors import WrongTrust
from avow.core.places import store_address
from avow.retrieval.answer import percent
from avow.retrieval.question import Style
from avow.retrieval.request import PICTURE_RISK
from avow.retrieval.search import Retriever
from avow.trust.held_out import Asked, Measured
from avow.trust.policy import Policy
from avow.trust.risk_control import Promise

_ASKED: dict[Style, str] = {
    "text": "pictures by words",
    "picture": "pictures by a picture",
    "image": "texts by a picture",
}
"""What a policy of each style judges."""


@dataclass(frozen=True)
class TrustReach:
    """How far the answers to one kind of search can be judged."""

    search: str
    judged: bool
    why: str
    doubts: tuple[str, ...] = ()
    usual: tuple["Cost", ...] = ()
    """What the usual risk of each kind of query costs."""


@dataclass(frozen=True)
class Cost:
    """What a bearable risk costs for one kind of query in a gallery of some size."""

    asked: Asked
    risk: float
    promised: bool
    coverage: float
    """Share of the held-out queries that are answered, over galleries of about this size where
    there are any."""
    wrong: float | None
    """Share of wrong answers over galleries of about this size."""
    threshold: float | None
    reason: str
    """Why nothing can be promised."""
    says: str
    """For people."""


@dataclass(frozen=True)
class Status:
    """An index in numbers and sentences."""

    folder: str
    folders: tuple[str, ...]
    pictures: int
    videos: int
    moments: int
    texts: int
    skipped: int
    ticks: int
    bytes: int | None
    """Of its files; None for a store that many share, which does not tell."""
    model: str
    fingerprint: str
    engine: str
    exact: bool
    trust: tuple[TrustReach, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def status_of(retriever: Retriever) -> Status:
    """The state of the index that a retriever has open."""
    library = retriever.library
    library.refresh()
    manifest, local = library.manifest, store_address(library.address) is None
    videos, moments = library.videos()
    images = library.count(None, "image")
    return Status(
        folder=library.address,
        folders=tuple(library.folders()),
        pictures=images - moments,
        videos=videos,
        moments=moments,
        texts=library.count(None, "text"),
        skipped=len(library.skipped()),
        ticks=library.feedback_count(),
        bytes=_bytes_below(library.folder) if local else None,
        model=str(manifest["model"]),
        fingerprint=str(manifest["fingerprint"]),
        engine=str(manifest["engine"]),
        exact=bool(manifest["exact"]),
        trust=tuple(_reach(retriever, style, images) for style in _ASKED),
    )


def how_far(policy: Policy, size: int) -> str:
    """What the probabilities of a policy rest on, beside a gallery of `size` pictures."""
    conditions = policy.conditions
    source = conditions.transferred
    how = f"Transferred from the {source} model, and fitted" if source else "Fitted"
    return (
        f"{how} on galleries of {conditions.smallest} to {conditions.largest} pictures"
        f"{'' if policy.line is None else ', adjusted by ticks'}; this one has {size}."
    )


def costs(policy: Policy, risk: float | None, size: int) -> tuple[Cost, ...]:
    """What a bearable risk costs, for each kind of query; None: its usual one."""
    return tuple(
        cost(policy, kind, usual if risk is None else risk, size)
        for kind, usual in policy.usual_risks.items()
    )


def cost(policy: Policy, kind: Asked, risk: float, size: int) -> Cost:
    """What a bearable risk costs in a gallery of `size` pictures, as far as it was measured."""
    promise, held = policy.promised(risk, size=size, asked=kind), policy.held
    here = None if held is None else held.measured(promise, size, kind)
    return Cost(
        kind,
        risk,
        promise.threshold is not None,
        promise.coverage if here is None else here.coverage,
        None if here is None else here.wrong,
        promise.threshold,
        promise.reason,
        _says(policy, kind, promise, here, size),
    )


def _says(
    policy: Policy, kind: Asked, promise: Promise, here: Measured | None, size: int
) -> str:
    risk, held = percent(promise.alpha), policy.held
    if promise.threshold is None:
        about = "answers" if kind == "questions" else f"answers to {kind}"
        return (
            f"That at most {risk} of {about} are wrong cannot be promised here: what is not "
            "refused says “check”."
        )
    answered = f"answers {percent(promise.coverage)} of {kind}"
    if held is None or held.sizes is None:
        return f"At most {risk} wrong: {answered}; the others say “check”."
    if here is None:
        least, most = policy.conditions.smallest, policy.conditions.largest
        return (
            f"At most {risk} wrong: nothing was measured over about {size:,} pictures; over "
            f"{least:,} to {most:,} it {answered}."
        )
    over = f"over {here.smallest:,} to {here.largest:,} pictures"
    if here.wrong is None:
        return f"At most {risk} wrong: answers none of the {kind} {over}."
    return (
        f"At most {risk} wrong: answers {percent(here.coverage)} of {kind} {over}; "
        f"{percent(here.wrong)} of these answers were wrong."
    )


def _reach(retriever: Retriever, style: Style, size: int) -> TrustReach:
    asked = _ASKED[style]
    try:
        policy = retriever.policy(style)
    except WrongTrust as error:
        return TrustReach(asked, False, str(error))
    if policy is None:
        return TrustReach(asked, False, "Nothing is calibrated; answers are only ranked.")
    policy = policy.for_size(size)
    doubts = policy.conditions.doubts(size, model=retriever.library.manifest["fingerprint"])
    risk = PICTURE_RISK if style == "picture" else None
    usual = costs(policy, risk, size)
    return TrustReach(asked, True, how_far(policy, size), tuple(doubts), usual)


def _bytes_below(folder: Path) -> int:
    sizes = 0
    for home, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a writer is at work
                sizes += os.lstat(os.path.join(home, name)).st_size
    return sizes
