"""Karpathy splits: one JSON per dataset, as most papers of the field use them.

    dataset_flickr30k.json   {"dataset", "images": [{"filename", "filepath", "split",
    dataset_coco.json                                "sentences": [{"raw"}]}]}
    images/                  the photographs, in their `filepath` where they have one

`restval` (COCO's validation images that nobody validates on) joins `train`, and `val`
is `dev`, as in every paper that uses the file.

Paper: Karpathy, Fei-Fei, "Deep Visual-Semantic Alignments", CVPR 2015.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.gather import (
    Photograph,
    entry_of,
    paired,
    read_json,
    split_called,
)

SPLITS = {"train": "train", "restval": "train", "val": "dev", "test": "test"}


def recognises(root: Path) -> bool:
    return bool(_listings(root))


def build(*, root: str, images: str = "images") -> PairedDataset:
    """images: folder of the photographs, beside the JSON unless it is absolute."""
    path = _listing(Path(root))
    content = read_json(path)
    listed = entry_of(content, "images", list, path)
    name = content.get("dataset", path.stem.removeprefix("dataset_"))
    photographs = _photographs(listed, path, path.parent / images)
    return paired(str(name), path, photographs, splits=("train", "dev", "test"))


def _listings(root: Path) -> list[Path]:
    if root.is_file():
        matches = root.name.startswith("dataset") and root.suffix == ".json"
        return [root] if matches else []
    saved = ("dataset_info.json", "dataset_dict.json")  # of Hugging Face `datasets`
    return sorted(path for path in root.glob("dataset*.json") if path.name not in saved)


def _listing(root: Path) -> Path:
    listings = [root] if root.is_file() else _listings(root)
    if not listings:
        raise BadData(
            f"There is no 'dataset*.json' in '{root}'. Expected a file such as "
            "dataset_flickr30k.json. Download it there."
        )
    if len(listings) > 1:
        listed = ", ".join(path.name for path in listings)
        raise BadData(
            f"There are {len(listings)} datasets in '{root}': {listed}. Expected one. "
            "Give the path of the file instead of its folder."
        )
    return listings[0]


def _photographs(listed: list, path: Path, folder: Path) -> Iterator[Photograph]:
    for position, entry in enumerate(listed):
        place = f"images[{position}]"
        filename = entry_of(entry, "filename", str, path, place)
        image = str(PurePosixPath(entry.get("filepath") or "", filename))
        named = entry_of(entry, "split", str, path, place)
        yield Photograph(
            image_id=image,
            split=split_called(named, SPLITS, image, path),
            captions=tuple(_sentences(entry, path, place)),
            file=folder / image,
        )


def _sentences(entry: dict, path: Path, place: str) -> Iterator[str]:
    sentences = entry_of(entry, "sentences", list, path, place)
    for position, sentence in enumerate(sentences):
        within = f"{place}.sentences[{position}]"
        yield entry_of(sentence, "raw", str, path, within).strip()
