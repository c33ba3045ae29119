"""The shipped model on videos of MSR-VTT that it never saw, without any training.

    python -m benchmarks.quality.video_zero_shot PAIRS ANNOTATIONS [--cache FILE]

PAIRS: a clone of BennoKrojer/imagecode-msrvtt-pairs. ANNOTATIONS: a folder with
MSRVTT_JSFUSION_test.csv. Of the 1,000 videos of the 1k-A list 476 have frames there; they are
the gallery, and the sentence of each in that list is its one caption. A video's score is the
mean of the scores of its frames, or the largest: of its first pair of frames, and of all.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from avow.core.places import DEFAULT
from avow.metrics.video import VideoRecall, video_recall
from avow.retrieval.encoders.onnx import OnnxEncoder
from avow.retrieval.encoders.opening import open_encoder
from benchmarks._report import commit, keep
from benchmarks.quality._frame_pairs import Frame, listed_frames, opened

LIST = "MSRVTT_JSFUSION_test.csv"
AT_LEAST = (10.3, 26.1, 34.7)
"""Text to video, R@1, R@5 and R@10 of an earlier shipped model, first pair, mean."""
BLOCK = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("annotations", type=Path)
    parser.add_argument("--cache", type=Path, help="vectors of frames, read or written (.npz)")
    chosen = parser.parse_args()
    frames = listed_frames(chosen.pairs)
    with (chosen.annotations / LIST).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["video_id"] in frames]
    encoder = open_encoder(DEFAULT)
    assert isinstance(encoder, OnnxEncoder)
    wanted = [frame for row in rows for frame in frames[row["video_id"]]]
    vectors = encoded(encoder, chosen.pairs, wanted, chosen.cache)
    texts = encoder.encode_texts([row["sentence"].strip() for row in rows])
    place = {frame: number for number, frame in enumerate(wanted)}
    figures = {}
    for which, most in (("first pair", 2), ("all frames", None)):
        own = [[place[f] for f in frames[row["video_id"]][:most]] for row in rows]
        for pooling in ("mean", "max"):
            found = recall(vectors, texts, own, pooling)
            figures[f"{which}, {pooling}"] = found.to_dict()
            print(f"{which}, {pooling}", *map("{:.1f}".format, found.text_to_video.row[:3]),
                  *map("{:.1f}".format, found.video_to_text.row[:3]))  # fmt: skip
    keep(
        "video_zero_shot",
        {
            "videos": len(rows),
            "frames": len(wanted),
            "model": encoder.fingerprint,
            "at_least": AT_LEAST,
            "commit": commit(),
            "recall": figures,
        },
    )


def encoded(
    encoder: OnnxEncoder, clone: Path, frames: list[Frame], cache: Path | None
) -> Float[np.ndarray, "frames dim"]:
    if cache is not None and cache.is_file():
        with np.load(cache) as known:
            if str(known["model"]) == encoder.fingerprint and len(known["vectors"]) == len(
                frames
            ):
                return known["vectors"]
    parts = []
    for start in tqdm(range(0, len(frames), BLOCK), "frames", unit="block"):
        pictures = opened(clone, frames[start : start + BLOCK])
        pixels = np.stack([encoder.prepare(picture) for picture in pictures])
        parts.append(encoder.encode_prepared(pixels))
    vectors = np.concatenate(parts)
    if cache is not None:
        np.savez(cache, vectors=vectors, model=encoder.fingerprint)
    return vectors


def recall(
    vectors: Float[np.ndarray, "frames dim"],
    texts: Float[np.ndarray, "texts dim"],
    own: list[list[int]],
    pooling: str,
) -> VideoRecall:
    """own: which frames each video has; text number i is the caption of video number i."""
    scores = vectors @ texts.T
    pooled = np.stack([getattr(scores[frames], pooling)(0) for frames in own])
    return video_recall(pooled, np.arange(len(own)))


if __name__ == "__main__":
    main()
