"""Write what a trained run knows of its training split, as a teacher of the loss `teachtext`.

python -m benchmarks.quality.teacher RUN teachers/first.npz [--features DIR]
"""

import argparse
from pathlib import Path

from avow.assembly.model import Model
from avow.training.setup import enrol, open_data, open_features
from avow.training.teachers import write_teacher


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    model = Model.from_pretrained(chosen.run).to(chosen.device)
    dataset = open_data(model.recipe)
    store = open_features(model.recipe, dataset, chosen.features)
    _, course = enrol(model.recipe, dataset, store)
    write_teacher(model, course.train, chosen.out)
    videos, captions = len(course.train.rows), len(course.train.captions)
    print(f"{videos} videos and {captions} captions -> {chosen.out}")


if __name__ == "__main__":
    main()
