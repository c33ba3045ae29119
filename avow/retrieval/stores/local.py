"""An index in a folder of this machine, SQLite and files: the usual store.

One process writes at a time, any number read. Its parts are in `retrieval/store`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from avow.core.folder import AllowCode
from avow.core.places import avow_home
from avow.core.searching import Encoder
from avow.retrieval.library import Library
from avow.retrieval.store.report import Report
from avow.retrieval.store_contract import Store


class Local(Store):
    """A folder; an empty name is the usual one under AVOW_HOME."""

    def __init__(self, name: str):
        self.folder = Path(name) if name else avow_home() / "index"

    @property
    def address(self) -> str:
        return str(self.folder)

    def library(
        self, encoder: Encoder | None = None, *, allow_code: AllowCode = False
    ) -> Library:
        return Library.open(self.folder, encoder, allow_code=allow_code)

    def index(self, folders: Sequence[str | Path], encoder: Encoder, **options: Any) -> Report:
        from avow.retrieval.indexing import index_folders  # a search does without

        return index_folders(folders, index=self.folder, encoder=encoder, **options)


def build(*, name: str = "") -> Local:
    """name: the folder; default: the one under AVOW_HOME."""
    return Local(name)
