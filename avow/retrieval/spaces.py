"""A model's place in an index: its manifest, its rows, and what is usual for its items.

models/<fingerprint>/manifest.json     which model, and how its vectors are kept
models/<fingerprint>/bank.npy          its reference queries, encoded
models/<fingerprint>/vectors.<n>       generation n of the rows
"""

import json
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32

from avow.core.background import Background
from avow.core.errors import WrongIndex
from avow.core.files import room_needed, write_text
from avow.core.searching import Encoder
from avow.retrieval import bank
from avow.retrieval.rows import Rows

TOP = 8
"""How many of the bank's best scores are kept: trust asks for the eighth."""
_NUMBERS = 3 + TOP


class Space:
    """One model's folder inside an index."""

    def __init__(self, index: Path, fingerprint: str):
        self.folder = index / "models" / fingerprint
        self.fingerprint = fingerprint

    def manifest(self) -> dict[str, Any]:
        path = self.folder / "manifest.json"
        try:
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise WrongIndex(
                f"The manifest {str(path)!r} cannot be read ({error}). Expected one that "
                "`avow index` wrote; make the index anew with `avow index --rebuild`."
            ) from error

    def make(self, encoder: Encoder) -> dict[str, Any]:
        """Write the manifest, and encode the bank where the model has one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if encoder.bank:
            with room_needed(self.folder):
                np.save(self.folder / "bank.npy", bank.encoded(encoder))
        about = {
            "model": encoder.name,
            "fingerprint": encoder.fingerprint,
            "dim": encoder.dim,
            "views": encoder.views,
            "tau": encoder.tau,
            "kind": encoder.kind,
            "bank": len(encoder.bank),
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        write_text(self.folder / "manifest.json", json.dumps(about, indent=1))
        return about

    def engine(self, name: str) -> Path:
        """An engine outlives generations: the same items have the same vectors."""
        return self.engines / name

    @property
    def engines(self) -> Path:
        return self.folder / "engines"

    @cached_property
    def bank(self) -> Float32[np.ndarray, "queries dim"]:
        return np.load(self.folder / "bank.npy")

    def vectors(self, generation: int, about: dict[str, Any], half: bool) -> Rows:
        dtype = "float16" if half else "float32"
        return Rows(self.folder / f"vectors.{generation}", about["dim"], dtype)

    def usual(self, generation: int, about: dict[str, Any]) -> Rows | None:
        if not about["bank"]:
            return None
        return Rows(self.folder / f"usual.{generation}", about["views"] * _NUMBERS)

    def remove(self, generation: int) -> None:
        """Forget a generation; a reader that still maps it keeps it until it lets go."""
        for name in ("vectors", "usual"):
            try:
                (self.folder / f"{name}.{generation}").unlink(missing_ok=True)
            except OSError:  # Windows keeps a mapped file; the next writer tries again
                pass

    def remove_others(self, kept: set[int]) -> None:
        """Forget every generation that the catalogue does not name."""
        for path in self.folder.glob("vectors.*"):
            number = path.suffix[1:]
            if number.isdigit() and int(number) not in kept:
                self.remove(int(number))

    def usual_rows(
        self, vectors: Float32[np.ndarray, "items dim"], about: dict[str, Any]
    ) -> Float32[np.ndarray, "items numbers"]:
        """What the bank makes of new items: one row of numbers for each."""
        bank = torch.from_numpy(self.bank)
        views = about["views"]
        items = torch.from_numpy(vectors).reshape(len(vectors), views, -1)
        asked = bank.reshape(len(bank), views, -1)
        scores = torch.einsum("bvd,nvd->vbn", asked, items) * views
        found = Background.from_scores([scores], about["tau"], TOP)
        top = torch.full((views, len(vectors), TOP), -torch.inf)
        top[..., : found.top.shape[-1]] = found.top
        numbers = [found.log_mean, found.mean, found.spread]
        return torch.cat([torch.stack(numbers, -1), top], -1).transpose(0, 1).flatten(1).numpy()

    def background(
        self, rows: Float32[np.ndarray, "items numbers"], about: dict[str, Any]
    ) -> Background:
        """The same numbers as trust reads them."""
        views = about["views"]
        parts = torch.from_numpy(np.array(rows)).reshape(len(rows), views, _NUMBERS)
        parts = parts.transpose(0, 1)
        kept = min(TOP, about["bank"])
        return Background(
            about["bank"],
            about["tau"],
            parts[..., 0],
            parts[..., 1],
            parts[..., 2],
            parts[..., 3 : 3 + kept],
        )
