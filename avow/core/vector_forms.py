"""How an index keeps vectors: 32 or 16 bits a number, bytes, or the bytes of fewer numbers.

    float32, float16    the numbers as they are
    int8                all of them, turned by a fixed rotation, one byte each
    int8x256            the directions in which queries differ most, 256 for each view

A rotation spreads what a vector holds evenly over its numbers, so that one step width serves
them all. Whatever is stored is turned back when it is read: similarities are those of the
vectors as they are kept, in the space that the model made.
"""

from abc import ABC, abstractmethod

import numpy as np

from avow.core.errors import BadData
from avow.core.shapes import Float32, Int8, Num

FORMS = ("float32", "float16", "int8", "int8x256")
"""In the order of their numbers in a catalogue."""
KEPT = 256
"""Numbers that int8x256 keeps for each view."""
_STEPS = 127
_WIDEST = 6
"""Standard deviations of a turned number that a byte reaches; what lies beyond is cut."""
_SEED = 20_240_229


class VectorForm(ABC):
    """From vectors to the rows that are kept, and back."""

    name: str
    dtype: str
    width: int
    """Numbers in a row."""

    @abstractmethod
    def encode(self, vectors: Float32[np.ndarray, "items dim"]) -> Num[np.ndarray, "items _"]:
        """The rows that are kept of some vectors."""

    @abstractmethod
    def decode(self, rows: Num[np.ndarray, "items _"]) -> Float32[np.ndarray, "items dim"]:
        """The vectors that rows stand for."""


class Plain(VectorForm):
    """The numbers as they are, in 32 or 16 bits."""

    def __init__(self, dim: int, half: bool = False):
        self.dtype = self.name = "float16" if half else "float32"
        self.width = dim

    def encode(self, vectors: Float32[np.ndarray, "items dim"]) -> Num[np.ndarray, "items _"]:
        return np.asarray(vectors, self.dtype)

    def decode(self, rows: Num[np.ndarray, "items _"]) -> Float32[np.ndarray, "items dim"]:
        return np.asarray(rows, np.float32)


class Bytes(VectorForm):
    """Turned vectors in equal steps; a dot product of rows is one of vectors, but for them."""

    dtype = "int8"
    step: float

    @abstractmethod
    def turn(self, vectors: Float32[np.ndarray, "items dim"]) -> Float32[np.ndarray, "items _"]:
        """Vectors, or queries, in the directions that are kept."""

    @abstractmethod
    def turn_back(
        self, turned: Float32[np.ndarray, "items _"]
    ) -> Float32[np.ndarray, "items dim"]: ...

    def encode(self, vectors: Float32[np.ndarray, "items dim"]) -> Int8[np.ndarray, "items _"]:
        return _rounded(self.turn(np.asarray(vectors, np.float32)) / np.float32(self.step))

    def decode(self, rows: Num[np.ndarray, "items _"]) -> Float32[np.ndarray, "items dim"]:
        return self.turn_back(np.asarray(rows, np.float32) * np.float32(self.step))


class TurnedBytes(Bytes):
    """int8: a rotation that needs no table, so that any vectors can be kept this way."""

    name = "int8"

    def __init__(self, dim: int):
        self.width, self.step = dim, _step(dim)
        self._signs = _signs(dim)

    def turn(self, vectors: Float32[np.ndarray, "items dim"]) -> Float32[np.ndarray, "items _"]:
        return _spread(vectors, self._signs)

    def turn_back(
        self, turned: Float32[np.ndarray, "items _"]
    ) -> Float32[np.ndarray, "items dim"]:
        from scipy.fft import idct  # an index of plain numbers does without

        return np.asarray(idct(turned, norm="ortho")) * self._signs


class CutBytes(Bytes):
    """int8x256: the directions of a projection that was fitted once."""

    name = "int8x256"

    def __init__(self, projection: Float32[np.ndarray, "kept dim"]):
        self.projection = np.ascontiguousarray(projection, np.float32)
        self.width, self.step = len(projection), _step(len(projection))

    def turn(self, vectors: Float32[np.ndarray, "items dim"]) -> Float32[np.ndarray, "items _"]:
        return vectors @ self.projection.T

    def turn_back(
        self, turned: Float32[np.ndarray, "items _"]
    ) -> Float32[np.ndarray, "items dim"]:
        return turned @ self.projection


def rounded_queries(
    turned: Float32[np.ndarray, "queries _"],
) -> Int8[np.ndarray, "queries _"]:
    """Each query in 127 steps of its own: enough to find the rows worth a second look."""
    largest = np.abs(turned).max(1, keepdims=True)
    return _rounded(turned * (_STEPS / np.maximum(largest, 1e-30)))


def fit_projection(
    queries: Float32[np.ndarray, "queries dim"], views: int
) -> Float32[np.ndarray, "kept dim"]:
    """The directions that hold most of some queries, turned to be of one size.

    A similarity is the sum over directions of query times item: where queries have nothing,
    an item's number changes no similarity.
    """
    spread = queries.T.astype(np.float64) @ queries / max(1, len(queries))
    kept = min(KEPT * views, len(spread))
    directions = np.linalg.eigh(spread)[1][:, ::-1][:, :kept].astype(np.float32)
    return np.ascontiguousarray(_spread(directions, _signs(kept)).T)


def check_form(name: str) -> None:
    if name not in FORMS:
        raise BadData(f"The vectors {name!r} are not known. Expected {', '.join(FORMS)}.")


class Decoded:
    """Rows that are turned back into vectors when they are asked for."""

    def __init__(self, rows: Num[np.ndarray, "rows _"], form: VectorForm, dim: int):
        self._rows, self._form, self.shape = rows, form, (len(rows), dim)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, some: slice | np.ndarray) -> Float32[np.ndarray, "some dim"]:
        return self._form.decode(self._rows[some])


def _spread(vectors: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """A cosine transform of numbers with random signs: a rotation, nearly as good as any."""
    from scipy.fft import dct

    return np.asarray(dct(vectors * signs, norm="ortho"))


def _signs(width: int) -> Float32[np.ndarray, " width"]:
    bits = np.random.Generator(np.random.PCG64(_SEED)).integers(0, 2, width)
    return (2 * bits - 1).astype(np.float32)


def _step(width: int) -> float:
    """Of the numbers of a unit vector, each about the root of their number small."""
    return _WIDEST / (_STEPS * width**0.5)


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -_STEPS, _STEPS).astype(np.int8)
