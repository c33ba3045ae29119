"""Files of a saved model, verified without reading the weights into memory: needs no torch.

pointed         run/best and run/last name a folder of the run, and none elsewhere
check_weights   every weights file has the checksum that weights.json lists
check_parts     every other listed file is there and has its size
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from avow.assembly.weights_index import check_index
from avow.core import checksums, fingerprint, seals
from avow.core.datasets import PairedDataset
from avow.core.documents import read_file
from avow.core.errors import WrongCheckpoint
from avow.core.files import recover
from avow.core.folder import shortened

INDEX = "weights.json"
LONGEST_POINTER = 200


def pointed(run: Path, kind: str) -> Path | None:
    """The folder that the file `run`/`kind` names; None where there is no such file."""
    pointer = run / kind
    if not pointer.is_file():
        return None
    with pointer.open("rb") as stream:
        name = stream.read(LONGEST_POINTER).decode("utf-8", "replace").strip()
    place = run / name
    plain = name.startswith(f"{kind}-") and name.isprintable() and not set(name) & set("/\\:")
    if not plain or not place.resolve().is_relative_to(run.resolve()):
        raise WrongCheckpoint(
            f"The file {str(pointer)!r} names {shortened(name)}. Expected a folder of the run "
            f"itself, such as '{kind}-00001'; copy the run again or train it anew."
        )
    recover(place)
    return place


def learnt_from(history: Mapping[str, Any], dataset: PairedDataset) -> bool:
    """Whether a model of this history has learnt from `dataset`, as far as its name tells.

    The same pairs under another name are not recognised.
    """
    names = (history.get("dataset"), *history.get("learnt", ()))
    return dataset.name in names or history.get("data") == dataset.fingerprint


def check_weights(folder: Path) -> dict[str, Any]:
    """The index of weights in `folder`, every file of it verified; a damaged one is named."""
    index = read_json(folder / INDEX)
    check_index(index, folder / INDEX)
    for name, expected in index["files"].items():
        path = folder / name
        if not path.is_file() or fingerprint.of_file(path) != expected:
            state = "damaged" if path.is_file() else "missing"
            raise WrongCheckpoint(
                f"The weights file {str(path)!r} is {state}. Expected the content that was "
                "saved with the run; copy the run again or train it anew."
            )
    return index


def read_json(path: Path) -> dict:
    """A JSON object that belongs to a checkpoint, verified."""
    try:
        return seals.read_document(path)
    except seals.Damaged as error:
        raise damaged(path, error) from error
    except (OSError, ValueError) as error:
        raise WrongCheckpoint(
            f"The checkpoint file {str(path)!r} cannot be read ({error}). Expected a "
            "folder that `avow train` or `save_pretrained` wrote whole."
        ) from error


def check_parts(folder: Path) -> None:
    """Refuse a folder that lacks a listed file, has one of another size, or a wrong config.

    What else is in the files is verified by those who read them, as all weights are.
    """
    try:
        listed = seals.read_list(folder)
    except seals.Damaged as error:
        raise damaged(folder / seals.LIST, error) from error
    for name, entry in listed.items():
        if name.startswith("weights"):
            continue
        try:
            seals.check_size(folder / name, entry)
            if name == "config.json":  # transformers reads it
                seals.check(folder / name)
        except seals.Damaged as error:
            if not _sealed_itself(folder / name):
                raise damaged(folder / name, error) from error


def damaged(path: Path, error: seals.Damaged) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The file {str(path)!r} is damaged ({error}). Expected the content that was saved; "
        "copy the folder again, or make it anew. If you changed it on purpose, delete "
        f"{seals.LIST!r} beside it."
    )


def _sealed_itself(path: Path) -> bool:
    """Whether a listed document was written anew since, with a checksum of its own."""
    try:
        return checksums.KEY in json.loads(read_file(path))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
