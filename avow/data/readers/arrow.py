"""Parquet files, and folders of Hugging Face `datasets`: pictures and captions in columns.

    pairs.parquet                        one file
    data/train-00000-of-00002.parquet    a folder of them, as datasets lie on the hub
    dataset_info.json, state.json        what `Dataset.save_to_disk` writes; below folders named
                                         by their splits what `DatasetDict.save_to_disk` writes

The column of pictures holds paths, or pictures themselves as `datasets` keeps them ({"bytes",
"path"}); those are written once into the folder `embedded` of AVOW_HOME, named by their
content. A caption is a text or a list of texts. Needs pyarrow (`avow[tables]`), not `datasets`.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from avow.core.captions import check_caption
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData, MissingExtra
from avow.core.files import write_bytes
from avow.core.places import avow_home
from avow.data.gather import Photograph, paired, read_json
from avow.data.readers.pairs import share_of

_IMAGES = ("image", "img", "picture", "photo", "file_name", "filepath", "path")
_CAPTIONS = ("caption", "captions", "text", "texts", "sentence", "sentences", "raw")
_SPLITS = {"train": "train", "dev": "dev", "val": "dev", "valid": "dev"}
_SPLITS |= {"validation": "dev", "test": "test"}
_LARGEST = 256 * 2**20
"""Bytes of one embedded picture."""
_SUFFIXES = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"GIF8": ".gif", b"RIFF": ".webp"}


def recognises(root: Path) -> bool:
    if root.is_file():
        return root.suffix.lower() == ".parquet"
    return bool(_saved(root) or _parquet_files(root))


def build(
    *,
    root: str,
    image_column: str = "",
    caption_column: str = "",
    split_column: str = "split",
    train: float = 0.8,
    dev: float = 0.1,
    test: float = 0.1,
) -> PairedDataset:
    """image_column, caption_column: default: the first one with a usual name. train, dev,
    test: shares of the images where nothing says the split."""
    path = Path(root)
    shares = {"train": train, "dev": dev, "test": test}
    captions: dict[tuple[str, str], list[str]] = {}
    files: dict[str, Path] = {}
    own_splits = False
    for split, number, row in _rows(path):
        image, caption = _columns(row, image_column, caption_column, path)
        name, file = _picture(row[image], path, number, image)
        name = name if files.get(name, file) == file else file.name  # two of one name
        named = split or row.get(split_column)
        own_splits |= isinstance(named, str)
        chosen = _split_of(named, name, shares, path)
        files[name] = file
        for text in _texts(row[caption], caption, number, path):
            captions.setdefault((chosen, name), []).append(text)
    home = {name: {split for split, other in captions if other == name} for name in files}
    photographs = (
        Photograph(name, split, tuple(texts), files[name], len(home[name]) > 1)
        for (split, name), texts in captions.items()
    )
    found = paired(path.stem, path, photographs, splits=shares)
    return replace(found, own_splits=own_splits)


def _rows(path: Path) -> Iterator[tuple[str | None, int, dict[str, Any]]]:
    """The split that a file's name tells, the number of a row, and its columns."""
    pa, parquet = _pyarrow()
    saved = {None: path} if path.is_file() else _saved(path) or {None: path}
    try:
        for split, folder in saved.items():
            number = 0
            for file in _files(folder):
                inside = split or (_named_split(file) if path.is_dir() else None)
                for batch in _batches(file, pa, parquet):
                    for row in batch.to_pylist():
                        number += 1
                        yield inside, number, row
    except (pa.ArrowException, OSError) as error:
        raise BadData(
            f"The dataset at {str(path)!r} cannot be read ({error}). Expected Parquet files or "
            "a folder that `save_to_disk` of Hugging Face `datasets` wrote; write it again."
        ) from error


