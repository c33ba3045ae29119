"""Whether the answers of an index can be judged, and what each bearable risk costs."""

from dataclasses import asdict

from avow.api.answers import Calibration, RiskOffered, TicksUsed
from avow.retrieval.calibrate import is_own, use_ticks
from avow.retrieval.search import Retriever
from avow.retrieval.status import cost, how_far, measured
from avow.trust.policy import RISKS, SHOWN, Policy

_MISSING = (
    "Nothing was calibrated for this model and index. Answers are ranked, and no "
    "probability is stated; `avow calibrate` changes that."
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
        return Calibration(
            fitted=False, why=_MISSING, conditions=None, doubts=[], default_risk=None, risks=[]
        )
    size = retriever.library.count(None, "image")
    policy = policy.for_size(size)
    conditions = policy.conditions
    doubts = conditions.doubts(size, model=retriever.encoder.fingerprint)
    return Calibration(
        fitted=True,
        why=f"{how_far(policy, size)} An answer is wrong when none of the {SHOWN} best fits.",
        conditions=asdict(conditions),
        doubts=doubts,
        default_risk=policy.default_risk,
        risks=[_offered(policy, risk, size) for risk in sorted({*RISKS, policy.default_risk})],
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


def _offered(policy: Policy, risk: float, size: int) -> RiskOffered:
    promise, here = policy.promised(risk, SHOWN, size=size), measured(policy, risk, size)
    return RiskOffered(
        risk=risk,
        promised=promise.threshold is not None,
        coverage=promise.coverage if here is None else here.coverage,
        wrong=None if here is None else here.wrong,
        says=cost(policy, risk, size, "questions in words"),
        threshold=promise.threshold,
        reason=promise.reason,
    )
