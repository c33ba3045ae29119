"""The model that comes with Avow, run by onnxruntime: no torch, no downloads.

FOLDER/encoder.json     fingerprint, dimensions, evidence, input size, checksums
FOLDER/visual.onnx      pixels and which grid cells to use, to vectors
FOLDER/text.onnx        token ids and where they are, to vectors
FOLDER/*.onnx.data      weights of the frozen networks, half precision and less
FOLDER/weights-*        trained weights, which both networks refer to
FOLDER/tokenizer.json   the tokeniser

`scripts/export_default` writes all but the last two from a trained run. Each network is loaded
when it is first needed: a search by text never loads the one for photographs.
"""

import json
import os
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from avow.core.checksums import of_file
from avow.core.documents import read_file
from avow.core.errors import MissingExtra, WrongCheckpoint
from avow.core.onnx import onnxruntime
from avow.core.photographs import stretched
from avow.core.places import DEFAULT
from avow.core.searching import Encoder
from avow.core.shapes import Bool, Float32, UInt8
from avow.core.tokeniser import padded, token_ids
from avow.retrieval.encoders import bank
from avow.retrieval.encoders.wordpiece import FILE, WordPieces

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

FORMAT = 1
DESCRIPTION, VISUAL, TEXT = "encoder.json", "visual.onnx", "text.onnx"
_PHOTOGRAPHS_AT_ONCE = 4  # more are no faster, and take more memory
_TOKENS_AT_ONCE = 1024


class OnnxEncoder(Encoder):
    """Both towers of an exported model."""

    english = True
    """Its text network and its captions are English: other words mean nothing to it."""

    def __init__(self, folder: Path, about: dict[str, Any], name: str, threads: int):
        self.home, self.name, self.threads = folder, name, threads
        self.fingerprint: str = about["fingerprint"]
        self.dim, self.views = int(about["dim"]), int(about["views"])
        self.tau, self.kind = float(about["tau"]), about["kind"]
        self.size, self.grid = int(about["size"]), int(about["grid"])
        self.longest = int(about["longest"])
        self._checksums: dict[str, str] = about["files"]
        self._lock = threading.Lock()
        self._sessions: dict[str, InferenceSession] = {}

    @classmethod
    def open(cls, folder: Path, name: str = DEFAULT, threads: int = 0) -> "OnnxEncoder":
        """threads: of one product; 0: one per core, or as OMP_NUM_THREADS says."""
        path = folder / DESCRIPTION
        try:
            about = json.loads(read_file(path))
            if about.get("format") != FORMAT:
                raise ValueError(f"format {about.get('format')!r}")
            return cls(folder, about, name, threads or _cores())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WrongCheckpoint(
                f"The description {str(path)!r} of the model cannot be read ({error}). "
                f"Expected format {FORMAT}, as `scripts/export_default` writes it; install "
                "Avow again."
            ) from error

    @cached_property
    def bank(self) -> tuple[str, ...]:  # type: ignore[override]  # read when first needed
        return bank.texts(self.home)

    def packed_bank(self) -> Float32[np.ndarray, "queries dim"] | None:
        return bank.packed(self, self.home)

    def quicken(self) -> None:
        """Load the text network now, and not while somebody waits."""
        self.encode_texts(["a"])

    def prepare(self, photograph: Image.Image) -> UInt8[np.ndarray, "size size 3"]:
        return stretched(photograph, self.size)

    def encode_prepared(
        self, pixels: UInt8[np.ndarray, "items size size 3"]
    ) -> Float32[np.ndarray, "items dim"]:
        everything = np.ones((1, self.grid**2), bool)
        parts = [
            self._visual(pixels[start : start + _PHOTOGRAPHS_AT_ONCE], everything)
            for start in range(0, len(pixels), _PHOTOGRAPHS_AT_ONCE)
        ]
        return np.concatenate([np.empty((0, self.dim), np.float32), *parts])

    def encode_cells(
        self, pixels: UInt8[np.ndarray, "size size 3"], present: Bool[np.ndarray, "ways cells"]
    ) -> Float32[np.ndarray, "ways dim"]:
        return self._visual(pixels[None], present)

    def encode_texts(self, texts: Sequence[str]) -> Float32[np.ndarray, "items dim"]:
        rows = token_ids(self._tokeniser, texts, self.longest)
        vectors = np.empty((len(rows), self.dim), np.float32)
        session = self._session(TEXT)
        for part in _of_similar_length([len(row) for row in rows]):
            ids, present = padded([rows[place] for place in part])
            output = session.run(None, {"ids": ids, "present": present})[0]
            vectors[part] = np.asarray(output)
        return vectors

    def _visual(
        self, pixels: np.ndarray, present: Bool[np.ndarray, "variants cells"]
    ) -> Float32[np.ndarray, "_ dim"]:
        inputs = {"pixels": np.ascontiguousarray(pixels), "present": present}
        return np.asarray(self._session(VISUAL).run(None, inputs)[0])

    @cached_property
    def _tokeniser(self) -> WordPieces:
        self._check(FILE)
        return WordPieces.open(self.home)

    def _session(self, file: str) -> "InferenceSession":
        with self._lock:
            if file not in self._sessions:
                for name in self._checksums:
                    if name.startswith((file, "weights-")):
                        self._check(name)
                self._sessions[file] = _opened(self.home / file, self.threads)
            return self._sessions[file]

    def _check(self, file: str) -> None:
        path = self.home / file
        if not path.is_file() or of_file(path) != self._checksums.get(file):
            state = "damaged" if path.is_file() else "missing"
            raise WrongCheckpoint(
                f"The file {str(path)!r} of the model is {state}. Expected the one that came "
                "with Avow; install Avow again."
            )


def _opened(path: Path, threads: int) -> "InferenceSession":
    try:
        library = onnxruntime()
    except ModuleNotFoundError as error:
        raise MissingExtra("The model 'default'", "onnxruntime", "onnx") from error
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # it would keep the most that was ever needed
    # a thread that waits must leave its core to those that decode photographs
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # the weights must lie beside the file itself, which may be linked to from elsewhere
    place = str(path.resolve())
    try:
        return library.InferenceSession(place, options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors share no base class
        raise WrongCheckpoint(
            f"The network {str(path)!r} cannot be loaded ({error}). Expected the one that "
            "came with Avow, and onnxruntime 1.20 or later; install both again."
        ) from error


def _of_similar_length(lengths: list[int]) -> list[np.ndarray]:
    """Places of texts to encode together: sorted by length, so that little is padding."""
    order = np.argsort(lengths, kind="stable")
    groups: list[list[int]] = []
    for place in order.tolist():
        # the longest so far is this one, and all are padded to it
        if groups and (len(groups[-1]) + 1) * lengths[place] <= _TOKENS_AT_ONCE:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [np.array(group) for group in groups]


def _cores() -> int:
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
