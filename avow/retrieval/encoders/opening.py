"""Open an encoder by name; torch is imported only for those that need it.

"default"                the model that comes with Avow
a folder                 a run of `avow train`, what `save_pretrained` wrote, or a
                         two-tower model saved by transformers
"siglip2", "clip"        short for the usual models of that name
a dotted name            a Python module with a `build` function that gives an Encoder
anything else            a name on the model hub
"""

import os
from typing import Any

from avow.core.errors import CodeNotAllowed, WrongIndex, training_half
from avow.core.folder import is_module, shortened
from avow.core.places import DEFAULT, packaged_folder
from avow.core.searching import Encoder
from avow.retrieval.encoders.lazy import outside
from avow.retrieval.encoders.onnx import DESCRIPTION, OnnxEncoder


def open_encoder(
    name: str = DEFAULT, device: str = "cpu", *, threads: int = 0, allow_code: bool = False
) -> Encoder:
    """The encoder called `name`, as listed at the head of this file.

    For names that the user typed: a module is imported, a name on the hub is downloaded.
    threads: of one product; 0: one per core. allow_code: as for `Model.from_pretrained`,
    where the model is a saved one.
    """
    if name == DEFAULT and device == "cpu":
        folder = packaged_folder()
        if (folder / DESCRIPTION).is_file():
            return OnnxEncoder.open(folder, name, threads)
    elif is_module(name) and not _is_folder(name):
        return outside(name)
    with training_half(f"The model {shortened(name)} on {device!r}"):
        from avow.retrieval.encoders import run
    run.use_threads(threads)
    return run.open_with_torch(name, device, allow_code=allow_code)


def open_recorded(
    name: Any, device: str = "cpu", *, threads: int = 0, allow_code: bool = False
) -> Encoder:
    """The encoder that an index names; nothing is imported or downloaded for it.

    It is the default model, a folder, or a model in the local cache of the hub. allow_code:
    open it as if the user had typed its name.
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        raise WrongIndex(
            f"The index names its model {shortened(name)}. Expected a name; give the model "
            "with --model, or make the index anew with `avow index --rebuild`."
        )
    if allow_code or name == DEFAULT:
        return open_encoder(name, device, threads=threads, allow_code=allow_code)
    if name.startswith(("//", "\\\\")):  # on Windows a folder of another machine
        raise _not_here(name)
    if _is_folder(name):
        return open_encoder(name, device, threads=threads)
    with training_half(f"The model {shortened(name)}"):
        from avow.retrieval.encoders import run
    run.use_threads(threads)
    cached = run.open_cached(name, device)
    if cached is not None:
        return cached
    if is_module(name):
        raise CodeNotAllowed(name)
    raise _not_here(name)


def _is_folder(name: str) -> bool:
    """Whether there is one; pathlib raises for a name that is too long."""
    return os.path.isdir(os.path.expanduser(name))


def _not_here(name: str) -> WrongIndex:
    return WrongIndex(
        f"The index was made with the model {shortened(name)}, which is not on this machine. "
        "Expected its folder, or a model in the local cache of the model hub: an index starts "
        "no download. If you know the model, name it yourself with --model."
    )
