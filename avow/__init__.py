"""Avow: visual-textual retrieval that tells you when to trust it.

    avow.open("my-index").search("two dogs on a beach").hits[0].path

    model = avow.Model.from_pretrained("runs/flickr8k-vse_infty_tcl")
    model.similarity(["dog.jpg"], ["a dog runs on a beach"])
    model.opinion(["dog.jpg"], ["a dog runs on a beach", "a plate of food"])

Importing the package imports nothing heavy; the names below load when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from avow.assembly.model import Model
    from avow.core.errors import AvowError
    from avow.core.opinion import Opinion
    from avow.retrieval.answer import SearchResult
    from avow.retrieval.search import Retriever

    open = Retriever.open

__version__ = "0.1.0"
__all__ = [
    "AvowError",
    "Model",
    "Opinion",
    "Retriever",
    "SearchResult",
    "__version__",
    "open",
]

_HOMES = {
    "AvowError": "avow.core.errors",
    "Model": "avow.assembly.model",
    "Opinion": "avow.core.opinion",
    "Retriever": "avow.retrieval.search",
    "SearchResult": "avow.retrieval.answer",
}


def __getattr__(name: str) -> Any:
    if name == "trust":
        return importlib.import_module("avow.trust")
    if name == "open":  # not defined here, where it would hide Python's own
        return importlib.import_module("avow.retrieval.search").Retriever.open
    if name not in _HOMES:
        raise AttributeError(f"module 'avow' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
