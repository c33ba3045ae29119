"""Open a source by what the user typed.

"photos"                      a folder
"s3://bucket/photos"          files at a URL
"s3://bucket/*.tar"           WebDataset, by the end of the name; "data/00000.parquet" likewise
"webdataset:s3://bucket/x"    the kind named first, where the name does not show it
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from avow.core import folder
from avow.retrieval import sources

if TYPE_CHECKING:
    from avow.retrieval.sharding.source import Source

_UNLIKE_A_FOLDER = re.compile(r"\w+:|.*\.\w+$", re.DOTALL)
"""Names that are looked at closely; others are folders without importing anything."""
_LAST = ("url", "folder")
"""Kinds that take what no other kind recognises."""


def open_source(name: str) -> "Source":
    kind, place = kind_of(name)
    return folder.build(sources, kind, name=place)


def kind_of(name: str) -> tuple[str, str]:
    """The kind of a source, and its name without the kind."""
    kinds = folder.names(sources)
    first, colon, rest = name.partition(":")
    if colon and first in kinds and not rest.startswith("//"):
        return first, rest
    ordered = (*(kind for kind in kinds if kind not in _LAST), *_LAST)
    return next(kind for kind in ordered if _recognises(kind, name)), name


def _recognises(kind: str, name: str) -> bool:
    module: Any = folder.find(sources, kind)
    return module.recognises(name)


def only_folders(names: Sequence[str | Path]) -> bool:
    """Whether all of these are folders or files of this machine, read as they are."""
    return all(
        not _UNLIKE_A_FOLDER.match(str(name)) or kind_of(str(name)) == ("folder", str(name))
        for name in names
    )
