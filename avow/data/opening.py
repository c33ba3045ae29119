"""Open a dataset by its path or its name, whatever its layout."""

import os
from pathlib import Path
from typing import Any

from avow.core import folder
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.core.folder import AllowCode
from avow.data import readers

HOME = "AVOW_DATA"


def open_dataset(
    name: str, reader: str | None = None, *, allow_code: AllowCode = False, **settings: Any
) -> PairedDataset:
    """The dataset at the path `name`, or called that in the data home, or built in.

    The layout is recognised from the files unless `reader` says which it is; the
    settings are those of the reader's `build`. allow_code: whether the reader may be a
    module outside Avow.
    """
    root = _located(name)
    if root is not None:
        chosen = reader or _recognised(root)
        settings["root"] = str(root)
        return folder.make(readers, chosen, settings, allow_code=allow_code)
    built_in = reader or name
    if built_in in _without_root():
        return folder.make(readers, built_in, settings)
    raise _unknown(name)


def dataset_file(name: str, file: str) -> Path:
    """Where `file` lies, or should lie, in the folder of the dataset `name`."""
    root = _located(name)
    if root is None:
        raise _unknown(name)
    return (root if root.is_dir() else root.parent) / file


def data_home() -> Path | None:
    """Where datasets are looked for by name: $AVOW_DATA, or `shared/data` beside us."""
    chosen = os.environ.get(HOME)
    if chosen:
        home = Path(chosen).expanduser()
        if not home.is_dir():
            raise BadData(
                f"{HOME} is {chosen!r}, which is not a folder. Expected the folder that "
                f"holds your datasets. Create it or change {HOME}."
            )
        return home
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return beside if beside.is_dir() else None


def _located(name: str) -> Path | None:
    home = data_home()
    places = [Path(name).expanduser(), *([home / name] if home else [])]
    return next((place for place in places if name and place.exists()), None)


def _recognised(root: Path) -> str:
    """The one reader that knows this layout."""
    candidates = [
        reader for reader in folder.names(readers) if "root" in folder.settings(readers, reader)
    ]
    matching = [
        reader for reader in candidates if folder.find(readers, reader).recognises(root)
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise BadData(
            f"The dataset at '{root}' can be read as {' or '.join(matching)}. Expected one "
            "layout. Say which with `reader`."
        )
    raise BadData(
        f"The layout of the dataset at '{root}' is not recognised. Expected one of: "
        f"{', '.join(candidates)}. Check the path, or say which with `reader`."
    )


def _without_root() -> list[str]:
    return [
        reader
        for reader in folder.names(readers)
        if "root" not in folder.settings(readers, reader)
    ]


def _unknown(name: str) -> BadData:
    home = data_home()
    if home is None:
        return BadData(
            f"There is no dataset {name!r}. Expected a path, or a name and a folder to "
            f"find it in. Set {HOME} to the folder that holds your datasets."
        )
    listed = ", ".join(sorted(place.name for place in home.iterdir())) or "nothing"
    return BadData(
        f"There is no dataset {name!r}. Expected a path, or one of those in '{home}': "
        f"{listed}. Check the spelling, or set {HOME} to another folder."
    )
