"""A model's place in an index: its manifest, its rows, and what is usual for its items.

models/<fingerprint>/manifest.json     which model, and how its vectors are kept
models/<fingerprint>/bank.npy          its reference queries, encoded
models/<fingerprint>/projection.npy    the directions that vectors cut short are kept in
models/<fingerprint>/vectors.<n>       generation n of the rows
"""

import json
import math
import time
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from avow.core import checksums
from avow.core.background import Background
from avow.core.documents import read_file
from avow.core.errors import WrongIndex
from avow.core.evidence import EvidenceKind
from avow.core.files import make_folder, room_needed, save_array, write_text
from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.core.vector_forms import CutBytes, Plain, TurnedBytes, VectorForm
from avow.retrieval.encoders import bank, projections
from avow.retrieval.store.rows import Rows

TOP = 8
"""How many of the bank's best scores are kept: trust asks for the eighth."""
_NUMBERS = 3 + TOP
BANK = "bank.npy"
PROJECTION = "projection.npy"
_LARGEST = 2**20
"""Of the numbers in a manifest; larger ones are damage."""


class Space:
    """One model's folder inside an index."""

    def __init__(self, index: Path, fingerprint: str):
        inside = Path(fingerprint).name == fingerprint and fingerprint not in ("", "..")
        if not inside or "\0" in fingerprint:
            raise WrongIndex(
                f"The catalogue of {str(index)!r} names a model {fingerprint!r}. Expected a "
                "name without separators; make the index anew from its folders."
            )
        self.folder = index / "models" / fingerprint
        self.fingerprint = fingerprint

    def manifest(self, *, sealed: bool = False) -> dict[str, Any]:
        """sealed: whether it must have a checksum, as the catalogue has them."""
        path = self.folder / "manifest.json"
        try:
            about = json.loads(read_file(path))
            if not isinstance(about, dict):
                raise ValueError(f"it is a {type(about).__name__}")
            fits = checksums.intact(about)
            if fits is False or (fits is None and sealed):
                raise ValueError("its checksum does not fit")
            _check_manifest(about, self.fingerprint)
            return {key: value for key, value in about.items() if key != checksums.KEY}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise WrongIndex(
                f"The manifest {str(path)!r} cannot be read ({error}). Expected one that "
                "`avow index` wrote; make the index anew with `avow index --rebuild`."
            ) from error

    def make(self, encoder: Encoder) -> None:
        """Write the manifest, and encode the bank where the model has one."""
        make_folder(self.folder)
        about = describe(encoder)
        if encoder.bank:
            about["bank_checksum"] = self._write_bank(bank.encoded(encoder))
        about["made"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._write(about)

    def mend(self, encoder: Encoder) -> None:
        """Write manifest and bank again, unless both are as they should be."""
        try:
            about = self.manifest(sealed=True)
            if {**about, **describe(encoder)} == about and not self.bank_damage(about):
                return
        except WrongIndex:
            pass
        kept = self._kept_projection()
        self.make(encoder)
        if kept:
            self._write(self.manifest() | {"projection_checksum": kept})

    def _kept_projection(self) -> str | None:
        """The checksum of the projection that rows may have been written with."""
        try:
            return self.manifest().get("projection_checksum")
        except WrongIndex:
            return None

    def seal(self) -> None:
        """Add checksums to a manifest that was written without them."""
        about = self.manifest()
        if about["bank"] and "bank_checksum" not in about:
            try:
                about["bank_checksum"] = checksums.of_file(self.folder / BANK)
            except OSError:
                about["bank_checksum"] = ""  # missing: reported when it is needed
        self._write(about)

    def _write(self, about: dict[str, Any]) -> None:
        sealed = checksums.sealed(about)
        write_text(self.folder / "manifest.json", json.dumps(sealed, indent=1))

    def _write_bank(self, vectors: Float32[np.ndarray, "queries dim"]) -> str:
        """Replace the bank, on the disk when this returns; its checksum."""
        with room_needed(self.folder):
            save_array(self.folder / BANK, vectors)
        return checksums.of_file(self.folder / BANK)

    def bank_damage(self, about: dict[str, Any]) -> str | None:
        """What is wrong with the encoded bank; None where nothing is."""
        if not about["bank"]:
            return None
        try:
            checksum = checksums.of_file(self.folder / BANK)
        except OSError as error:
            return str(error)
        if checksum != about.get("bank_checksum", checksum):
            return "its checksum does not fit"
        return None

    def engine(self, name: str) -> Path:
        """An engine outlives generations: the same items have the same vectors."""
        return self.engines / name

    @property
    def engines(self) -> Path:
        return self.folder / "engines"

    @cached_property
    def bank(self) -> Float32[np.ndarray, "queries dim"]:
        about = self.manifest()
        shape, damage = (about["bank"], about["dim"]), self.bank_damage(about)
        return _numbers("reference queries", self.folder / BANK, shape, damage, "avow index")

    def vectors(self, generation: int, form: VectorForm) -> Rows:
        return Rows(self.folder / f"vectors.{generation}", form.width, form.dtype)

    def form(self, name: str, about: dict[str, Any]) -> VectorForm:
        """How the vectors of a generation are kept."""
        if name == "int8x256":
            return CutBytes(self._projection(about))
        if name == "int8":
            return TurnedBytes(about["dim"])
        return Plain(about["dim"], half=name == "float16")

    def keep_projection(self, encoder: Encoder) -> None:
        """Fit the projection of vectors that are cut short, unless there is one."""
        about = self.manifest()
        try:
            self._projection(about)
        except WrongIndex:
            projection = projections.fitted(encoder)
            with room_needed(self.folder):
                save_array(self.folder / PROJECTION, projection)
            checksum = checksums.of_file(self.folder / PROJECTION)
            self._write(about | {"projection_checksum": checksum})

    def _projection(self, about: dict[str, Any]) -> Float32[np.ndarray, "kept dim"]:
        path, damage = self.folder / PROJECTION, None
        try:
            if checksums.of_file(path) != about.get("projection_checksum"):
                damage = "its checksum does not fit"
        except OSError as error:
            damage = str(error)
        wrote = "avow index --vectors int8x256"
        return _numbers("projection", path, (None, about["dim"]), damage, wrote)

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

    def remove_others(self, keep: set[int]) -> None:
        """Forget every generation that the catalogue does not name."""
        for path in self.folder.glob("vectors.*"):
            number = path.suffix[1:]
            if number.isdigit() and int(number) not in keep:
                self.remove(int(number))

    def usual_rows(
        self, vectors: Float32[np.ndarray, "items dim"], about: dict[str, Any]
    ) -> Float32[np.ndarray, "items numbers"]:
        """What the bank makes of new items: one row of numbers for each."""
        views = about["views"]
        items = vectors.reshape(len(vectors), views, -1).swapaxes(0, 1)
        asked = self.bank.reshape(len(self.bank), views, -1).swapaxes(0, 1)
        scores = np.matmul(asked, items.swapaxes(1, 2)) * np.float32(views)
        background = Background.from_scores([scores], about["tau"], TOP)
        rows = np.full((len(vectors), views, _NUMBERS), -np.inf, np.float32)
        for place, numbers in enumerate(
            (background.log_mean, background.mean, background.spread)
        ):
            rows[..., place] = numbers.T
        rows[..., 3 : 3 + background.top.shape[-1]] = background.top.swapaxes(0, 1)
        return rows.reshape(len(vectors), -1)

    def background(
        self, rows: Float32[np.ndarray, "items numbers"], about: dict[str, Any]
    ) -> Background:
        """The same numbers as trust reads them."""
        views = about["views"]
        parts = rows.reshape(len(rows), views, _NUMBERS).swapaxes(0, 1)
        top = min(TOP, about["bank"])
        return Background(
            about["bank"],
            about["tau"],
            parts[..., 0],
            parts[..., 1],
            parts[..., 2],
            parts[..., 3 : 3 + top],
        )


def describe(encoder: Encoder) -> dict[str, Any]:
    """What a manifest says of a model."""
    return {
        "model": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dim": encoder.dim,
        "views": encoder.views,
        "tau": encoder.tau,
        "kind": encoder.kind,
        "bank": len(encoder.bank),
    }


def _check_manifest(about: dict[str, Any], fingerprint: str) -> None:
    """Refuse what no encoder can have written."""
    for name, least in (("dim", 1), ("views", 1), ("bank", 0)):
        value = about[name]
        if type(value) is not int or not least <= value <= _LARGEST:
            raise ValueError(f"{name!r} is {value!r}")
    tau = about["tau"]
    if type(tau) not in (int, float) or not math.isfinite(tau) or tau <= 0:
        raise ValueError(f"'tau' is {tau!r}")
    for name in ("model", "made"):
        if not isinstance(about[name], str):
            raise ValueError(f"{name!r} is {about[name]!r}")
    if about["kind"] not in get_args(EvidenceKind):
        raise ValueError(f"'kind' is {about['kind']!r}")
    if about["dim"] % about["views"]:
        raise ValueError(f"{about['dim']} numbers cannot be shared by {about['views']} views")
    if about["fingerprint"] != fingerprint:
        raise ValueError(f"it is of the model {about['fingerprint']!r}")


def _numbers(
    what: str, path: Path, shape: tuple[int | None, int], damage: str | None, wrote: str
) -> Float32[np.ndarray, "rows dim"]:
    """An array of a model's folder; None in its shape is any length."""
    try:
        if damage:
            raise ValueError(damage)
        array = np.load(path, allow_pickle=False)
        rows = array.shape[:1] if shape[0] is None else shape[:1]
        if array.shape != (*rows, shape[1]) or array.dtype != np.float32:
            raise ValueError(f"it holds {array.dtype} {array.shape}")
        return array
    except (OSError, ValueError, EOFError) as error:
        raise WrongIndex(
            f"The {what} {str(path)!r} cannot be read ({error}). Expected what `{wrote}` "
            "wrote; make the index anew with `avow index --rebuild`."
        ) from error
