"""A recipe: what to build and how to train it, in about twenty lines of TOML.

    [data]      which dataset, and settings of its reader
    [features]  which backbone made the image features (absent: the dataset has them)
    [method]    name, and the keyword arguments of its `build`
    [loss]      name, and the keyword arguments of its `build`
    [train]     the fields of `Training` in `assembly/train_settings.py`
    [noise]     wrong pairs put into the training split (absent: none)

Every key is checked against what the named part really takes, so a typo stops in a
second with the list of real settings.

A recipe that the user typed may name modules outside Avow by dotted names. One that was read
from a saved model may not, unless the user allows its code.
"""

import copy
import dataclasses
import inspect
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from avow import losses, methods
from avow.assembly.train_settings import LATER, Training, check_training
from avow.core import folder
from avow.core.contracts import Loss, Method
from avow.core.errors import BadRecipe, UnknownName
from avow.core.folder import AllowCode, shortened

HOME = Path(__file__).parent.parent / "recipes"


LARGEST = 4096
"""Pixels or cells per side of the largest picture a recipe may ask for."""
_LARGEST_INTEGER = 2**63
"""Whole numbers of torch are smaller."""


@dataclass(frozen=True)
class Features:
    """Which features the recipe was written for."""

    backbone: str = "efficientnet_lite2"
    size: int = 256
    grid: int = 6
    settings: dict[str, Any] = field(default_factory=dict)
    """Further settings of the backbone, such as the name of a hub model."""

    @property
    def label(self) -> str:
        """The backbone's name, and what else tells its features apart."""
        return "-".join([self.backbone, *map(str, self.settings.values())])


@dataclass(frozen=True)
class Noisy:
    """Wrong pairs in the training split; `data/_noise.py` says what the words mean."""

    ratio: float = 0.0
    by: Literal["image", "caption"] = "image"
    kind: Literal["permutation", "derangement"] = "permutation"
    seed: int = 0
    """Its own: runs with several training seeds may share one noise."""
    file: str = ""
    """A published or saved index, instead of drawing one."""
    left_out: bool = field(default=False, metadata=LATER)
    """Train without the wrong pairs: what a judge who knew them all would make possible."""

    @property
    def is_none(self) -> bool:
        return not self.ratio and not self.file


@dataclass(frozen=True)
class Recipe:
    """A checked recipe; `build_*` turn its parts into objects."""

    name: str
    data: dict[str, Any]
    features: Features | None
    method: dict[str, Any]
    loss: dict[str, Any]
    train: Training
    noise: Noisy | None = None
    allow_code: AllowCode = field(default=False, compare=False, repr=False)
    """Which modules outside Avow its names may be; never saved."""

    @classmethod
    def open(cls, name: str, changes: Sequence[str] = (), loss: str | None = None) -> "Recipe":
        """The recipe called `name` (or a .toml file), with `part.key=value` changes.

        All of this is what the user typed, so dotted names are allowed.
        """
        path = Path(name) if name.endswith(".toml") else HOME / f"{name}.toml"
        if not path.is_file():
            raise UnknownName("recipes", name, names())
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadRecipe(
                f"The recipe {str(path)!r} is not valid TOML: {error}. Expected tables "
                "[data], [method], [loss] and [train]; mend the line named."
            ) from error
        if loss is not None:
            content["loss"] = {"name": loss}
        for change in changes:
            _apply(content, change)
        return cls.from_dict(name.removesuffix(".toml"), content, allow_code=True)

    @classmethod
    def from_dict(
        cls, name: str, content: dict[str, Any], *, allow_code: AllowCode = False
    ) -> "Recipe":
        """The recipe with this content; allow_code: whether dotted names are imported."""
        content = copy.deepcopy(content)
        known = ("data", "features", "method", "loss", "train", "noise")
        for key, value in content.items():
            if key not in known:
                raise BadRecipe(folder.unknown_setting("A recipe", key, known))
            if not isinstance(value, dict):
                raise BadRecipe(
                    f"'{key}' of the recipe is {shortened(value)}. Expected a table: write "
                    f"[{key}]."
                )
        for part in ("data", "method", "loss"):
            if not isinstance(content.get(part, {}).get("name"), str):
                raise BadRecipe(
                    f'The recipe {name!r} has no name in [{part}]. Expected name = "…" there.'
                )
        for key, value in content["loss"].items():
            if isinstance(value, int) and abs(value) >= _LARGEST_INTEGER:
                raise _too_large(f"loss.{key}", value)
        made = None
        if "features" in content:
            made = _fill(Features, "features", content["features"])
            if not isinstance(made.settings, dict):
                raise BadRecipe(
                    f"'features.settings' is {shortened(made.settings)}. Expected a table."
                )
        train = _fill(Training, "train", content.get("train", {}))
        noise = _fill(Noisy, "noise", content["noise"]) if "noise" in content else None
        parts = (content["data"], made, content["method"], content["loss"], train, noise)
        recipe = cls(name, *parts, allow_code=allow_code)
        recipe._check_settings()
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """The content of the TOML file; `from_dict` reads it back."""
        out: dict[str, Any] = {"data": self.data}
        if self.features is not None:
            out["features"] = dataclasses.asdict(self.features)
        out |= {"method": self.method, "loss": self.loss}
        out["train"] = _told(self.train)
        if self.noise is not None:
            out["noise"] = _told(self.noise)
        return out

    @property
    def outside(self) -> frozenset[str]:
        """What it names that may lie outside Avow: modules, and places of weights."""
        settings = self.features.settings if self.features else {}
        backbone = self.features.backbone if self.features else ""
        named = [self.method["name"], self.loss["name"], self.data.get("reader"), backbone]
        named += [self.method.get("text_source"), *settings.values()]
        return frozenset(name for name in named if isinstance(name, str) and name)

    def build_loss(self) -> Loss:
        return folder.make(
            losses, self.loss["name"], _without_name(self.loss), allow_code=self.allow_code
        )

    def loss_settings(self) -> dict[str, inspect.Parameter]:
        """What its loss can be told."""
        return folder.settings(losses, self.loss["name"], allow_code=self.allow_code)

    def method_settings(self) -> dict[str, inspect.Parameter]:
        """What its method can be told."""
        return folder.settings(methods, self.method["name"], allow_code=self.allow_code)

    @property
    def whole_method(self) -> dict[str, Any]:
        """The method with every setting, also those that the recipe leaves as they are."""
        usual = {
            name: parameter.default
            for name, parameter in self.method_settings().items()
            if parameter.default is not inspect.Parameter.empty
        }
        return usual | self.method

    def build_method(self, **sizes: Any) -> Method:
        """The method; `sizes` are what only the data knows (widths, vocabulary)."""
        settings = {**_without_name(self.method), **sizes}
        return folder.make(methods, self.method["name"], settings, allow_code=self.allow_code)

    def _check_settings(self) -> None:
        check_training(self.train, has_backbone=self.features is not None)
        for package, part in ((methods, self.method), (losses, self.loss)):
            settings = _without_name(part)
            folder.check(package, part["name"], settings, allow_code=self.allow_code)
        reader = self.data.get("reader")
        if reader is not None and not isinstance(reader, str):
            raise BadRecipe(
                f"data.reader is {shortened(reader)}. Expected the name of a reader."
            )
        if "allow_code" in self.data:
            raise BadRecipe(
                "data.allow_code is set. Expected no such setting: code is allowed on the "
                "command line, with --allow-code."
            )
        if self.features is not None:
            _check_features(self.features)


