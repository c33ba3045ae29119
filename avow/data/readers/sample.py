"""The sample: eighteen captioned photographs that come with two installed packages.

The photographs are files inside the wheels of scikit-image and scikit-learn, so nothing
is downloaded; the five captions of each are our own. `train` has the first four
captions of every photograph, `dev` and `test` both have the fifth.

This is a smoke set. The photographs of all splits are the same and `dev` is `test`, so
a recall measured on it shows that the parts fit together and nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadData, MissingExtra

CAPTIONS = Path(__file__).with_name("sample_captions.json")
WHEELS = {"skimage": "scikit-image", "sklearn": "scikit-learn"}
TAUGHT = 4  # captions of a photograph that training sees; the rest is held back


def recognises(root: Path) -> bool:
    """Never: the sample is no folder of the user's, it is asked for by name."""
    return False


def build() -> PairedDataset:
    captions: dict[str, list[str]] = json.loads(CAPTIONS.read_text("utf-8"))
    files = {name: _photograph(name) for name in captions}
    train = {name: five[:TAUGHT] for name, five in captions.items()}
    held_back = {name: five[TAUGHT:] for name, five in captions.items()}
    return PairedDataset(
        "sample",
        {
            "train": _split(files, train),
            "dev": _split(files, held_back),
            "test": _split(files, held_back),
        },
    )


def _split(files: Mapping[str, Path], captions: Mapping[str, Sequence[str]]) -> Split:
    counts = [len(some) for some in captions.values()]
    return Split(
        image_ids=tuple(Path(name).stem for name in captions),
        captions=tuple(text for some in captions.values() for text in some),
        image_of=np.repeat(np.arange(len(captions)), counts),
        files=tuple(files[name] for name in captions),
    )


def _photograph(name: str) -> Path:
    """The file called `name` inside an installed wheel, which is not imported."""
    package, _, rest = name.partition("/")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("The sample", WHEELS[package], "sample")
    path = Path(spec.submodule_search_locations[0], rest)
    if not path.is_file():
        raise BadData(
            f"The installed {WHEELS[package]!r} has no photograph {rest!r}, which the "
            "sample needs. Install it anew with: pip install --force-reinstall "
            f"{WHEELS[package]}."
        )
    return path
