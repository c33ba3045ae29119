"""Whether the answers of an index can be judged, and what each bearable risk costs."""

from dataclasses import asdict

from avow.api.answers import Calibration, RiskOffered, RiskOfKind, TicksUsed
from avow.retrieval.calibrate import is_own, use_ticks
from avow.retrieval.search import Retriever
from avow.retrieval.status import costs, how_far
from avow.trust.held_out import RISKS
from avow.trust.policy import SHOWN, Policy
from avow.trust.probability import NAME_WORDS

_MISSING = (
    "Nothing was calibrated for this model and index. Answers are ranked, and no "
    "probability is stated; `avow calibrate` changes that."
)
_KINDS = (
    f" Names are questions of up to {NAME_WORDS} words, articles not counted; descriptions are "
    "longer ones."
)
_OWN = (
    "Trust was fitted to this index. Ticks are kept, and the next `avow calibrate` learns "
    "from them."
)
_NO_TICKS = "No ticks of text searches here that trust could learn from."


def calibration_of(retriever: Retriever) -> Calibration:
    """For questions in words over pictures, which is what the slider is for."""
    policy = retriever.policy("text")
    if policy is None:
        return Calibration(fitted=False, why=_MISSING, conditions=None, doubts=[], risks=[])
    size = retriever.library.count(None, "image")
    policy = policy.for_size(size)
    conditions = policy.conditions
    doubts = conditions.doubts(size, model=retriever.encoder.fingerprint)
    return Calibration(
        fitted=True,
        why=f"{how_far(policy, size)} An answer is wrong when none of the {SHOWN} best fits."
        f"{_KINDS if len(policy.kinds) > 1 else ''}",
        conditions=asdict(conditions),
        doubts=doubts,
        risks=[_offered(policy, risk, size) for risk in (None, *RISKS)],
    )


def ticks_used(retriever: Retriever) -> TicksUsed:
    """The policy adjusted by all ticks, and what that changed."""
    adjustment = use_ticks(retriever)
    if adjustment is not None:
        same = ("ticks", "agree", "change", "known_to", "more")
        told = {name: getattr(adjustment, name) for name in same}
        told |= {"error_before": adjustment.before, "error_after": adjustment.after}
        return TicksUsed(
            used=True, says=adjustment.changed(), outlook=adjustment.outlook(), **told
        )
    says = _OWN if is_own(retriever) else _NO_TICKS
    nothing = {"change": None, "error_before": None, "error_after": None}
    return TicksUsed(
        used=False, says=says, outlook="", ticks=0, agree=0, known_to=None, more=None, **nothing
    )


def _offered(policy: Policy, risk: float | None, size: int) -> RiskOffered:
    kinds = costs(policy, risk, size)
    says = " ".join(one.says for one in kinds)
    return RiskOffered(risk=risk, says=says, kinds=[RiskOfKind(**asdict(one)) for one in kinds])