def _check_features(features: Features) -> None:
    for key, least, most in (("size", 0, LARGEST), ("grid", 1, LARGEST)):
        value = getattr(features, key)
        if not least <= value <= most:
            raise BadRecipe(
                f"features.{key} is {shortened(value)}. Expected {least} to {most}; change "
                f"features.{key}."
            )


def _without_name(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "name"}


def names() -> list[str]:
    """Every recipe that comes with the package, as `dataset/name`."""
    found = HOME.glob("*/*.toml")
    return sorted(str(path.relative_to(HOME).with_suffix("")) for path in found)


def source(name: str) -> str:
    """The text of a recipe, comments included."""
    return (HOME / f"{name}.toml").read_text(encoding="utf-8")


def header(name: str) -> str:
    """The comment at the top of a recipe: command, time, result."""
    head = []
    for line in source(name).splitlines():
        if not line.startswith("#"):
            break
        head.append(line.removeprefix("#").strip())
    return "\n".join(head)


def _told(part: Training | Noisy) -> dict[str, Any]:
    """All settings; a later one only where it does not stand at its default."""
    return {
        setting.name: getattr(part, setting.name)
        for setting in dataclasses.fields(part)
        if setting.metadata != LATER or getattr(part, setting.name) != setting.default
    }


def _fill(kind: type, part: str, values: dict[str, Any]) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise BadRecipe(folder.unknown_setting(f"[{part}]", key, list(fields)))
        folder.check_type(f"{part}.{key}", value, fields[key].type)
    values = {
        key: _as_float(f"{part}.{key}", value) if fields[key].type is float else value
        for key, value in values.items()
    }
    return kind(**values)


def _as_float(label: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _too_large(label, value) from None


def _too_large(label: str, value: int | float) -> BadRecipe:
    return BadRecipe(f"{label} is {shortened(value)}. Expected a smaller number.")


def _apply(content: dict[str, Any], change: str) -> None:
    """Write one `part.key=value` into the content; the value is TOML, or a bare word."""
    place, equals, text = change.partition("=")
    part, dot, key = place.strip().partition(".")
    if not (equals and dot and key):
        raise BadRecipe(
            f"The change {change!r} cannot be read. Expected part.key=value, such as "
            "loss.tau=0.1."
        )
    content.setdefault(part, {})[key] = _value(text)


def read_settings(changes: Sequence[str]) -> dict[str, Any]:
    """Settings of one part from `key=value` words."""
    out = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise BadRecipe(
                f"The setting {change!r} cannot be read. Expected key=value, such as "
                "images=photos."
            )
        out[key.strip()] = _value(text)
    return out


def _value(text: str) -> Any:
    """A TOML value; what is none is a plain word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
