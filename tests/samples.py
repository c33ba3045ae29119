"""Small made-up inputs that several test files share."""

import os
from collections.abc import Callable
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from avow.assembly.model import Model
from avow.core import folder
from avow.core.contracts import Backbone, Regions, Tokens
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.opening import open_dataset

SIZES = {"visual_dim": 12, "vocabulary": 30, "dim": 8, "word_dim": 6}
SMALLER = {
    "ce": {"dim": 32, "text_dim": 16, "clusters": 4},
    "dive": {"heads": 2, "head_dim": 8},
    "dual_encoding": {
        "visual_hidden": 16,
        "text_hidden": 16,
        "visual_maps": 8,
        "text_maps": 8,
        "dropout_head": 0.0,
    },
    "gsmn": {"dim": 64, "smooth": 4.0},
    "saf": {"similarity_dim": 32, "dropout_word": 0.0, "dropout_head": 0.0},
    "sgr": {"similarity_dim": 32, "dropout_word": 0.0, "dropout_head": 0.0},
    "vsrn": {"caption_dim": 16, "caption_word_dim": 8},
}
"""Settings with which a method learns the small recipe in a minute."""
ANIMALS = """
[data]
name = "animals"
[method]
name = "vsepp"
dim = 8
word_dim = 6
[loss]
name = "tcl"
agreement_steps = 1
[train]
epochs = 2
batch = 24
lr = 0.005
precision = "fp32"
"""
"""A recipe that a folder of `write_precomp` called animals is learnt by in seconds."""


def examples(short: int, long: int) -> settings:
    """So many examples of a property, and so many in the long form."""
    return settings(
        deadline=None, max_examples=long if os.environ.get("AVOW_LONG_TESTS") else short
    )


@cache
def opened_once(name: str) -> PairedDataset:
    """A dataset of AVOW_DATA; a large one takes seconds to open, and nobody changes it."""
    try:
        return open_dataset(name)
    except BadData:
        pytest.skip(f"there is no {name} in the data home; set AVOW_DATA")


@cache
def default_backbone() -> Backbone:
    """That of the model which comes with Avow; the whole model takes a second to open."""
    return Model.from_pretrained("default").backbone


def refusal(action: Callable[[], object], kind: type[Exception] = BadData) -> str:
    """The words with which something is refused, as an error of this very kind."""
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)


def confidences(
    seed: int, count: int, levels: int = 0, power: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Confidences and whether each came true; few levels give many ties.

    power: above 1 they promise too much.
    """
    rng = np.random.default_rng(seed)
    stated = rng.random(count)
    if levels:
        stated = np.round(stated * levels) / levels
    return stated, rng.random(count) < stated**power


def typed_with_defaults(package: ModuleType, name: str) -> bool:
    """Whether every setting of a part of this folder has a type and a default."""
    return all(
        parameter.annotation is not parameter.empty and parameter.default is not parameter.empty
        for parameter in folder.settings(package, name).values()
    )


def image_processor(family: str) -> Any:
    """The class that prepares pixels by Pillow; transformers renamed it in its version 5."""
    import transformers as t

    name = f"{family}ImageProcessor"
    return getattr(t, f"{name}Pil", None) or getattr(t, name)


def regions(counts: list[int], parts: int = 5, dim: int = 12, seed: int = 0) -> Regions:
    """Random regions, of which the first `counts` of each image are present."""
    draw = torch.Generator().manual_seed(seed)
    present = torch.arange(parts)[None] < torch.tensor(counts)[:, None]
    boxes = torch.rand(len(counts), parts, 4, generator=draw)
    return Regions(torch.randn(len(counts), parts, dim, generator=draw), present, boxes)


def tokens(counts: list[int], parts: int = 7, words: int = 30, seed: int = 1) -> Tokens:
    """Random captions of the given lengths, padded with 0."""
    draw = torch.Generator().manual_seed(seed)
    present = torch.arange(parts)[None] < torch.tensor(counts)[:, None]
    ids = torch.randint(1, words, (len(counts), parts), generator=draw)
    return Tokens(ids * present, present)


def write_precomp(root: Path, images: int = 48, dim: int = 12, parts: int = 4) -> Path:
    """A `*_precomp` folder that can be learnt: each image is a colour and an animal."""
    colours, animals = "red blue green white".split(), "dog cat horse bird fish fox".split()
    rng = np.random.default_rng(0)
    kinds = rng.standard_normal((len(colours) * len(animals), dim)).astype(np.float32)
    root.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", images), ("dev", 24), ("test", 24)):
        kind = np.arange(count) % len(kinds)
        noise = rng.standard_normal((count, parts, dim)).astype(np.float32)
        np.save(root / f"{split}_ims.npy", kinds[kind][:, None] + 0.2 * noise)
        corners = rng.random((count, parts, 2, 2)).astype(np.float32)
        np.save(root / f"{split}_boxes.npy", np.sort(corners, 2).reshape(count, parts, 4))
        frames = (
            "a {} {} runs",
            "the {} {}",
            "one {} {} outside",
            "{} {}",
            "see a {} {} .",
        )
        lines = [
            frame.format(colours[k // len(animals)], animals[k % len(animals)])
            for k in kind
            for frame in frames
        ]
        (root / f"{split}_caps.txt").write_text("\n".join(lines) + "\n")
    return root


def small_recipe(data: Path, method: str = "vsepp", **train: Any) -> dict[str, Any]:
    """A recipe that trains in a second on what `write_precomp` wrote.

    By the quickest method, unless a test is about what another one has.
    """
    settings = {"epochs": 3, "batch": 24, "lr": 0.005, "precision": "fp32", **train}
    return {
        "data": {"name": str(data)},
        "method": {"name": method, "dim": 16, "word_dim": 8},
        "loss": {"name": "tcl", "agreement_steps": 1},
        "train": settings,
    }


def load_script(path: Path) -> ModuleType:
    """A script without the ending of a module, as one."""
    loader = SourceFileLoader(path.name, str(path))
    spec = spec_from_loader(path.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
