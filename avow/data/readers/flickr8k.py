"""Flickr8k as its authors published it.

    Flickr8k.token.txt               name.jpg#0<TAB>caption, five per image
    Flickr_8k.trainImages.txt        one image name per line; devImages, testImages
    Flicker8k_Dataset/               the photographs (their spelling)

The token file also captions `2258277193_586949ec62.jpg.1`, a photograph that is in no
split; whatever no split lists is left out.

Paper: Hodosh, Young, Hockenmaier, "Framing Image Description as a Ranking Task", JAIR
2013.
"""

from collections.abc import Iterator
from pathlib import Path

from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.data.gather import Photograph, paired, read_lines

CAPTIONS = "Flickr8k.token.txt"
LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "dev": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}
FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images")


def recognises(root: Path) -> bool:
    return (root / CAPTIONS).is_file()


def build(*, root: str, images: str = "") -> PairedDataset:
    """images: folder of the photographs; empty means the one in `root`."""
    folder = Path(root) / images if images else _image_folder(Path(root))
    captions = _captions(Path(root) / CAPTIONS)
    photographs = _photographs(Path(root), folder, captions)
    return paired("flickr8k", Path(root), photographs, splits=LISTS)


def _image_folder(root: Path) -> Path:
    present = [root / name for name in FOLDERS if (root / name).is_dir()]
    return present[0] if present else root / FOLDERS[0]


def _captions(path: Path) -> dict[str, tuple[str, ...]]:
    """The captions of each image, in the order of their numbers."""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        label, tab, caption = line.partition("\t")
        image, _, order = label.rpartition("#")
        if not tab or not image or not order.isdecimal():
            raise BadData(
                f"Line {number} of '{path}' is {line!r}. Expected an image name, '#', "
                "a number, a tab and a caption. Correct or remove the line."
            )
        numbered.setdefault(image, []).append((int(order), caption.strip()))
    return {
        image: tuple(caption for _, caption in sorted(texts))
        for image, texts in numbered.items()
    }


def _photographs(
    root: Path, folder: Path, captions: dict[str, tuple[str, ...]]
) -> Iterator[Photograph]:
    for split, filename in LISTS.items():
        listed = [name for name in read_lines(root / filename) if name]
        if not listed:
            raise BadData(
                f"The split {split!r} is empty in '{root / filename}'. Expected one "
                "image name per line. Download or copy the file again."
            )
        for name in listed:
            yield Photograph(name, split, captions.get(name, ()), folder / name)