def _batches(file: Path, pa: Any, parquet: Any) -> Iterator[Any]:
    if file.suffix.lower() == ".parquet":
        yield from parquet.ParquetFile(file).iter_batches(256)
        return
    with pa.memory_map(str(file)) as source:
        yield from pa.ipc.open_stream(source)


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not (folder / "state.json").is_file():
        return _parquet_files(folder)
    listed = read_json(folder / "state.json").get("_data_files", [])
    names = [str(one.get("filename")) for one in listed if isinstance(one, dict)]
    if not names or any(Path(name).name != name for name in names):
        raise BadData(
            f"The file '{folder / 'state.json'}' names no data files. Expected what "
            "`save_to_disk` wrote; save the dataset again."
        )
    return [folder / name for name in names]


def _parquet_files(folder: Path) -> list[Path]:
    places = [folder, folder / "data"]
    return sorted(file for place in places for file in place.glob("*.parquet"))


def _saved(folder: Path) -> dict[str | None, Path]:
    """The folders of a saved dataset by their splits; None: nothing says which."""
    if (folder / "dataset_dict.json").is_file():
        listed = read_json(folder / "dataset_dict.json").get("splits", [])
        names = [name for name in listed if isinstance(name, str)]
        return {name: folder / Path(name).name for name in names}
    if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():
        return {None: folder}
    return {}


def _named_split(file: Path) -> str | None:
    word = re.match(r"[a-z]+", file.stem.lower())
    return word[0] if word and word[0] in _SPLITS else None


def _split_of(named: Any, image: str, shares: dict[str, float], path: Path) -> str:
    if named is None:
        return share_of(image, shares)
    if named not in _SPLITS:
        raise BadData(
            f"A split of '{path}' is called {named!r}. Expected one of: {', '.join(_SPLITS)}. "
            "Rename it."
        )
    return _SPLITS[named]


def _columns(row: dict[str, Any], image: str, caption: str, path: Path) -> tuple[str, str]:
    return (
        _column(row, image, _IMAGES, "image_column", path),
        _column(row, caption, _CAPTIONS, "caption_column", path),
    )


def _column(
    row: dict[str, Any], chosen: str, usual: Sequence[str], setting: str, path: Path
) -> str:
    found = chosen if chosen in row else next((name for name in usual if name in row), None)
    if found is None or (chosen and found != chosen):
        wanted = repr(chosen) if chosen else f"called {', '.join(map(repr, usual[:3]))}"
        raise BadData(
            f"There is no column {wanted} in '{path}'. It has: {', '.join(row)}. Rename it, or "
            f"set {setting}."
        )
    return found


def _picture(value: Any, path: Path, number: int, column: str) -> tuple[str, Path]:
    """The name of a picture, and the file that holds it."""
    home = path.parent if path.is_file() else path
    content = value.get("bytes") if isinstance(value, dict) else None
    named = value.get("path") if isinstance(value, dict) else value
    if isinstance(content, bytes) and content:
        return _embedded(content, named, path, number)
    if isinstance(named, str) and named.strip():
        return named, home / named
    raise BadData(
        f"The column {column!r} holds no picture in row {number} of '{path}'. Expected a path, "
        "or a picture as `datasets` keeps it; fill it in or remove the row."
    )


def _embedded(content: bytes, named: Any, path: Path, number: int) -> tuple[str, Path]:
    if len(content) > _LARGEST:
        raise BadData(
            f"The picture in row {number} of '{path}' has {len(content) / 1e6:.0f} MB."
            f" Expected at most {_LARGEST / 1e6:.0f}; make it smaller."
        )
    digest = hashlib.sha256(content).hexdigest()[:32]
    suffix = next(
        (end for start, end in _SUFFIXES.items() if content.startswith(start)), ".img"
    )
    file = avow_home() / "embedded" / digest[:2] / f"{digest}{suffix}"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, content)
    return (named if isinstance(named, str) and named else file.name), file


def _texts(value: Any, column: str, number: int, path: Path) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadData(
            f"The column {column!r} is {str(value)[:80]!r} in row {number} of '{path}'. "
            "Expected a text or a list of texts. Fill it in or remove the row."
        )
    for text in texts:
        check_caption(text, f"The column {column!r} in row {number} of '{path}'")
    return [text.strip() for text in texts]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtra("Reading Parquet and `datasets`", "pyarrow", "tables") from None
    return pyarrow, parquet
