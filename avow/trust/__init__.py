"""How far an answer can be trusted: probabilities, promises, verdicts, and their study.

trust = avow.trust.fit(similarity, matches)      # any model's similarities will do
trust.judge(similarity).verdicts                 # "answer", "check", "nothing found"
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from avow.trust.judge import Judgement, Trust, fit

__all__ = ["Judgement", "Trust", "fit"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'avow.trust' has no attribute {name!r}")
    from avow.trust import judge

    return getattr(judge, name)
