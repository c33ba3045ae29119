"""Verify every checksum of a saved model, a run, an audit or a folder of features.

    verify(Path("runs/mine"))       [] where all is well, else one sentence per damaged file

Opening a folder verifies what it reads; this reads everything.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from avow.assembly.model_files import check_weights, pointed
from avow.core import checksums, seals
from avow.core.errors import AvowError
from avow.core.files import recover
from avow.data.features import MANIFEST, PLAN, FeatureStore

_ROWS_AT_ONCE = 256
_POINTERS = ("best", "last")
_MARKS = ("avow.json", "recipe.json", "audit.json", PLAN, MANIFEST, *_POINTERS)


def verify(folder: Path) -> list[str]:
    """What is damaged in a folder and the folders in it, in sentences.

    What earlier versions wrote without checksums is only opened, not verified.
    """
    recover(folder)
    if not any((folder / name).is_file() for name in _MARKS):
        return [
            f"There is no model, run, audit or features in {str(folder)!r}. Expected a folder "
            "that `avow train`, `avow audit`, `avow features` or `save_pretrained` wrote; "
            "check the path."
        ]
    sentences = list(_pointers(folder))
    for place in (folder, *sorted(path for path in folder.rglob("*") if path.is_dir())):
        if not place.name.startswith("."):
            sentences += [
                *_listed(place),
                *_documents(place),
                *_weights(place),
                *_features(place),
            ]
    return list(dict.fromkeys(sentences))


def _pointers(run: Path) -> Iterator[str]:
    for kind in _POINTERS:
        if (run / kind).is_file():
            try:
                home = pointed(run, kind)
            except AvowError as error:
                yield str(error)
                continue
            if home is not None and not home.is_dir():
                yield _sentence(home, "it is missing")


def _listed(folder: Path) -> Iterator[str]:
    try:
        names = list(seals.read_list(folder))
    except seals.Damaged as error:
        yield _sentence(folder / seals.LIST, error)
        return
    for name in names:
        try:
            if name.endswith(".json"):
                seals.read_document(folder / name)
            else:
                seals.check(folder / name)
        except (OSError, ValueError) as error:
            yield _sentence(folder / name, error)


def _documents(folder: Path) -> Iterator[str]:
    """Documents with a checksum of their own, and archives, which carry one too."""
    for path in sorted(folder.glob("*.json")):
        try:
            seals.read_document(path)
        except seals.Damaged as error:
            yield _sentence(path, error)
        except (OSError, ValueError) as error:
            if not path.name.endswith("-ids.json"):  # a list, which the manifest vouches for
                yield _sentence(path, error)
    for path in sorted(folder.glob("*.npz")):
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is not None:
                    yield _sentence(path, "its checksum does not fit its content")
        except Exception as error:  # a broken archive can fail at any point of the reading
            yield _sentence(path, error)
    yield from _audited(folder)


def _audited(folder: Path) -> Iterator[str]:
    try:
        written = seals.read_document(folder / "audit.json").get("checksums", {})
        for name, crc32 in written.items():
            if checksums.of_file(folder / name) != crc32:
                yield _sentence(folder / name, "its checksum does not fit its content")
    except FileNotFoundError as error:
        if (folder / "audit.json").is_file():
            yield _sentence(folder, error)
    except (OSError, ValueError, AttributeError):
        return  # named above


def _weights(folder: Path) -> Iterator[str]:
    if (folder / "weights.json").is_file() or (folder / "avow.json").is_file():
        try:
            check_weights(folder)
        except AvowError as error:
            yield str(error)


def _features(folder: Path) -> Iterator[str]:
    if not (folder / PLAN).is_file() and not (folder / MANIFEST).is_file():
        return
    try:
        store = FeatureStore.open(folder)
    except AvowError as error:
        yield str(error)
        return
    for name in store.names:
        rows = store.split(name)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            try:
                rows.rows(np.arange(start, min(start + _ROWS_AT_ONCE, len(rows))))
            except AvowError as error:
                yield str(error)


def _sentence(path: Path, what: object) -> str:
    return (
        f"The file {str(path)!r} is damaged ({what}). Expected the content that was saved; "
        "copy the folder again, or make it anew."
    )
