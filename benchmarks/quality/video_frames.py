"""MSR-VTT frames as a compact dataset: features of 4,827 videos by the shipped pixel network.

    python -m benchmarks.quality.video_frames PAIRS ANNOTATIONS OUT [--frames 2] [--jobs 2]

PAIRS: a clone of BennoKrojer/imagecode-msrvtt-pairs. ANNOTATIONS: a folder with the official
train_val_videodatainfo.json and test_videodatainfo.json. OUT gets captions.json and
frames_default_pca512.npy, float16 [videos, frames, 512]: the mean of all cells of the grid,
reduced from 1,280 numbers to 512 by principal components of the training videos' frames, as the
compact MSVD is. Splits are the official ones, restricted to the videos that have frames.

Stop it at any time and run it again: blocks of videos that are done are kept.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from tqdm import tqdm

from avow.assembly.model import Model
from avow.core.contracts import Backbone
from avow.data.readers import msrvtt
from benchmarks.quality._frame_pairs import Frame, listed_frames, opened, spread_out

NUMBERS = 512
FEATURES = f"frames_default_pca{NUMBERS}.npy"
BLOCK = 32
"""Videos in one file of unfinished work."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("annotations", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--frames", type=int, default=2, help="of every video")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--share", nargs=2, type=int, metavar=("K", "N"),
                        help="make block K of every N alone, and join nothing")  # fmt: skip
    chosen = parser.parse_args()
    frames = listed_frames(chosen.pairs)
    videos = captioned(chosen.annotations, set(frames))
    ids = [video["id"] for video in videos]
    blocks = [ids[start : start + BLOCK] for start in range(0, len(ids), BLOCK)]
    parts = chosen.out / f"parts-{chosen.frames}"
    parts.mkdir(parents=True, exist_ok=True)
    work = [
        (parts / f"{place:05}.npy", [spread_out(frames[id], chosen.frames) for id in block])
        for place, block in enumerate(blocks)
    ]
    first, step = chosen.share or (0, 1)
    missing = [(path, block) for path, block in work[first::step] if not path.is_file()]
    with ProcessPoolExecutor(chosen.jobs) as pool:
        done = pool.map(partial(make, chosen.pairs), missing)
        list(tqdm(done, "features", len(missing), unit="block"))
    if chosen.share:
        return
    about = {"dataset": "msrvtt-frames", "frames_per_video": chosen.frames, "videos": videos}
    (chosen.out / "captions.json").write_text(json.dumps(about))
    features = np.concatenate([np.load(path) for path, _ in work]).astype(np.float32)
    learnt = np.array([video["split"] == "train" for video in videos])
    np.save(chosen.out / FEATURES, reduced(features, learnt).astype(np.float16))


def captioned(annotations: Path, known: set[str]) -> list[dict]:
    """The videos that have frames, with their official split and captions."""
    videos = []
    for name, split in msrvtt.build(root=str(annotations)).splits.items():
        captions: list[list[str]] = [[] for _ in split.image_ids]
        for caption, video in zip(split.captions, split.image_of.tolist(), strict=True):
            captions[video].append(caption)
        videos += [
            {"id": video, "split": name, "captions": own}
            for video, own in zip(split.image_ids, captions, strict=True)
            if video in known
        ]
    return videos


def reduced(
    features: Float[np.ndarray, "videos frames dim"], learnt: Bool[np.ndarray, " videos"]
) -> Float[np.ndarray, "videos frames numbers"]:
    """The first principal components; learnt: the videos that say which these are."""
    frames = features[learnt].reshape(-1, features.shape[-1])
    mean = frames.mean(0)
    variance, directions = np.linalg.eigh(np.cov(frames.T))
    kept = 100 * variance[-NUMBERS:].sum() / variance.sum()
    print(f"{NUMBERS} components keep {kept:.1f} % of the variance")
    return (features - mean) @ directions[:, : -NUMBERS - 1 : -1].astype(np.float32)


@cache
def network() -> Backbone:
    torch.set_num_threads(1)
    backbone = Model.from_pretrained("default").backbone
    assert backbone is not None, "the shipped model has a pixel network"
    return backbone.eval()


def make(clone: Path, work: tuple[Path, list[list[Frame]]]) -> None:
    """The features of one block of videos; a frame that comes twice is computed once."""
    path, videos = work
    distinct = list(dict.fromkeys(frame for video in videos for frame in video))
    pixels = [network().prepare(picture) for picture in opened(clone, distinct)]
    with torch.inference_mode():
        cells = network()(torch.from_numpy(np.stack(pixels)))
    vectors = dict(zip(distinct, cells.mean((1, 2)).numpy(), strict=True))
    features = np.array([[vectors[frame] for frame in video] for video in videos], np.float16)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        np.save(file, features)
    unfinished.rename(path)


if __name__ == "__main__":
    main()
