"""Weights on disk: safetensors in files of at most 16 MB, and an index beside them.

    weights.json            which tensor lies where, and the sha256 of every file
    weights-00001.safetensors …
    checksums.json          size and checksum of every file of the folder

A tensor larger than a file is cut along its first axis. Nothing here unpickles anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from avow.assembly.model_files import INDEX, check_weights
from avow.assembly.model_files import check_parts as check_parts
from avow.assembly.model_files import damaged as damaged
from avow.assembly.model_files import read_json as read_json
from avow.assembly.weights_index import check_pieces
from avow.core import fingerprint
from avow.core.errors import WrongCheckpoint

LARGEST_FILE = 16 * 2**20 - 2**16  # room for the header


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
    """Read what `save_weights` wrote."""
    index = check_weights(folder)
    content: dict[str, Tensor] = {}
    for name in index["files"]:
        path = folder / name
        try:
            content |= load_file(path)
        except SafetensorError as error:
            raise WrongCheckpoint(
                f"The weights file {str(path)!r} cannot be read ({error}). Expected "
                "safetensors; copy the run again or train it anew."
            ) from error
    check_pieces(index, content, folder / INDEX)
    try:
        return {
            name: content[labels[0]]
            if len(labels) == 1
            else torch.cat([content[label] for label in labels])
            for name, labels in index["tensors"].items()
        }
    except (RuntimeError, TypeError) as error:
        raise WrongCheckpoint(
            f"The pieces of a tensor in {str(folder)!r} do not fit together ({error}). "
            "Expected those that were saved with the run; copy it again or train it anew."
        ) from error


def _cut(tensor: Tensor) -> list[Tensor]:
    size = tensor.numel() * tensor.element_size()
    if size <= LARGEST_FILE or tensor.ndim == 0:
        return [tensor]
    rows = max(1, LARGEST_FILE // (size // len(tensor)))
    return [piece.contiguous() for piece in tensor.split(rows)]
