"""Where Avow keeps what it makes when nobody says where, and where its own model lies."""

import os
import re
import sys
from pathlib import Path

import avow
from avow.core.errors import WrongCheckpoint, WrongIndex

DEFAULT = "default"
"""The name of the model that comes with Avow."""
CATALOGUE = "catalogue.sqlite"
"""The file that makes a folder an index."""


_ADDRESS = re.compile("([a-z]{2,20}):([A-Za-z0-9_]{1,60})")
_MEANT = re.compile(r"(?:postgres|milvus):[^/\\]*")


def avow_home() -> Path:
    """`$AVOW_HOME`, or this user's folder for the data of programs."""
    if chosen := os.environ.get("AVOW_HOME"):
        return Path(chosen).expanduser()
    return _data_folder() / "avow"


def index_folder(folder: Path | None = None) -> Path:
    """The folder of an index, or the usual one; refused where it holds none.

    Needs no import, so that a command can ask before it loads anything slow. The address of a
    shared store passes as it is.
    """
    place = folder or avow_home() / "index"
    if store_address(place) is not None:
        return place
    if not (place / CATALOGUE).is_file():
        raise WrongIndex(
            f"There is no index in {str(place)!r}. Expected a folder made by "
            "`avow index FOLDER`; run it first, or name another one with --index."
        )
    return place


def store_address(place: str | Path | None) -> tuple[str, str] | None:
    """Kind and name of a shared store ("postgres:archive"); None for a folder."""
    name = "" if place is None else str(place)
    match = _ADDRESS.fullmatch(name)
    if match is None and _MEANT.fullmatch(name) and not Path(name).is_dir():
        raise WrongIndex(
            f"A store cannot be called {name!r}. Expected letters, digits and _ after the "
            "colon, as in postgres:archive; a folder of that name is ./NAME."
        )
    return None if match is None or Path(match[0]).is_dir() else (match[1], match[2])


def packaged_folder() -> Path:
    """Where the model lies that comes with Avow."""
    folder = Path(avow.__file__).parent / "weights" / DEFAULT
    if not (folder / "avow.json").is_file():
        raise WrongCheckpoint(
            "This copy of Avow comes without its default model. Expected one in the folder "
            "'avow/weights/default'; install Avow from a release, or name a model with "
            "--model (a run's folder, 'clip', 'siglip2', a hub name)."
        )
    return folder


def _data_folder() -> Path:
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
