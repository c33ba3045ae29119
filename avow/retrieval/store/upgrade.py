"""From an index without checksums (format 1) to one with them: rows, files and manifests.

It happens once, when `avow index` next runs. What is there then counts as intact.
"""

import sqlite3
from pathlib import Path

from avow.core.errors import WrongIndex
from avow.core.vector_forms import FORMS
from avow.retrieval.store.catalogue import seal_catalogue, transaction
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.row_blocks import note, of_whole_file
from avow.retrieval.store.row_checksums import is_sealed
from avow.retrieval.store.schema import FORMAT_2, statements


def upgrade(link: sqlite3.Connection, index: Path) -> None:
    """Add checksums to an index that has none; all of them or none."""
    if is_sealed(link):
        return
    models = [row[0] for row in link.execute("SELECT fingerprint FROM models").fetchall()]
    spaces = [Space(index, model) for model in models]
    for space in spaces:
        try:
            space.seal()
        except WrongIndex:
            pass  # reported when this model is opened
    with transaction(link):
        for statement in statements(FORMAT_2):
            link.execute(statement)
        for space in spaces:
            _seal_rows(link, space)
            _attach(link, space)
        seal_catalogue(link)


def _seal_rows(link: sqlite3.Connection, space: Space) -> None:
    """Checksums of a model's rows, where its files hold what the catalogue names."""
    model = space.fingerprint
    for number, count, half in link.execute(
        "SELECT number, rows, half FROM generations WHERE model = ?", [model]
    ).fetchall():
        try:
            about = space.manifest()
            form = space.form(FORMS[half], about)
            files = (space.vectors(number, form), space.usual(number, about))
            checksums = {
                rows.path.stem: of_whole_file(rows, count) for rows in files if rows is not None
            }
        except (WrongIndex, OSError):
            continue  # missing or too short: reported when they are needed
        for name, blocks in checksums.items():
            note(link, model, number, name, blocks)
        link.execute(
            "UPDATE generations SET sealed = 1 WHERE model = ? AND number = ?", [model, number]
        )


def _attach(link: sqlite3.Connection, space: Space) -> None:
    link.executemany(
        "INSERT OR IGNORE INTO attached VALUES (?, ?)",
        [(space.fingerprint, path.name) for path in space.folder.glob("trust-*.json")],
    )
