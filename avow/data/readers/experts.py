"""Videos with several experts: one `captions.json`, and an array per expert.

    captions.json      {"dataset": ..., "videos": [{"id", "split", "captions"}]}
    experts/NAME.npy   features [videos, dim] or [videos, parts, dim], whose ids are in
    experts/NAME.txt   one per line; a video may be missing, or its numbers NaN

The experts are put side by side in the order of their names, or of the setting `experts`;
the method `ce` takes them apart again.
"""

from pathlib import Path

from avow.core.datasets import PairedDataset, VideoFeatures
from avow.core.errors import BadData
from avow.data.clips import paired_clips
from avow.data.readers.compact_videos import CAPTIONS, listed_clips, named

FOLDER = "experts"


def recognises(root: Path) -> bool:
    return (root / CAPTIONS).is_file() and any((root / FOLDER).glob("*.npy"))


def build(*, root: str, experts: str = "", frames: int = 64) -> PairedDataset:
    """experts: their names in order, with commas between them; empty: all, as sorted.

    frames: the most parts that are taken of a video, evenly spaced; 0 for all.
    """
    place = Path(root)
    files = {path.stem: path for path in sorted((place / FOLDER).glob("*.npy"))}
    wanted = [name.strip() for name in experts.split(",")] if experts.strip() else list(files)
    missing = [name for name in wanted if name not in files]
    if missing or not wanted:
        raise BadData(
            f"There is no expert {', '.join(map(repr, missing)) or 'at all'} in "
            f"'{place / FOLDER}'. Expected one .npy each; there are: "
            f"{', '.join(files) or 'none'}."
        )
    features = VideoFeatures({name: files[name] for name in wanted}, frames)
    path = place / CAPTIONS
    return paired_clips(named(path), path, listed_clips(path), features)
