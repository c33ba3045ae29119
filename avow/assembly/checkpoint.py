"""Weights on disk: safetensors in files of at most 16 MB, and an index beside them.

    weights.json            which tensor lies where, and the sha256 of every file
    weights-00001.safetensors …

A tensor larger than a file is cut along its first axis. Nothing here unpickles anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from avow.core import fingerprint
from avow.core.errors import WrongCheckpoint

LARGEST_FILE = 16 * 2**20 - 2**16  # room for the header
INDEX = "weights.json"


def save_weights(state: Mapping[str, Tensor], folder: Path) -> None:
    """Write `state` into `folder`, an existing folder."""
    files: list[dict[str, Tensor]] = [{}]
    room = LARGEST_FILE
    pieces: dict[str, list[str]] = {}
    for name, tensor in state.items():
        for number, piece in enumerate(_cut(tensor.detach().cpu().contiguous())):
            size = piece.numel() * piece.element_size()
            if size > room and files[-1]:
                files.append({})
                room = LARGEST_FILE
            label = f"{name}#{number}"
            files[-1][label] = piece
            room -= size
            pieces.setdefault(name, []).append(label)
    index = {"tensors": pieces, "files": {}, "places": {}}
    for number, content in enumerate(files, start=1):
        name = f"weights-{number:05d}.safetensors"
        save_file(content, folder / name)
        index["files"][name] = fingerprint.of_file(folder / name)
        index["places"] |= dict.fromkeys(content, name)
    (folder / INDEX).write_text(json.dumps(index, indent=1))


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Read what `save_weights` wrote; a damaged file is named."""
    index = read_json(folder / INDEX)
    content: dict[str, Tensor] = {}
    for name, expected in index["files"].items():
        path = folder / name
        if not path.is_file() or fingerprint.of_file(path) != expected:
            state = "damaged" if path.is_file() else "missing"
            raise WrongCheckpoint(
                f"The weights file {str(path)!r} is {state}. Expected the content that was "
                "saved with the run; copy the run again or train it anew."
            )
        try:
            content |= load_file(path)
        except SafetensorError as error:
            raise WrongCheckpoint(
                f"The weights file {str(path)!r} cannot be read ({error}). Expected "
                "safetensors; copy the run again or train it anew."
            ) from error
    return {
        name: content[labels[0]]
        if len(labels) == 1
        else torch.cat([content[label] for label in labels])
        for name, labels in index["tensors"].items()
    }


def read_json(path: Path) -> dict:
    """A JSON object that belongs to a checkpoint."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WrongCheckpoint(
            f"The checkpoint file {str(path)!r} cannot be read ({error}). Expected a "
            "folder that `avow train` or `save_pretrained` wrote whole."
        ) from error


def _cut(tensor: Tensor) -> list[Tensor]:
    size = tensor.numel() * tensor.element_size()
    if size <= LARGEST_FILE or tensor.ndim == 0:
        return [tensor]
    rows = max(1, LARGEST_FILE // (size // len(tensor)))
    return [piece.contiguous() for piece in tensor.split(rows)]
