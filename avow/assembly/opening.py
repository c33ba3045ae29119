"""The checks of a saved model before anything is built: it may come from anybody.

read_about      avow.json has the parts and the types that `save_pretrained` writes
source_at_hand  weights from elsewhere are installed, cached, or allowed
building        a network takes no more memory than its weights justify
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from avow.assembly.model_files import pointed as pointed
from avow.assembly.model_files import read_json
from avow.blocks.pretrained import at_hand
from avow.core.bounded import Bounded, Undrawn
from avow.core.errors import AvowError, BadRecipe, WrongCheckpoint
from avow.core.folder import AllowCode, shortened

FORMAT = 1
LARGEST_SETTING = 10**6
"""Of whole numbers that are no sizes of weights, such as steps; sizes have a bound of their
own, which comes from the weights."""
_BESIDES = 2**22
"""Numbers that a network may need besides its weights: tables, masks, positions."""
_PARTS: dict[str, type] = {"recipe_name": str, "recipe": dict, "visual": dict, "history": dict}


def read_about(home: Path) -> dict[str, Any]:
    """avow.json of the model in `home`, with every part of the right type."""
    about = read_json(home / "avow.json")
    if about.get("format") != FORMAT:
        version = shortened(about.get("avow")).strip("'\"")
        raise WrongCheckpoint(
            f"{str(home)!r} has format {shortened(about.get('format'))}. Expected {FORMAT}; "
            f"open it with the Avow version that wrote it ({version})."
        )
    for key, kind in _PARTS.items():
        if not isinstance(about.get(key), kind):
            raise _wrong(home, f"{key!r} is {shortened(about.get(key))}", f"a {kind.__name__}")
    visual, history = about["visual"], about["history"]
    dim = visual.get("dim")
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 1:
        raise _wrong(home, f"visual.dim is {shortened(dim)}", "a whole number above 0")
    if not isinstance(visual.get("identity"), dict | None):
        raise _wrong(home, "visual.identity is no table", "that of a backbone, or null")
    learnt = history.get("learnt", [])
    if not isinstance(learnt, list) or not all(isinstance(one, str) for one in learnt):
        raise _wrong(home, "history.learnt is no list of names", "names of datasets")
    return about


def source_at_hand(source: str, allow_code: AllowCode) -> str:
    """Where weights lie that a saved model names, without a download."""
    if allow_code if isinstance(allow_code, bool) else source in allow_code:
        return source
    location = at_hand(source)
    if location is None:
        raise BadRecipe(
            f"The saved model takes weights from {shortened(source)}, which is neither "
            "installed nor in the local cache of the model hub. Expected one of these: a "
            "saved model starts no download and reads no other folder. If you trust whoever "
            "made it, allow that with --allow-code (allow_code=True in Python)."
        )
    return location


@contextmanager
def building(
    home: Path, method: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> Iterator[None]:
    """Refuse settings of a saved network that do not go with its weights.

    Its random weights are not drawn: the saved ones take their place.
    """
    numbers = sum(tensor.numel() for tensor in weights.values())
    for key, value in method.items():
        if isinstance(value, int) and abs(value) > max(numbers, LARGEST_SETTING):
            raise _wrong(
                home,
                f"method.{key} is {shortened(value)}",
                f"no more than its {numbers} weights can fill",
            )
    try:
        with Bounded(4 * numbers + _BESIDES), Undrawn():
            yield
    except AvowError:
        raise
    except Exception as error:  # whatever PyTorch makes of sizes that cannot be
        raise _wrong(
            home, f"its settings make no network ({error_line(error)})", "those of its weights"
        ) from error


def error_line(error: BaseException) -> str:
    """The message of an error of another library, in one short line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _wrong(home: Path, what: str, expected: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The model in {str(home)!r} cannot be opened: {what}. Expected {expected}; copy it "
        "again from where it was made, or train it anew."
    )
