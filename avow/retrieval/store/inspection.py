"""Everything that can be verified of an index: `avow check`, and what a rebuild must repair."""

import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from avow.core.errors import AvowError, WrongIndex
from avow.retrieval.store.catalogue import FILE, current_models, damage_told, open_catalogue
from avow.retrieval.store.indexed_folders import FILE as FOLDERS
from avow.retrieval.store.indexed_folders import covered
from avow.retrieval.store.items import damaged_items
from avow.retrieval.store.model_folder import BANK, Space
from avow.retrieval.store.row_blocks import damaged as damaged_rows
from avow.retrieval.store.row_checksums import intact, is_sealed, sums_agree
from avow.retrieval.store.schema import COLUMNS
from avow.retrieval.store.state import State, read_state
from avow.trust.policy import Policy

REBUILD = "avow index --rebuild FOLDERS"
AGAIN = "avow index FOLDERS"
CALIBRATE = "avow calibrate"
_SHOWN = 20


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong with an index, and the command that repairs it."""

    file: str
    what: str
    run: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect_index(index: Path) -> list[Damage]:
    """All damage of an index; none where it is intact."""
    if not (index / FILE).is_file() and not (index / "models").is_dir():
        open_catalogue(index)  # says that there is no index
    damage = [Damage(str(index / FILE), what, REBUILD) for what in catalogue_damage(index)]
    try:
        link = open_catalogue(index)
    except WrongIndex:
        return damage
    try:
        with damage_told(index):
            for model in current_models(link, index):
                damage += _of_model(link, Space(index, model), is_sealed(link), bool(damage))
            damage += _of_folders(link, index)
    except WrongIndex as error:
        if not damage:
            damage.append(Damage(str(index / FILE), str(error), REBUILD))
    finally:
        link.close()
    return damage


def catalogue_damage(index: Path) -> list[str]:
    """What is wrong with the catalogue; a file that this user may not open is refused."""
    try:
        link = open_catalogue(index)
    except WrongIndex as error:
        if _is_permission(error):
            raise
        return [str(error)]
    try:
        with damage_told(index):
            messages = [row[0] for row in link.execute(f"PRAGMA integrity_check({_SHOWN})")]
            damage = [f"SQLite finds: {message}" for message in messages if message != "ok"]
            if not damage:
                damage += _orphans(link)
                if is_sealed(link):
                    damage += _rows(link)
            return damage
    except WrongIndex as error:
        return [str(error)]
    finally:
        link.close()


def _rows(link: sqlite3.Connection) -> list[str]:
    """Rows whose checksums do not fit, and tables that have lost some."""
    damage = []
    for table in COLUMNS:
        wrong = f"SELECT count(*) FROM {table} NOT INDEXED WHERE NOT {intact(table)}"
        if count := link.execute(wrong).fetchone()[0]:
            damage.append(f"{count} damaged rows in the table {table!r}")
        elif not sums_agree(link, table):
            damage.append(f"rows are missing from the table {table!r}")
    wrong, present = damaged_items(link)
    if wrong:
        listed = ", ".join(map(str, wrong[:_SHOWN]))
        damage.append(f"the descriptions of {len(wrong)} items have changed: {listed}")
    if len(present) != link.execute("SELECT count(*) FROM items NOT INDEXED").fetchone()[0]:
        damage.append("items are there whose files are not")
    return damage


_ORPHANS = {
    "items without their file": (
        "SELECT count(*) FROM items WHERE NOT EXISTS (SELECT 1 FROM files WHERE id = file)"
    ),
    "tags without their item": (
        "SELECT count(*) FROM tags WHERE NOT EXISTS (SELECT 1 FROM items WHERE id = item)"
    ),
    "vectors without their item": (
        "SELECT count(*) FROM stored WHERE NOT EXISTS (SELECT 1 FROM items WHERE id = item)"
    ),
    "vectors without their model": (
        "SELECT count(*) FROM stored WHERE NOT EXISTS (SELECT 1 FROM generations "
        "WHERE generations.model = stored.model AND number = generation)"
    ),
}


def _orphans(link: sqlite3.Connection) -> list[str]:
    counts = {what: link.execute(query).fetchone()[0] for what, query in _ORPHANS.items()}
    return [f"{count} {what}" for what, count in counts.items() if count]


def _of_model(
    link: sqlite3.Connection, space: Space, sealed: bool, catalogue_is_damaged: bool
) -> list[Damage]:
    """Damage of what an index keeps for one model."""
    index = space.folder.parent.parent
    path = str(space.folder / "manifest.json")
    try:
        about = space.manifest(sealed=sealed)
    except WrongIndex as error:
        return [Damage(path, str(error), REBUILD)]
    damage = []
    if why := space.bank_damage(about):
        damage.append(Damage(str(space.folder / BANK), why, REBUILD))
    try:
        with damage_told(index):
            state = read_state(link, space, about, None)
    except AvowError as error:
        engine = "Faiss" in str(error)
        if not catalogue_is_damaged or engine:
            run = AGAIN if engine else REBUILD
            damage.append(Damage(str(space.folder), str(error), run))
    else:
        damage += _of_rows(state)
        state.searched.close()
    return damage + _of_trust(link, space, sealed)


def _of_rows(state: State) -> list[Damage]:
    damage = []
    for blocks in filter(None, (state.vectors, state.usual)):
        for block in blocks.damages():
            error = damaged_rows(blocks.rows, block)
            damage.append(Damage(str(blocks.rows.path), str(error), REBUILD))
    return damage


def _of_trust(link: sqlite3.Connection, space: Space, sealed: bool) -> list[Damage]:
    """Damage of the calibrations that were made for this index."""
    names = {path.name for path in space.folder.glob("trust-*.json")}
    if sealed:
        query = "SELECT name FROM attached WHERE model = ?"
        names |= {str(row[0]) for row in link.execute(query, [space.fingerprint])}
    damage = []
    for name in sorted(names):
        try:
            Policy.load(space.folder / name)
        except AvowError as error:
            damage.append(Damage(str(space.folder / name), str(error), CALIBRATE))
    return damage


def _of_folders(link: sqlite3.Connection, index: Path) -> list[Damage]:
    try:
        first_file = link.execute("SELECT 1 FROM files LIMIT 1").fetchone()
        covered(index, needed=is_sealed(link) and first_file is not None)
    except (WrongIndex, sqlite3.Error, UnicodeDecodeError) as error:
        return [Damage(str(index / FOLDERS), str(error), REBUILD)]
    return []


def _is_permission(error: WrongIndex) -> bool:
    """Whether a catalogue cannot be used because of who asks, and not of what it holds."""
    name = getattr(error.__cause__, "sqlite_errorname", "")
    return name.startswith(
        ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_BUSY", "SQLITE_LOCKED")
    )
