"""MS-COCO as its authors published it: official captions, train and dev only.

    annotations/captions_train2017.json    or in `root` itself; or of 2014
    annotations/captions_val2017.json
    train2017/  val2017/                   the photographs

The official validation set is `dev`. There is no `test`: the captions of the official
test photographs were never published. For the test split of the papers, use
`dataset_coco.json` (the reader `karpathy`).

Paper: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014.
"""

from collections.abc import Iterator
from pathlib import Path

from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.gather import Photograph, entry_of, paired, read_json

YEARS = (2017, 2014)
PARTS = {"train": "train", "dev": "val"}


def recognises(root: Path) -> bool:
    return any(_captions(root, year) for year in YEARS)


def build(*, root: str, year: int = 0, images: str = "") -> PairedDataset:
    """year: 2017 or 2014; 0 takes the newest there is. images: holds `train2017/` ..."""
    place = Path(root)
    years = [year] if year else [year for year in YEARS if _captions(place, year)]
    present = _captions(place, years[0]) if years else {}
    if not present:
        wanted = f"captions_train{year or YEARS[0]}.json"
        raise BadData(
            f"There is no '{wanted}' in '{place}' or its folder 'annotations'. Expected "
            "the official COCO captions. Download annotations_trainval and unpack it "
            "there."
        )
    photographs = (
        photograph
        for split, path in present.items()
        for photograph in _photographs(
            split, path, place / images / f"{PARTS[split]}{years[0]}"
        )
    )
    return paired(f"coco{years[0]}", place, photographs, splits=PARTS)


def _captions(root: Path, year: int) -> dict[str, Path]:
    """The caption file of each split that has one."""
    paths = {}
    for split, part in PARTS.items():
        for folder in (root / "annotations", root):
            path = folder / f"captions_{part}{year}.json"
            if split not in paths and path.is_file():
                paths[split] = path
    return paths


def _photographs(split: str, path: Path, folder: Path) -> Iterator[Photograph]:
    content = read_json(path)
    captions: dict[int, list[str]] = {}
    for position, entry in enumerate(entry_of(content, "annotations", list, path)):
        place = f"annotations[{position}]"
        image = entry_of(entry, "image_id", int, path, place)
        text = entry_of(entry, "caption", str, path, place)
        captions.setdefault(image, []).append(text.strip())
    images = entry_of(content, "images", list, path)
    if not images:
        raise BadData(
            f"The split {split!r} is empty in '{path}'. Expected the images of the "
            "split. Download the file again."
        )
    for position, entry in enumerate(images):
        place = f"images[{position}]"
        filename = entry_of(entry, "file_name", str, path, place)
        number = entry_of(entry, "id", int, path, place)
        texts = tuple(captions.get(number, ()))
        yield Photograph(filename, split, texts, folder / filename)
