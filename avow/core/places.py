"""Where Avow keeps what it makes when nobody says where."""

import os
import sys
from pathlib import Path


def avow_home() -> Path:
    """`$AVOW_HOME`, or this user's folder for the data of programs."""
    if chosen := os.environ.get("AVOW_HOME"):
        return Path(chosen).expanduser()
    return _data_folder() / "avow"


def _data_folder() -> Path:
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
