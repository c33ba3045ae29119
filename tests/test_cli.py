"""The command line: what it prints, how it exits, and its sentence for every mistake."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import image_processor, small_recipe, write_precomp
from test_training import as_toml

import avow.cli
from avow.assembly.scores import Blocks, from_vectors, read_size
from avow.core.errors import BadRecipe


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `avow …`; give exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["avow", *map(str, arguments)])
        monkeypatch.setattr(avow.cli, "step_back", lambda levels: None)  # the tests go on
        try:
            avow.cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        shown = capsys.readouterr()
        return int(code), shown.out, shown.err

    return run


def test_methods_lists_every_part_with_its_settings(command):
    code, out, _ = command("methods", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"methods", "losses", "backbones", "readers"}
    entry = next(one for one in found["losses"] if one["name"] == "tcl")
    assert entry["settings"]["tau"] == 0.05
    assert entry["paper"].startswith("Qin et al.")
    assert "efficientnet_lite2" in command("methods")[1]


def test_recipes_lists_and_shows(command):
    code, out, _ = command("recipes")
    assert code == 0 and "flickr8k/vse_infty_tcl" in out
    code, out, _ = command("recipes", "flickr8k/vse_infty_tcl")
    assert out.startswith("# VSE-infinity") and "[train]" in out
    code, out, _ = command("recipes", "flickr8k/vse_infty_tcl", "--json")
    assert json.loads(out)["train"]["epochs"] == 9


def test_a_mistake_is_one_sentence_on_stderr(command):
    code, out, err = command("train", "flickr8k/vse_infty_tlc")
    assert (code, out) == (1, "")
    assert err.startswith(
        "avow: There is no 'flickr8k/vse_infty_tlc' in recipes. Did you mean "
        "'flickr8k/vse_infty_tcl'? There are: "
    )
    assert err.count("\n") == 1


def test_a_misspelt_option_exits_with_2(command):
    assert command("train", "flickr8k/vse_infty_tcl", "--sed", "3")[0] == 2
    assert command("evaluate")[0] == 2


def test_missing_features_name_the_command_that_makes_them(command, tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("AVOW_HOME", str(home))
    monkeypatch.setenv(
        "AVOW_DATA", str(tiny_photographs(tmp_path / "data" / "flickr8k").parent)
    )
    out = tmp_path / "run"
    code, _, err = command("train", "flickr8k/vse_infty_tcl", "--out", out)
    where = home / "features" / "tiny" / "efficientnet_lite2-256px-6x6"
    assert code == 1
    assert err == (
        f"avow: There are no features for 'flickr8k/vse_infty_tcl' in {str(where)!r}. "
        "Expected those of its backbone; make them with: avow features flickr8k --backbone "
        "efficientnet_lite2 --size 256 --grid 6\n"
    )


def tiny_photographs(root: Path) -> Path:
    """A compact dataset of six small pictures, two of them broken."""
    (root / "images").mkdir(parents=True)
    images = []
    for number, split in enumerate(["train"] * 4 + ["dev", "test"]):
        name = f"{number}.jpg"
        Image.new("RGB", (40, 30), (40 * number, 90, 10)).save(root / "images" / name)
        images.append({"filename": name, "split": split, "captions": ["a plain colour"] * 2})
    (root / "images" / "1.jpg").write_bytes(b"no picture")
    (root / "images" / "2.jpg").write_bytes(b"")
    (root / "captions.json").write_text(json.dumps({"dataset": "tiny", "images": images}))
    return root


@pytest.mark.slow
def test_features_of_another_backbone_are_refused(command, tmp_path):
    data = tiny_photographs(tmp_path / "tiny")
    out = tmp_path / "features"
    made = command(
        *("features", data, "--backbone", "efficientnet_lite0", "--size", "64", "--grid", "2"),
        *("--out", out, "--device", "cpu", "--json", "--verify"),
    )
    report = json.loads(made[1])
    assert report["images"] == {"train": 2, "dev": 1, "test": 1}
    assert [skipped["id"] for skipped in report["skipped"]] == ["1.jpg", "2.jpg"]
    code, _, err = command(
        *("train", "flickr8k/vse_infty_tcl", "--set", f"data.name={data}"),
        *("--features", out, "--set", "features.grid=2", "--out", tmp_path / "run"),
    )
    assert code == 1
    assert err == (
        f"avow: The features in {str(out)!r} were made by another backbone than the "
        "recipe's: 'efficientnet_lite0' (size 64). Expected 'efficientnet_lite2' (size 256). "
        "Make them again with `avow features` (with --run where the model brings its own "
        "backbone), or change the recipe.\n"
    )


@pytest.mark.slow
def test_columns_of_any_name(command, tmp_path):
    root = tiny_photographs(tmp_path / "tiny")
    lines = ["file,text", *(f"images/{number}.jpg,a plain colour" for number in (0, 3, 4, 5))]
    (root / "pets.csv").write_text("\n".join(lines) + "\n")
    code, out, err = command(
        *("features", root / "pets.csv", "--set", "image_column=file", "--json"),
        *("--set", "caption_column=text", "--set", "train=1.0", "--set", "dev=0.0"),
        *("--set", "test=0.0", "--backbone", "efficientnet_lite0", "--size", "64"),
        *("--grid", "2", "--out", tmp_path / "features", "--device", "cpu"),
    )
    assert code == 0, err
    assert json.loads(out)["images"] == {"train": 4}
    code, _, err = command("features", root / "pets.csv", "--set", "image_column")
    assert err == (
        "avow: The setting 'image_column' cannot be read. Expected key=value, such as "
        "images=photos.\n"
    )


@pytest.mark.slow
def test_a_hub_model_from_a_folder_all_the_way(command, tmp_path, monkeypatch):
    """Features by a CLIP saved on disk, a run on them, and the run on photographs."""
    monkeypatch.setenv("AVOW_HOME", str(tmp_path / "home"))
    data, clip = tiny_photographs(tmp_path / "tiny"), tiny_clip(tmp_path / "clip")
    made = ("--backbone", "huggingface", "--name", clip, "--size", 0, "--grid", 2)
    code, out, err = command("features", data, *made, "--device", "cpu", "--json")
    assert code == 0, err
    content = small_recipe(data, epochs=1, batch=2) | {
        "features": {"backbone": "huggingface", "size": 0, "grid": 2},
    }
    toml, run = tmp_path / "toy.toml", tmp_path / "run"
    toml.write_text(as_toml(content) + f'\nsettings = {{ name = "{clip}" }}\n')
    code, _, err = command("train", toml, "--out", run, "--json", "--device", "cpu")
    assert code == 0, err
    code, out, err = command("evaluate", run, "--json", "--device", "cpu", "--draws", 0)
    assert code == 0 and json.loads(out)["about"]["images"] == 1, err
    model = avow.Model.from_pretrained(run, allow_code=True)  # weights of another folder
    photographs = [data / "images" / f"{number}.jpg" for number in (0, 3, 4)]
    assert model.similarity(photographs, ["a plain colour", "a dog"]).shape == (3, 2)
    with pytest.raises(avow.AvowError) as caught:
        model.similarity([data / "images" / "1.jpg"], ["a dog"])
    assert str(caught.value).startswith("The photograph ")


def tiny_clip(where: Path) -> Path:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=32,
        patch_size=8,
    )
    CLIPVisionModel(config).save_pretrained(where)
    size = {"height": 32, "width": 32}
    image_processor("CLIP")(size=size, crop_size=size).save_pretrained(where)
    return where


def test_unknown_dataset(command):
    code, _, err = command("features", "flikr8k")
    assert code == 1 and err.startswith("avow: ") and "flikr8k" in err and "AVOW_DATA" in err


def test_train_and_evaluate_in_every_layout(command, tmp_path):
    data = write_precomp(tmp_path / "toy_precomp")
    toml, run = tmp_path / "toy.toml", tmp_path / "run"
    toml.write_text(as_toml(small_recipe(data, epochs=1)))
    code, out, _ = command(
        "train", toml, "--out", run, "--json", "--device", "cpu", "--seed", 3
    )
    assert code == 0 and json.loads(out)["best_epoch"] == 1
    code, out, _ = command("evaluate", run, "--json", "--device", "cpu")
    found = json.loads(out)
    assert [row["name"] for row in found["rows"]] == ["image view", "text view", "both views"]
    assert found["about"]["seed"] == 3 and found["about"]["images"] == 24
    low, high = found["rows"][-1]["intervals"]["rsum"]
    assert low <= found["rows"][-1]["rsum"] <= high
    for layout, sign in (
        ("text", "rSum"),
        ("markdown", "| both views |"),
        ("latex", r"\toprule"),
    ):
        code, out, _ = command("evaluate", run, "--format", layout, "--device", "cpu")
        assert code == 0 and sign in out
    code, out, _ = command("evaluate", run, "--fold", 8, "--json", "--device", "cpu")
    assert json.loads(out)["about"]["protocol"] == "mean of folds of 8 images"
    code, _, err = command("evaluate", run, "--fold", 99, "--device", "cpu")
    assert err == (
        "avow: A fold of 99 images was asked for and the split has 24. Expected a fold no "
        "larger than the split; leave --fold out for the whole split.\n"
    )
    code, _, err = command("evaluate", run, "--split", "val", "--device", "cpu")
    assert err == (
        "avow: The dataset 'toy_precomp' has no split 'val'. It has: train, dev, test.\n"
    )


def test_features_of_another_width_are_refused(command, tmp_path):
    toml, run = tmp_path / "toy.toml", tmp_path / "run"
    toml.write_text(as_toml(small_recipe(write_precomp(tmp_path / "toy_precomp"), epochs=1)))
    command("train", toml, "--out", run, "--json", "--device", "cpu")
    wide = write_precomp(tmp_path / "wide_precomp", dim=20)
    code, _, err = command("evaluate", run, "--data", wide, "--device", "cpu")
    assert code == 1
    assert err == (
        "avow: The features of 'wide_precomp' have 20 numbers per part. Expected 12, as the "
        "run was trained with.\n"
    )


def test_places_that_cannot_be_used(command, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "decisions.csv").write_text("split,pair,image,caption,decision,better_image\n")
    apply = ["audit", "sample", "--apply", tmp_path / "decisions.csv"]
    code, _, err = command(*apply, "--out", tmp_path / "file" / "out")
    assert code == 1 and err.startswith(f"avow: '{tmp_path / 'file'}")
    assert "cannot be used (File exists)" in err and "Traceback" not in err


def test_a_training_that_is_refused_leaves_no_run_behind(command, tmp_path):
    start = [
        "train",
        "flickr8k/light_tcl",
        "--set",
        "data.name=sample",
        "--out",
        tmp_path / "r",
    ]
    code, _, err = command(*start, "--set", "train.trust=nowhere")
    assert code == 1 and err and not (tmp_path / "r").exists()


@pytest.fixture
def vectors(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path / "vectors"
    folder.mkdir()
    images = rng.standard_normal((7, 5)).astype(np.float32)
    np.save(folder / "images.npy", images)
    np.save(folder / "texts.npy", np.repeat(images, 2, 0))
    np.save(folder / "image_of.npy", np.repeat(np.arange(7), 2))
    return folder


def test_anybodys_vectors(command, vectors):
    code, out, _ = command("evaluate", "--vectors", vectors, "--json")
    assert code == 0 and json.loads(out)["about"]["texts"] == 14


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "texts",
            np.zeros((14, 3), np.float32),
            "The vectors in {folder!r} have shapes (7, 5) and (14, 3). Expected [images, dim] "
            "and [texts, dim] with the same dim.",
        ),
        (
            "image_of",
            np.arange(14),
            "image_of.npy in {folder!r} does not name images. Expected one whole number below "
            "7 per text.",
        ),
        (
            "image_of",
            np.repeat(np.arange(7), 1),
            "There are 14 texts and 7 answers saying which image each belongs to. Expected one "
            "answer per text.",
        ),
        (
            "image_of",
            np.zeros(14, int),
            "Image number 1 has no caption. Expected at least one per image; leave it out of "
            "the split.",
        ),
    ],
)
def test_vectors_that_do_not_fit(command, vectors, name, content, sentence):
    np.save(vectors / f"{name}.npy", content)
    code, _, err = command("evaluate", "--vectors", vectors)
    assert code == 1
    assert err == f"avow: {sentence.format(folder=str(vectors))}\n"


def test_vectors_that_are_no_array(command, vectors):
    np.savez(vectors / "archive.npz", images=np.zeros((7, 5)))
    for content in ((vectors / "archive.npz").read_bytes(), b""):
        (vectors / "images.npy").write_bytes(content)
        code, _, err = command("evaluate", "--vectors", vectors)
        assert code == 1 and "Expected an array saved by numpy.save" in err


def test_nan_vectors(command, vectors):
    broken = np.load(vectors / "images.npy")
    broken[3, 3] = np.nan
    np.save(vectors / "images.npy", broken)
    code, _, err = command("evaluate", "--vectors", vectors)
    assert code == 1 and err.startswith("avow: Some similarities are not finite. ")


def test_scores_beyond_the_memory_budget_lie_in_a_file():
    rng = np.random.default_rng(0)
    images, texts = rng.standard_normal((2, 9, 4)).astype(np.float32)
    small = from_vectors(images, texts, Blocks(images=2, texts=4, memory=10))
    large = from_vectors(images, texts, Blocks())
    assert isinstance(small, np.memmap) and not isinstance(large, np.memmap)
    np.testing.assert_allclose(small, large, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(large, images @ texts.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GB", 2**31), ("512 MB", 2**29), ("1.5kb", 1536), ("7", 7), ("1GiB", 2**30)],
)
def test_sizes(text, expected):
    assert read_size(text) == expected


def test_a_size_that_is_none():
    with pytest.raises(BadRecipe) as caught:
        read_size("plenty")
    assert str(caught.value) == (
        "The size 'plenty' cannot be read. Expected a number and a unit, such as 2GB."
    )
