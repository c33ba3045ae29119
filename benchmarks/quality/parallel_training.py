"""Train on two processes with `gather`, and on one with the whole batch: is it the same model?

    python -m benchmarks.quality.parallel_training [--epochs 2]

SGR by TCL on a small dataset that is written here, by `torchrun` and the real command, without
augmentation and dropout, which every process draws for itself. In 32 bits the last digits of
sums differ with how a batch is divided, and Adam enlarges that from step to step; so both are
trained in 64 bits as well, where what is left is the difference of the method itself. Once more
in 32 bits, each process normalises over its own batch, as it would without
`avow.training.shared_statistics`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._report import keep, sizes_parser

ROOT = Path(__file__).parents[2]
IMAGES, PARTS, DIM, BATCH = 96, 6, 16, 48
RECIPE = """
[data]
name = "{data}"
[method]
name = "sgr"
dim = 32
word_dim = 16
similarity_dim = 16
steps = 2
regions = {parts}
dropout_word = 0.0
dropout_head = 0.0
[loss]
name = "tcl"
agreement_steps = 1
[train]
epochs = {epochs}
batch = {batch}
gather = {gather}
lr = 0.002
precision = "fp32"
words_changed = 0.0
regions_changed = 0.0
"""
COMMAND = """
import sys
import torch
{before}
from avow.cli import app
app(sys.argv[1:], standalone_mode=False)
"""
APART = """
from avow.training import from_recipe
from_recipe.share_statistics = lambda views: None
"""
DOUBLE = """
torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double
"""
BESIDE = {
    "one": "one",
    "two": "one",
    "apart": "one",
    "one_double": "one_double",
    "two_double": "one_double",
}
"""What each run is held against."""


def main() -> None:
    chosen = sizes_parser(__doc__, epochs=2).parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_data(place / "toy_precomp")
        runs = {
            "one": trained(place, "one", chosen.epochs, processes=1),
            "two": trained(place, "two", chosen.epochs, processes=2),
            "apart": trained(place, "apart", chosen.epochs, processes=2, before=APART),
            "one_double": trained(place, "one_double", chosen.epochs, 1, before=DOUBLE),
            "two_double": trained(place, "two_double", chosen.epochs, 2, before=DOUBLE),
        }
    figures = {
        "epochs": chosen.epochs,
        "batch": BATCH,
        "losses": {name: run["losses"] for name, run in runs.items()},
        "dev_rsum": {name: run["rsum"] for name, run in runs.items()},
        "worst_weight": {name: furthest(runs[BESIDE[name]], run) for name, run in runs.items()},
    }
    print(figures, "->", keep("parallel_training", figures))


def furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference of a weight."""
    pairs = [(value, other["weights"][name]) for name, value in one["weights"].items()]
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs)


def trained(
    place: Path, name: str, epochs: int, processes: int, before: str = ""
) -> dict[str, Any]:
    gather = str(processes > 1).lower()
    sizes = {"parts": PARTS, "epochs": epochs, "batch": BATCH // processes}
    recipe = RECIPE.format(data=place / "toy_precomp", gather=gather, **sizes)
    (place / f"{name}.toml").write_text(recipe)
    (place / f"{name}.py").write_text(COMMAND.format(before=before))
    words = ["train", f"{place / name}.toml", "--out", str(place / name), "--device", "cpu"]
    program = [str(place / f"{name}.py")] if before else ["-m", "avow"]
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *(start if processes > 1 else []), *program, *words]
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    run = place / name
    state = torch.load(run / (run / "last").read_text() / "training.pt", weights_only=True)
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {
        "losses": [line["loss"] for line in lines],
        "rsum": lines[-1]["dev"]["rsum"],
        "weights": {
            f"{number}.{key}": tensor
            for number, view in enumerate(state["views"])
            for key, tensor in view.items()
        },
    }


def write_data(root: Path) -> None:
    """Colours and animals: features that can be learnt, and two captions of each image."""
    root.mkdir()
    colours, animals = "red blue green white".split(), "dog cat horse bird fish fox".split()
    draw = np.random.default_rng(0)
    kinds = draw.standard_normal((24, DIM)).astype(np.float32)
    for split, count in (("train", IMAGES), ("dev", 24), ("test", 24)):
        kind = np.arange(count) % 24
        noise = 0.2 * draw.standard_normal((count, PARTS, DIM)).astype(np.float32)
        np.save(root / f"{split}_ims.npy", kinds[kind][:, None] + noise)
        words = [(colours[k // 6], animals[k % 6]) for k in kind]
        frames = ("a {} {} runs", "the {} {}", "one {} {} outside", "{} {}", "see a {} {} .")
        lines = [frame.format(*pair) for pair in words for frame in frames]
        (root / f"{split}_caps.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
