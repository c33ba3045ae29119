"""Where Avow keeps what it makes when nobody says where, and where its own model lies."""

import os
import sys
from pathlib import Path

import avow
from avow.core.errors import WrongCheckpoint

DEFAULT = "default"
"""The name of the model that comes with Avow."""


def avow_home() -> Path:
    """`$AVOW_HOME`, or this user's folder for the data of programs."""
    if chosen := os.environ.get("AVOW_HOME"):
        return Path(chosen).expanduser()
    return _data_folder() / "avow"


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
