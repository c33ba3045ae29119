"""What the options of published systems say: their hinge, and what has no place here."""

from collections.abc import Mapping
from typing import Any

from avow.core.errors import WrongCheckpoint

Options = Mapping[str, Any]


def hinge(options: Options, hardest: bool = True) -> dict[str, Any]:
    """The loss it was trained with; `hardest` holds where the options do not say."""
    return {
        "name": "hinge",
        "margin": float(options.get("margin", 0.2)),
        "hardest": bool(options.get("max_violation", hardest)),
        "warm_up": 0,
    }


def choice(options: Options, key: str, values: Mapping[str, Any]) -> Any:
    """The entry of `values` for the option `key`."""
    if options[key] not in values:
        raise WrongCheckpoint(
            f"The checkpoint was trained with {key} = {options[key]!r}. Expected one of: "
            f"{', '.join(values)}. Import a checkpoint trained with one of those."
        )
    return values[options[key]]


def require(options: Options, wanted: Mapping[str, Any], meaning: str = "") -> None:
    """Refuse options with another value than the `wanted` one."""
    for key, value in wanted.items():
        if options.get(key, value) != value:
            raise WrongCheckpoint(
                f"The checkpoint was trained with {key} = {options[key]!r}. Expected "
                f"{value!r}{meaning}. Import a checkpoint trained with that."
            )


def refuse_lengths(options: Options) -> None:
    """Refuse a model whose vectors are not unit vectors."""
    for key in ("no_imgnorm", "no_txtnorm", "use_abs"):
        if options.get(key):
            raise WrongCheckpoint(
                f"The checkpoint was trained with {key!r}. Expected vectors of length one, "
                "which cosines compare. Import a checkpoint trained without it."
            )
