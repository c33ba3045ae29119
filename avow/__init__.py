"""Avow: visual-textual retrieval that tells you when to trust it.

    avow.index(["photos"], "my-index")
    avow.open("my-index").search("two dogs on a beach").hits[0].path

    model = avow.Model.from_pretrained("runs/flickr8k-vse_infty_tcl")
    model.similarity(["dog.jpg"], ["a dog runs on a beach"])

    policy = avow.fit_policy(similarity, matches)      # similarities of any model
    policy.judge(similarity).verdicts

Importing the package imports nothing heavy; the names below load when first used. Other names
may change between versions.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from avow.assembly.evaluate_split import evaluate
    from avow.assembly.model import Model
    from avow.audit.pairs import audit_pairs
    from avow.core.errors import AvowError
    from avow.core.opinion import Opinion
    from avow.retrieval.answer import Hit, SearchResult
    from avow.retrieval.checking import check
    from avow.retrieval.indexing import index
    from avow.retrieval.search import Retriever
    from avow.training.from_recipe import train
    from avow.trust.fitting import fit_policy
    from avow.trust.policy import Policy

    open = Retriever.open

__version__ = "0.1.0"
__all__ = [
    "AvowError",
    "Hit",
    "Model",
    "Opinion",
    "Policy",
    "Retriever",
    "SearchResult",
    "__version__",
    "audit_pairs",
    "check",
    "evaluate",
    "fit_policy",
    "index",
    "open",
    "train",
]

_HOMES = {
    "AvowError": "avow.core.errors",
    "Hit": "avow.retrieval.answer",
    "Model": "avow.assembly.model",
    "Opinion": "avow.core.opinion",
    "Policy": "avow.trust.policy",
    "Retriever": "avow.retrieval.search",
    "SearchResult": "avow.retrieval.answer",
    "audit_pairs": "avow.audit.pairs",
    "check": "avow.retrieval.checking",
    "evaluate": "avow.assembly.evaluate_split",
    "fit_policy": "avow.trust.fitting",
    "index": "avow.retrieval.indexing",
    "train": "avow.training.from_recipe",
}


def __getattr__(name: str) -> Any:
    if name == "trust":
        return importlib.import_module("avow.trust")
    if name == "open":  # not defined here, where it would hide Python's own
        return importlib.import_module("avow.retrieval.search").Retriever.open
    if name not in _HOMES:
        raise AttributeError(f"module 'avow' has no attribute {name!r}")
    from avow.core.errors import training_half

    with training_half(f"avow.{name}"):
        return getattr(importlib.import_module(_HOMES[name]), name)
