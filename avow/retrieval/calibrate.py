"""Trust fitted to one index: from queries whose right pictures somebody has named.

    labelled queries --two halves--> each half judged by a policy fitted on the other --> after
                     `-------------> judged by the policy there was before -----------> before
                     `--all--> the policy that is kept, where it is no worse than the model's

No query is ever judged by a policy that has seen it, so before and after are comparable. The
policy that is kept holds half of the queries back itself, and its promises rest on those.

Labelled queries are mostly captions, and of each one picture is known. Of names and phrases
they teach nothing: what the model's policy states of those teaches them, by labels drawn from
it, so that "a dog" is judged after a calibration as before it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from avow.core.errors import BadData, WrongTrust
from avow.core.groups import halves
from avow.core.places import packaged_folder
from avow.metrics.calibration import brier, expected_calibration_error
from avow.retrieval import transfer
from avow.retrieval.encoders import bank
from avow.retrieval.forms import count_words
from avow.retrieval.labelled_queries import LabelledQueries, read_known, scored
from avow.retrieval.search import Retriever
from avow.retrieval.ticks import Adjustment, adjusted
from avow.trust.fitting import CalibrationQueries, fit_search_policy
from avow.trust.policy import SHOWN, Policy
from avow.trust.probability import Line
from avow.trust.top_k import summarise
from avow.trust.transfer import SHORT, drawn_kinds, whole_probabilities

FEWEST = 80
"""Known queries that a calibration needs: a quarter of them tests each promise."""
RISKS = (0.1, 0.2)
FILE = "trust-text.json"
_BINS = 10
_TIED = 10  # fewer groups than this cannot be halved, so queries are


@dataclass(frozen=True)
class Measured:
    """How good the stated probability was that one of the pictures shown is right."""

    queries: int
    ece: float
    brier: float
    answered: dict[float, float]
    """Per risk asked for, the share of queries that got an "answer"."""
    wrong: dict[float, float | None]
    """Per risk, the share of those without a right picture among those shown."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Calibration:
    """What was fitted, and what it brought."""

    policy: Policy
    path: Path
    queries: int
    lost: tuple[str, ...]
    before: Measured | None
    after: Measured | None
    passed_over: int = 0
    """Rows of feedback that could not be used."""
    ticks: Adjustment | None = None
    """What ticks changed, where there are too few queries for a policy of the index's own."""
    used: bool = True
    """False where what there was is better, and stays."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "used": self.used,
            "path": str(self.path),
            "queries": self.queries,
            "files_not_in_the_index": list(self.lost),
            "feedback_passed_over": self.passed_over,
            "before": None if self.before is None else self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
            "ticks": None if self.ticks is None else self.ticks.to_dict(),
            "usual_risks": self.policy.usual_risks,
        }


def calibrate(
    retriever: Retriever, pairs: Path | None = None, *, force: bool = False
) -> Calibration:
    """Fit trust to an index and keep it there; searches use it from then on.

    Where the model's own trust tells the labelled queries better, nothing changes, unless
    force.
    """
    labelled = read_known(retriever.library, pairs)
    if len(labelled) < FEWEST:
        if pairs is None and (by_ticks := _by_ticks(retriever, labelled)) is not None:
            return by_ticks
        lost = (
            f" {len(labelled.lost)} files of the pairs are not in it." if labelled.lost else ""
        )
        raise BadData(
            f"There are {len(labelled)} queries with a known right picture in this index."
            f"{lost} "
            f"Expected at least {FEWEST}; name more in a file of pairs, or say of more "
            "answers whether they are good."
        )
    asking = scored(retriever.library, retriever.encoder, labelled)
    model = retriever.encoder.fingerprint
    old, models = _policy(retriever), _policy(retriever, own=False)
    before = _before(old, asking, model)
    short = [] if models is None else _short_as_before(retriever, models)
    after = _measured(_crossed(asking, short, model))
    policy = fit_search_policy(
        [asking, *short], model=model, gallery=retriever.library.fingerprint
    )
    # a policy of the index may have seen these very queries, the model's has not
    plain = before if models is old else _before(models, asking, model)
    used = force or plain is None or after.brier <= plain.brier
    before = before if used else plain
    path = _keep(retriever, policy) if used else retriever.model_folder / FILE
    about = len(labelled), tuple(labelled.lost), before, after, labelled.passed_over
    return Calibration(policy, path, *about, used=used)


def _policy(retriever: Retriever, own: bool = True) -> Policy | None:
    try:
        return retriever.policy("text", own)
    except WrongTrust:  # damaged or lost, which is what a calibration repairs
        return None


def _short_as_before(retriever: Retriever, policy: Policy) -> list[CalibrationQueries]:
    """Names and phrases over pictures of the index, with labels drawn from what `policy` says.

    None of them where there are too few pictures, or it judges no ten hits together.
    """
    library, encoder = retriever.library, retriever.encoder
    ids = library.find(None, "image")
    if policy.anything is None or len(ids) < transfer.FEWEST:
        return []
    ids = np.sort(np.random.default_rng(0).permutation(ids)[: transfer.MOST])
    texts = transfer.asked_texts(encoder.bank or bank.texts(packaged_folder()))
    lengths = count_words(texts).tolist()
    texts = [text for text, words in zip(texts, lengths, strict=True) if words <= SHORT]
    asked = np.asarray(encoder.encode_texts(texts), np.float32)
    items, usual = library.vectors(ids), library.usual(ids)
    queries = transfer.queries_over(encoder, texts, asked, items, usual)
    try:
        return drawn_kinds(queries, *whole_probabilities(policy, queries), seed=0)
    except WrongTrust:  # fitted for other numbers than this index has
        return []


def _by_ticks(retriever: Retriever, labelled: LabelledQueries) -> Calibration | None:
    """The model's policy as ticks change it; None where there is none, or no ticks."""
    model = retriever.policy("text", own=False)
    changed = None if model is None else adjusted(retriever, model)
    if changed is None:
        return None
    policy, ticks = changed
    path = _keep(retriever, policy)
    return Calibration(policy, path, len(labelled), (), None, None, labelled.passed_over, ticks)


