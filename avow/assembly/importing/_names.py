"""Published names of weights in ours, where only their beginnings differ."""

from collections.abc import Mapping

from torch import Tensor

from avow.core.errors import WrongCheckpoint

State = Mapping[str, Tensor]


def renamed(
    state: State, names: Mapping[str, str], side: str, unused: tuple[str, ...] = ()
) -> dict[str, Tensor]:
    """Known beginnings exchanged; what is unknown is refused under its own name."""
    out = {}
    for name, tensor in state.items():
        if name.startswith(unused):
            continue
        old = next((key for key in names if name.startswith(key)), None)
        if old is None:
            raise WrongCheckpoint(
                f"The checkpoint has {name!r} in its {side}. Expected names that begin "
                f"with one of: {', '.join(names)}. Import a checkpoint of this system."
            )
        out[names[old] + name.removeprefix(old)] = tensor
    return out


def two_way(prefix: str, state: State) -> dict[str, Tensor]:
    """The two directions of the GRU under `prefix` as the two modules they are here."""
    out = {}
    for name, tensor in state.items():
        if name.startswith(prefix):
            way = "back." if name.endswith("_reverse") else "ahead."
            name = prefix + way + name.removeprefix(prefix).removesuffix("_reverse")
        out[name] = tensor
    return out
