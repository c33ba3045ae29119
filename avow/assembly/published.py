"""A published checkpoint to a model of ours: read, translate, fit, keep.

    published file --read--> states and options --translate--> our names --fit--> views

Translators are the files of `importing/`. Whatever they give is checked name by name and
shape by shape before a network is built, so a file cannot ask for more memory than it has
weights to fill.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from avow.assembly import importing
from avow.assembly.model import Model
from avow.assembly.published_checkpoint import Published, read_checkpoint
from avow.assembly.recipe import Recipe
from avow.assembly.translated import Translated
from avow.blocks.pretrained import text_files
from avow.core import fingerprint, folder
from avow.core.contracts import Method, Tokeniser
from avow.core.errors import AvowError, WrongCheckpoint
from avow.data.vocabulary import Vocabulary
from avow.data.wordpiece import WordPieces

BERT = "bert-base-uncased"  # the only one that the published systems use
_TRAINING = {
    "learning_rate": "lr",
    "num_epochs": "epochs",
    "lr_update": "decay_after",
    "batch_size": "batch",
    "grad_clip": "clip",
}
_NAMED = 5  # tensors that a sentence names before it counts the others


@dataclass(frozen=True)
class Imported:
    """Networks with published weights, and the recipe that rebuilds them."""

    recipe: Recipe
    views: list[Method]
    visual_dim: int


def import_checkpoint(system: str, file: Path, vocabulary: Path | None = None) -> Model:
    """The model in a checkpoint `file` that the published `system` saved."""
    published = read_checkpoint(file)
    translated = translate(system, published)
    if translated.method.get("text") == "bert":
        source = str(vocabulary or BERT)
        translated = replace(translated, method={**translated.method, "text_source": source})
        tokeniser: Tokeniser = WordPieces.open(text_files(source))
    else:
        tokeniser = _words(file, translated, published.options, vocabulary)
    fitted = fit(system, translated, published.options, tokeniser.size)
    history = {
        "imported": {
            "system": system,
            "file": file.name,
            "fingerprint": fingerprint.of_file(file),
            "options": _plain(published.options),
        }
    }
    visual = {"dim": fitted.visual_dim, "parts": None, "identity": None}
    return Model(fitted.recipe, fitted.views, tokeniser, visual, history)


def translate(system: str, published: Published) -> Translated:
    """What a checkpoint holds, in our names."""
    translator: Any = folder.find(importing, system)
    try:
        return translator.translate(published.models, published.options)
    except AvowError:
        raise
    except KeyError as error:
        raise _foreign(system, f"it has no {str(error.args[0])!r}") from error
    except (IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _foreign(system, f"its parts do not fit together ({error})") from error


def fit(
    system: str, translated: Translated, options: dict[str, Any], words: int | None = None
) -> Imported:
    """Networks that hold the translated weights.

    words: how many words the tokeniser knows; where the checkpoint knows one less, that
    is the word which hides others in training, and its weights start at zero.
    """
    settings = dict(translated.method)
    visual_dim = settings.pop("visual_dim", options.get("img_dim"))
    rows = settings.pop("vocabulary", options.get("vocab_size"))
    if not isinstance(visual_dim, int):
        raise _foreign(system, "it does not say how wide the image features are")
    recipe = Recipe.from_dict(
        f"imported/{system}",
        {
            "data": {"name": str(options.get("data_name") or "unknown")},
            "method": settings,
            "loss": translated.loss,
            "train": _training(options),
        },
    )
    sizes = {"visual_dim": visual_dim, "vocabulary": words or rows, "pretrained": False}
    views = _filled(system, recipe, sizes, translated.views, rows)
    return Imported(recipe, views, visual_dim)


def _filled(
    system: str,
    recipe: Recipe,
    sizes: dict[str, Any],
    states: list[dict[str, Tensor]],
    rows: int | None,
) -> list[Method]:
    if recipe.build_loss().views != len(states):
        raise _foreign(system, f"it has {len(states)} networks")
    accepted = recipe.method_settings()
    sizes = {key: value for key, value in sizes.items() if key in accepted}
    try:
        with torch.device("meta"):  # shapes alone, which take no memory
            wanted = recipe.build_method(**sizes).state_dict()
    except (RuntimeError, ValueError, OverflowError) as error:
        raise _foreign(system, f"its sizes make no network ({error})") from error
    states = [_grown(state, wanted, rows) for state in states]
    for state in states:
        _check(system, state, wanted)
    views = [recipe.build_method(**sizes) for _ in states]
    for view, state in zip(views, states, strict=True):
        view.load_state_dict(state)
    return [view.eval() for view in views]


def _check(system: str, state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse a state that is not, name by name and shape by shape, what is wanted."""
    unknown = [name for name in state if name not in wanted]
    missing = [name for name in wanted if name not in state]
    if unknown:
        raise _foreign(system, f"its tensors {_listed(unknown)} are unknown here")
    if missing:
        raise _foreign(system, f"it has nothing for {_listed(missing)}")
    for name, tensor in wanted.items():
        if state[name].shape != tensor.shape:
            raise _foreign(
                system,
                f"{name!r} has the shape {tuple(state[name].shape)} where its options ask "
                f"for {tuple(tensor.shape)}",
            )


def _grown(
    state: Mapping[str, Tensor], wanted: Mapping[str, Tensor], rows: int | None
) -> dict[str, Tensor]:
    """The same with a row of zeros below every table that lacks the last word alone."""
    out = dict(state)
    for name, tensor in state.items():
        short = (rows, *tensor.shape[1:]) == tensor.shape and name in wanted
        if short and wanted[name].shape == (len(tensor) + 1, *tensor.shape[1:]):
            out[name] = torch.cat([tensor, tensor.new_zeros((1, *tensor.shape[1:]))])
    return out


def _words(
    file: Path, translated: Translated, options: dict[str, Any], vocabulary: Path | None
) -> Vocabulary:
    rows = translated.method.get("vocabulary", options.get("vocab_size"))
    path = vocabulary or _beside(file, str(options.get("data_name")))
    if path is None:
        raise WrongCheckpoint(
            f"There is no vocabulary beside {str(file)!r}, which knows {rows} words. "
            "Expected the JSON that was published with it; name it with --vocabulary."
        )
    words = Vocabulary.open(path)
    if rows not in (words.size, words.size - 1):
        raise WrongCheckpoint(
            f"The vocabulary {str(path)!r} has {words.size} words, the one that hides "
            f"others among them, and the checkpoint knows {rows}. Expected the vocabulary "
            "it was trained with; name that with --vocabulary."
        )
    return words


def _beside(file: Path, data: str) -> Path | None:
    """The vocabulary under its published name, in the checkpoint's folder or in `vocab`."""
    name = f"{Path(data).name}_vocab.json"
    places = (file.parent / name, file.parent / "vocab" / name)
    return next((place for place in places if place.is_file()), None)


def _training(options: Mapping[str, Any]) -> dict[str, Any]:
    """How it was trained, as far as its options say."""
    whole = ("epochs", "decay_after", "batch")
    settings: dict[str, Any] = {}
    for theirs, ours in _TRAINING.items():
        value = options.get(theirs)
        if isinstance(value, int | float) and not isinstance(value, bool):
            settings[ours] = int(value) if ours in whole else float(value)
    return settings


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that JSON can hold as they are."""
    return {
        key: value
        for key, value in options.items()
        if value is None or isinstance(value, bool | int | float | str)
    }


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMED])
    more = len(names) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _foreign(system: str, why: str) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"The checkpoint cannot be read as one of {system!r}: {why}. Expected what that "
        "system saves. Check which system it comes from."
    )
