"""Videos from their files to a trained model: frames of any number, experts, teachers."""

import json
from pathlib import Path

import numpy as np
import pytest
from samples import SMALLER

from avow.assembly.evaluate_runs import EvaluationPlan, judge_run
from avow.assembly.model import Model
from avow.assembly.recipe import Recipe
from avow.training import loop
from avow.training.setup import enrol, open_data
from avow.training.state import open_run
from avow.training.teachers import write_teacher

KINDS = [(colour, animal) for colour in ("red", "blue", "green") for animal in ("dog", "cat")]
LEARNT = 530  # of 600; chance is 400, where five of six candidates are among the first five


def write_videos(root: Path) -> Path:
    """Six kinds of videos: their colour is what the scene shows, their animal what is heard.

    A quarter of the training videos has no sound, and the sounds differ in number.
    """
    rng = np.random.default_rng(0)
    looks = {colour: rng.standard_normal(5) for colour in ("red", "blue", "green")}
    sounds = {animal: rng.standard_normal(4) for animal in ("dog", "cat")}
    videos, scene, audio = [], [], []
    for split, count in (("train", 48), ("dev", 6), ("test", 6)):
        for place in range(count):
            colour, animal = KINDS[place % 6]
            captions = [f"a {colour} {animal} runs", f"the {colour} {animal}"]
            videos.append({"id": f"{split}{place}", "split": split, "captions": captions})
            scene.append(looks[colour] + 0.1 * rng.standard_normal(5))
            heard = sounds[animal] + 0.1 * rng.standard_normal((3, 4))
            heard[1 + place % 3 :] = 0  # padding
            silent = split == "train" and place % 4 == 3
            audio.append(np.full((3, 4), np.nan) if silent else heard)
    (root / "experts").mkdir(parents=True)
    content = {"dataset": "toy", "videos": videos}
    (root / "captions.json").write_text(json.dumps(content))
    for name, rows in (("scene", scene), ("audio", audio)):
        np.save(root / "experts" / f"{name}.npy", np.array(rows, np.float32))
        ids = "\n".join(video["id"] for video in videos)
        (root / "experts" / f"{name}.txt").write_text(ids)
    return root


def recipe_of(data: Path, loss: dict, **method) -> Recipe:
    return Recipe.from_dict(
        "toy",
        {
            "data": {"name": str(data), "experts": "scene, audio"},
            "method": method,
            "loss": loss,
            "train": {
                "epochs": 8,
                "batch": 24,
                "lr": 0.01,
                "precision": "fp32",
                "optimiser": "adam",
                "weight_decay": 0.0,
                "schedule": "exponential",
                "decay": 0.9,
                "same_image_matches": True,
                "words_changed": 0.0,
                "regions_changed": 0.0,
            },
        },
    )


def trained(recipe: Recipe, run: Path) -> float:
    """Train, and give the rSum of the test split."""
    open_run(run, recipe, False)
    model, course = enrol(recipe, open_data(recipe), None)
    loop.train(model, course, run, progress=False, device="cpu")
    return judge_run(run, EvaluationPlan("test", draws=0)).best.recall.rsum


CE = {"name": "ce", "experts": "scene:5, audio:4/2", **SMALLER["ce"]}
PAIRS = {"name": "hinge", "margin": 0.2, "hardest": False, "reduce": "pairs"}


@pytest.mark.slow
@pytest.mark.long  # test_training.py learns from experts, and test_teachtext.py from a teacher
def test_experts_are_learnt_and_taught_again(tmp_path):
    """CE by its own hinge; then two of it by TCL, with the first one as their teacher."""
    data = write_videos(tmp_path / "toy")
    first = recipe_of(data, PAIRS, **CE)
    assert trained(first, tmp_path / "first") > LEARNT
    model = Model.from_pretrained(tmp_path / "first")
    _, course = enrol(first, open_data(first), None)
    write_teacher(model, course.train, tmp_path / "teacher.npz")
    loss = {
        "name": "teachtext",
        "base": "tcl",
        "settings": {"agreement_steps": 1},
        "teachers": [str(tmp_path / "teacher.npz")],
    }
    assert trained(recipe_of(data, loss, **CE), tmp_path / "second") > LEARNT


@pytest.mark.slow
@pytest.mark.parametrize(
    "concepts",
    # a hybrid space is a latent one and more
    [pytest.param(0, id="latent", marks=pytest.mark.long), pytest.param(6, id="hybrid")],
)
def test_frames_of_any_number_are_learnt(tmp_path, concepts):
    """Dual Encoding reads both experts as one kind of frames, padded to the longest video."""
    data = write_videos(tmp_path / "toy")
    method = {"name": "dual_encoding", **SMALLER["dual_encoding"], "dim": 32, "word_dim": 8}
    recipe = recipe_of(data, {"name": "hinge"}, **method, concepts=concepts)
    assert trained(recipe, tmp_path / "run") > LEARNT
