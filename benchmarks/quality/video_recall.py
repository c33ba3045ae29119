"""Recall of trained runs by the protocol of CE and TeachText, on the split of their dataset.

    python -m benchmarks.quality.video_recall RUN [RUN ...] [--split test] [--features DIR]

R@1, R@5, R@10, R@50, median and mean rank, and the geometric mean of the first three; ties are
averaged, and of several views the similarities are.
"""

import argparse
from pathlib import Path

import numpy as np

from avow.assembly.evaluate import score_views
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.data.captions import TokenTable
from avow.metrics.video import VideoDirection, video_recall
from avow.training.setup import open_data, open_features


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--features", type=Path)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    head = "R@1 R@5 R@10 R@50 MedR MeanR geom".split()
    print(f"{'run':<40} {'direction':<14}", *(f"{name:>6}" for name in head))
    for run in chosen.runs:
        model = Model.from_pretrained(run).to(chosen.device)
        dataset = open_data(model.recipe)
        store = open_features(model.recipe, dataset, chosen.features)
        split = FeaturedSplit.join(dataset, chosen.split, store)
        table = TokenTable.from_captions(model.tokeniser, split.captions)
        scores = np.mean(score_views(model.views, split, table, model.device), 0)
        found = video_recall(scores, split.image_of)
        show(run.name, "text to video", found.text_to_video)
        show(run.name, "video to text", found.video_to_text)
        print(f"{run.name:<40} rSum {found.rsum:.1f}")


def show(run: str, direction: str, side: VideoDirection) -> None:
    print(f"{run:<40} {direction:<14}", *(f"{number:6.1f}" for number in side.row))


if __name__ == "__main__":
    main()
