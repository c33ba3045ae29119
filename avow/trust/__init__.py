"""How far an answer can be trusted: from the top k to probabilities, promises and verdicts.

policy = avow.fit_policy(similarity, matches)    # similarities of any model
policy.judge(similarity).verdicts                # "answer", "check", "nothing found"
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from avow.core.renamed import Moved, keep_old_paths, renamed

if TYPE_CHECKING:
    from avow.core.background import Background
    from avow.trust.drift import Watch
    from avow.trust.fitting import fit_policy, fit_search_policy
    from avow.trust.policy import Judgements, Policy
    from avow.trust.risk_control import promise_on_average
    from avow.trust.top_k import summarise_best

__all__ = [
    "Background",
    "Judgements",
    "Policy",
    "Watch",
    "fit_policy",
    "fit_search_policy",
    "promise_on_average",
    "summarise_best",
]

_HOMES = {
    "Background": "avow.core.background",
    "Judgements": "avow.trust.policy",
    "Policy": "avow.trust.policy",
    "Watch": "avow.trust.drift",
    "fit_policy": "avow.trust.fitting",
    "fit_search_policy": "avow.trust.fitting",
    "promise_on_average": "avow.trust.risk_control",
    "summarise_best": "avow.trust.top_k",
}
_RENAMED = {"Judgement": "Judgements", "Trust": "Policy", "fit": "fit_policy"}
_FITTED = {
    "Asking": "CalibrationQueries",
    "REFUSED_IN_VAIN": "MAX_FALSE_REFUSALS",
    "fit_policy": "fit_search_policy",
}
_SAMPLED = {"Scored": "ScoredQueries", "see": "collect_hits", "state": "predict"}
_SUMMARISED = {
    "Sight": "TopKSummary",
    "Usual": "HubStatistics",
    "look": "summarise",
    "look_at_best": "summarise_best",
    "usual_of": "hub_statistics",
}

keep_old_paths(
    __name__,
    {
        "audit": Moved("avow.audit.judge", {"Astray": "ErrorKind"}),
        "auditing": Moved("avow.audit.run"),
        "conduct": Moved("avow.study.run"),
        "corruption": Moved("avow.study.corruption"),
        "domains": Moved("avow.study.domain_shift"),
        "examples": Moved("avow.study.examples"),
        "figures": Moved("avow.reports.figures"),
        "judge": Moved(
            "avow.trust.policy", {**_RENAMED, "fit": "avow.trust.fitting.fit_policy"}
        ),
        "fit_policy": Moved("avow.trust.fitting", _FITTED),
        "galleries": Moved("avow.trust.gallery_sampling", _SAMPLED),
        "guarantees": Moved("avow.study.guarantees"),
        "human": Moved("avow.study.human_agreement"),
        "measures": Moved("avow.study.measures"),
        "people": Moved("avow.study.human_hits"),
        "plan": Moved("avow.study.plan"),
        "promise": Moved("avow.trust.risk_control"),
        "relevance": Moved("avow.study.short_queries"),
        "relevant": Moved("avow.study.relevance"),
        "report": Moved("avow.reports.report"),
        "rerank": Moved("avow.study.rerank"),
        "scoring": Moved("avow.assembly.scored_split"),
        "sets": Moved("avow.trust.conformal_sets"),
        "shift": Moved("avow.trust.drift"),
        "shortlist": Moved("avow.trust.top_k", _SUMMARISED),
        "sight": Moved("avow.trust.top_k", _SUMMARISED),
        "stochastic": Moved("avow.study.stochastic"),
        "study": Moved("avow.study.direction"),
        "tail": Moved("avow.core.evidence_sum"),
    },
)
_old_name = renamed(__name__, _RENAMED)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    return _old_name(name)