def use_ticks(retriever: Retriever) -> Adjustment | None:
    """Adjust the model's policy by all ticks, and keep it in the index; None: not adjusted.

    A policy that was fitted to the index is left as it is: `calibrate` learns from ticks then.
    """
    if is_own(retriever):
        return None
    changed = _by_ticks(retriever, LabelledQueries())
    if changed is None and (retriever.model_folder / FILE).is_file():
        model = retriever.policy("text", own=False)  # all ticks were taken back
        if model is not None:
            _keep(retriever, replace(model, line=Line()))
    return None if changed is None else changed.ticks


def is_own(retriever: Retriever) -> bool:
    """Whether text searches have a policy of this index, and not one that ticks adjusted."""
    if not (retriever.model_folder / FILE).is_file():
        return False
    try:
        own = retriever.policy("text")
    except WrongTrust:  # damaged; `avow calibrate` mends it
        return True
    return own is not None and own.line is None


def _keep(retriever: Retriever, policy: Policy) -> Path:
    path = retriever.model_folder / FILE
    policy.save(path)
    retriever.library.attach(path)
    return path


@dataclass(frozen=True)
class _Judged:
    """What was stated of some queries, and what was true."""

    stated: Float[np.ndarray, " queries"]
    right: Bool[np.ndarray, " queries"]
    answered: dict[float, Bool[np.ndarray, " queries"]]

    @staticmethod
    def join(parts: Sequence["_Judged"]) -> "_Judged":
        return _Judged(
            np.concatenate([part.stated for part in parts]),
            np.concatenate([part.right for part in parts]),
            {r: np.concatenate([part.answered[r] for part in parts]) for r in RISKS},
        )


def _before(policy: Policy | None, asking: CalibrationQueries, model: str) -> Measured | None:
    """How good a policy is; None where there is none, or it cannot read this index."""
    if policy is None:
        return None
    try:
        return _measured(_judged(policy, asking, model))
    except WrongTrust:
        return None


def _crossed(
    asking: CalibrationQueries, others: Sequence[CalibrationQueries], model: str
) -> _Judged:
    """Each half judged by what the other half taught; one picture's queries stay together.

    others: kinds of queries that teach both.
    """
    groups = asking.scored.groups
    if len(np.unique(groups)) < _TIED:
        groups = np.arange(len(groups))
    parts = [asking.only(side) for side in halves(groups, 0)]
    judged = [
        _judged(
            fit_search_policy([parts[1 - number], *others], model=model), parts[number], model
        )
        for number in (0, 1)
    ]
    return _Judged.join(judged)


def _judged(policy: Policy, asking: CalibrationQueries, model: str) -> _Judged:
    summary, order = summarise(asking.scored.asked())
    policy = policy.for_size(len(asking.scored.match[0]))
    rulings = {
        risk: policy.judge(
            summary,
            asking.words,
            common=asking.common,
            vectors=asking.vectors,
            shown=SHOWN,
            risk=risk,
            model=model,
        )
        for risk in RISKS
    }
    answered = {
        risk: np.array([verdict == "answer" for verdict in ruling.verdicts])
        for risk, ruling in rulings.items()
    }
    first = rulings[RISKS[0]]
    shown = np.take_along_axis(order, first.order, 1)
    right = np.take_along_axis(asking.scored.match, shown, 1).any(1)
    return _Judged(first.confidence, np.asarray(right), answered)


def _measured(judged: _Judged) -> Measured:
    wrong = {
        risk: float((~judged.right[answered]).mean()) if answered.any() else None
        for risk, answered in judged.answered.items()
    }
    return Measured(
        len(judged.stated),
        expected_calibration_error(judged.stated, judged.right, _BINS),
        brier(judged.stated, judged.right),
        {risk: float(answered.mean()) for risk, answered in judged.answered.items()},
        wrong,
    )
