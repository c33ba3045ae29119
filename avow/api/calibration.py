"""Whether the answers of an index can be judged, and what each bearable risk costs."""

from dataclasses import asdict

from avow.api.answers import Calibration, RiskOffered
from avow.retrieval.search import Retriever
from avow.trust.policy import RISKS, SHOWN, Policy

_MISSING = (
    "Nothing was calibrated for this model and index. Answers are ranked, and no "
    "probability is stated; `avow calibrate` changes that."
)


def calibration_of(retriever: Retriever) -> Calibration:
    """For questions in words over pictures, which is what the slider is for."""
    policy = retriever.policy("text")
    if policy is None:
        return Calibration(
            fitted=False, why=_MISSING, conditions=None, doubts=[], default_risk=None, risks=[]
        )
    conditions = policy.conditions
    size = len(retriever.library.find(None, "image"))
    source = conditions.transferred
    how = f"Transferred from the {source} model, and fitted" if source else "Fitted"
    doubts = conditions.doubts(size, model=retriever.encoder.fingerprint)
    return Calibration(
        fitted=True,
        why=(
            f"{how} on galleries of {conditions.smallest} to {conditions.largest} pictures; "
            f"this one has {size}. An answer is wrong when none of the {SHOWN} best fits."
        ),
        conditions=asdict(conditions),
        doubts=doubts,
        default_risk=policy.default_risk,
        risks=[_offered(policy, risk) for risk in sorted({*RISKS, policy.default_risk})],
    )


def _offered(policy: Policy, risk: float) -> RiskOffered:
    promise = policy.promised(risk, SHOWN)
    return RiskOffered(
        risk=risk,
        promised=promise.threshold is not None,
        coverage=promise.coverage,
        threshold=promise.threshold,
        reason=promise.reason,
    )
