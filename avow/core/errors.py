"""Every error this package raises on purpose.

* AvowError
  x UnknownName     - no method, loss, backbone, dataset ... is called that
  x BadRecipe       - a recipe asks for something that cannot be built
    x CodeNotAllowed - a file names a Python module outside Avow, which was not allowed
  x BadData         - a dataset is missing a file, or its parts do not fit together
    x UnreadableVideo - a video that cannot be opened, decoded or cut
  x BadFeatures     - features are broken, of the wrong width, or of another backbone
  x WrongCheckpoint - the folder was made by another method, vocabulary or version
  x WrongTrust      - a trust was fitted for another model, gallery or kind of query
  x WrongIndex      - an index was made by another model, or another process writes to it
    x Unavailable   - an index cannot be used at this moment; the same request may work later
  x BadQuery        - a filter or a question that cannot be read
  x MissingExtra    - an optional package is needed and is not installed
  x CannotServe     - the server cannot listen where it was told to
  x NoRoom          - the disk is full; what was written before stays usable

The sentence of every error says what is wrong (with the value in quotes), what was
expected, and what to do. The command line prints it in one line without a traceback.
"""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

TRAIN = "train"
"""The extra that brings `TRAIN_PACKAGES`: what a search with the shipped model never needs."""
TRAIN_PACKAGES = frozenset({"torch", "transformers", "accelerate", "tokenizers"})


class AvowError(Exception):
    """Base class of every error that Avow raises on purpose: a mistake that you can correct.

    >>> try:
    ...     avow.open("no-such-index")
    ... except avow.AvowError as error:
    ...     print(str(error).partition(".")[0])
    There is no index in 'no-such-index'
    """


class UnknownName(AvowError):
    """No file of that name in the folder that was searched."""

    def __init__(self, folder: str, name: str, names: Sequence[str]):
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(names) or "none"
        super().__init__(f"There is no {name!r} in {folder}.{hint} There are: {listed}.")


class BadRecipe(AvowError):
    """The recipe names something real, but asks it for something it cannot do."""


class CodeNotAllowed(BadRecipe):
    """A file names a module outside Avow, and importing it would run its code."""

    def __init__(self, module: str):
        super().__init__(
            f"The module {module!r} is not part of Avow, and importing it would run its code. "
            "Expected a name of Avow's own. If you trust whoever made these files, allow it "
            "with --allow-code (allow_code=True in Python)."
        )


class BadData(AvowError):
    """A dataset cannot be read as what it claims to be."""


class UnreadableVideo(BadData):
    """A video that cannot be opened, decoded or cut.

    why: the cause alone, to stand in brackets or after a colon.
    """

    def __init__(self, message: str, why: str):
        super().__init__(message)
        self.why = why


class BadFeatures(AvowError):
    """Features do not fit the dataset, the recipe, or arithmetic."""


class WrongCheckpoint(AvowError):
    """A saved run is damaged, or belongs to something else."""


class WrongTrust(AvowError):
    """Probabilities were fitted for something else, and would be invented here."""


class WrongIndex(AvowError):
    """An index belongs to another model, is damaged, or is being written."""


class Unavailable(WrongIndex):
    """An index is being written, or its database server is away: try again."""


class BadQuery(AvowError):
    """A filter, a vector or a question that cannot be understood."""


class MissingExtra(AvowError):
    """A feature needs a package that a plain install does not bring."""

    def __init__(self, what: str, package: str, extra: str):
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'avow[{extra}]'."
        )


@contextmanager
def training_half(what: str) -> Iterator[None]:
    """Raise `MissingExtra` where `what` imports torch and the like, and they are not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAIN_PACKAGES:
            raise
        raise MissingExtra(what, package, TRAIN) from error


class NoDevice(AvowError):
    """A device was named that this machine does not have."""


class CannotServe(AvowError):
    """There is no address to listen on, or no way to keep it safe."""


class NoRoom(AvowError):
    """The disk is full."""
