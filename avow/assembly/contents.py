"""The table of contents: every part a recipe can name, read from the parts themselves."""

import inspect
from types import ModuleType
from typing import Any

from avow import backbones, losses, methods
from avow.core import folder
from avow.data import readers


def contents() -> dict[str, list[dict[str, Any]]]:
    """Per folder: each name, its first docstring line, its paper and its settings."""
    packages = (methods, losses, backbones, readers)
    return {
        package.__name__.rpartition(".")[2]: [
            _entry(package, name) for name in folder.names(package)
        ]
        for package in packages
    }


def _entry(package: ModuleType, name: str) -> dict[str, Any]:
    text = inspect.getdoc(folder.find(package, name)) or ""
    paper = text.partition("Paper:")[2].partition("\n\n")[0]
    return {
        "name": name,
        "summary": text.partition("\n")[0],
        "paper": " ".join(paper.split()),
        "settings": {
            key: None if parameter.default is parameter.empty else parameter.default
            for key, parameter in folder.settings(package, name).items()
        },
    }
