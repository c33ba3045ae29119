"""An audit that is run again, of data that has changed, or by models that know some pairs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import default_backbone, small_recipe, write_precomp
from test_audit import scores_of
from test_training import as_toml
from typer.testing import CliRunner

from avow.assembly.features import extract
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.recipe import Recipe
from avow.audit.files import read_decisions, write_cleaned
from avow.audit.judge import Judged, audit, looked_at
from avow.audit.wrong_pairs import suspect
from avow.cli import app
from avow.core.errors import AvowError, BadData, NoDevice, WrongCheckpoint
from avow.data.opening import open_dataset
from avow.data.readers.sample import build as open_sample

pytestmark = pytest.mark.usefixtures("few_trees")


def told(*words: str) -> tuple[int, str]:
    """What the command says, and its exit code; errors of the user pass through.

    Its page shows few pairs: how it looks is tested elsewhere.
    """
    few = [] if "--worst" in words else ["--worst", "3"]
    found = CliRunner().invoke(app, ["audit", *words, *few], catch_exceptions=False)
    return found.exit_code, found.output


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> Path:
    """A folder with data, a recipe, and an audit by two tiny folds."""
    home = tmp_path_factory.mktemp("audited")
    data = write_precomp(home / "toy_precomp")
    content = small_recipe(Path(data.name), epochs=1)
    (home / "toy.toml").write_text(as_toml(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        code, output = told(*TOY)
    assert code == 0, output
    return home


TOY = "toy_precomp --recipe toy.toml --folds 2 --device cpu --out out --json".split()
TOY += ["--set", "train.batch=16"]


@pytest.fixture
def toy(audited, tmp_path, monkeypatch) -> Path:
    """The same folder anew, to be in."""
    monkeypatch.chdir(shutil.copytree(audited, tmp_path / "toy"))
    return tmp_path / "toy"


def findings(folder: str | Path) -> list[dict]:
    text = (Path(folder) / "pairs.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def test_folds_of_other_pairs_are_not_taken_for_these(toy):
    with pytest.raises(WrongCheckpoint, match=r"has learnt from .* the same number of folds"):
        told(*TOY, "--folds", "3")
    with pytest.raises(WrongCheckpoint, match="with the same noise"):
        told(*TOY, "--set", "noise.ratio=0.4", "--set", "noise.by=image")
    names = toy / "toy_precomp" / "train_caps.txt"
    lines = names.read_text().splitlines()
    names.write_text("\n".join(["another caption", *lines[1:]]) + "\n")
    with pytest.raises(WrongCheckpoint, match="choose another --out"):
        told(*TOY)


def test_a_run_knows_which_pairs_it_has_learnt(toy):
    code, output = told(
        "toy_precomp", "--run", "out/folds/fold0", "--device", "cpu", "--out", "b"
    )
    assert code == 0, output
    assert {row["split"] for row in findings("b")} == {"train", "dev", "test"}
    rows = [row for row in findings("b") if row["split"] == "train"]
    learnt = {row["pair"] for row in rows if row["in_sample"]}
    assert not any(row["in_sample"] for row in findings("out"))
    of = open_dataset("toy_precomp").splits["train"].image_of
    assert 0 < len(learnt) < len(of) == len(rows)
    assert f"The model has learnt from {len(learnt)}; fold models" in output
    # the other half was left to this fold, image by image
    others = {int(of[n]) for n in range(len(rows)) if n not in learnt}
    assert others.isdisjoint(int(of[n]) for n in learnt)
    assert json.loads(Path("b/audit.json").read_text())["in_sample"] == len(learnt)


class Nothing:
    """Features that nobody looks at."""

    ids: tuple[str, ...] = ()
    shape: tuple[int, ...] = (0, 1, 1)
    dtype = np.dtype(np.float16)

    def __len__(self) -> int:
        return 0

    def rows(self, index):
        raise AssertionError

    def rows_of(self, image_ids):
        raise AssertionError


def test_learnt_pairs_are_calibrated_among_themselves():
    """Learnt pairs all look right to a model; that must not make the others look wrong."""
    image_of = np.repeat(np.arange(120), 3)
    scores = scores_of(image_of)
    seen = image_of < 60
    by_heart = [view.copy() for view in scores]
    for view in by_heart:
        view[image_of[seen], np.flatnonzero(seen)] = 0.999
    split = FeaturedSplit(
        Nothing(),
        tuple(map(str, range(120))),
        np.arange(120),
        tuple(map(str, range(360))),
        image_of,
        None,
    )
    standings = looked_at(by_heart, image_of, 0.05, 0)
    judged = [Judged(np.arange(360), *standings, ["x"] * 360, ["y"] * 360)]
    apart, mixed = audit(split, "train", judged, seen), audit(split, "train", judged)
    assert {one.pair for one in apart.findings if one.in_sample} == set(np.flatnonzero(seen))
    alone = suspect(*_only(standings, ~seen), image_of[~seen])
    given = {one.pair: one.probability for one in apart.findings}
    for pair, expected in zip(np.flatnonzero(~seen), alone.probability, strict=True):
        assert given[int(pair)] == pytest.approx(expected, abs=1e-4)
    assert any(one.probability != given[one.pair] for one in mixed.findings)


def _only(standings, side):
    given, *wrong = (standing.some(side) for standing in standings)
    return given, wrong


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> tuple[Path, Path]:
    """The sample's photographs under other names, of which the first cannot be read.

    Captions are cut short: what they say changes nothing here, and reading them takes long.
    """
    home = tmp_path_factory.mktemp("broken")
    split = open_sample().splits["train"]
    for number, file in enumerate((split.files or ())[:10]):
        shutil.copy(file, home / f"p{number:02d}.jpg")
    (home / "p00.jpg").write_bytes(b"no photograph")
    some = [pair for pair, image in enumerate(split.image_of) if image < 10]
    lines = [
        {
            "image": f"p{split.image_of[pair]:02d}.jpg",
            "caption": f"{split.captions[pair][:9]} {n}",
            "split": "train",
        }
        for n, pair in enumerate(2 * some)
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (home / "mine.jsonl").write_text(text)
    features(home / "mine.jsonl", home / "stored")
    return home / "mine.jsonl", home / "stored"


def features(data: Path, out: Path) -> None:
    extract(open_dataset(str(data)), default_backbone(), out, progress=False)


def test_pairs_keep_their_place_where_a_photograph_is_missing(broken, tmp_path):
    data, stored = broken
    command = [str(data), "--run", "default", "--features", str(stored), "--device", "cpu"]
    code, output = told(*command, "--out", str(tmp_path / "out"), "--json")
    assert code == 0, output
    dataset = open_dataset(str(data))
    split = dataset.splits["train"]
    rows = findings(tmp_path / "out")
    missing = int((split.image_of == 0).sum())
    assert missing and len(rows) == len(split.captions) - missing
    for row in rows:
        assert split.captions[row["pair"]] == row["caption"]
    worst = rows[0]
    (tmp_path / "decisions.csv").write_text(
        "split,pair,image,caption,decision,better_image\n"
        f'train,{worst["pair"]},{worst["image"]},"{worst["caption"]}",wrong,\n'
    )
    decisions = read_decisions(tmp_path / "decisions.csv")
    assert write_cleaned(dataset, decisions, tmp_path / "cleaned")["wrong"] == 1


def test_pairs_whose_features_changed_are_judged_anew(toy):
    command = "toy_precomp --run out/folds/fold0 --split test --device cpu --out b".split()
    assert told(*command)[0] == 0
    before = _similarities(Path("b"))
    features = np.load("toy_precomp/test_ims.npy")
    features[3] = -features[3]
    np.save("toy_precomp/test_ims.npy", features)
    assert told(*command)[0] == 0
    after = _similarities(Path("b"))
    changed = {pair for pair in before if before[pair] != after[pair]}
    of = open_dataset("toy_precomp").splits["test"].image_of
    assert changed and {int(of[pair]) for pair in changed} == {3}


@pytest.mark.long
def test_features_that_were_made_anew_are_judged_anew(broken, tmp_path):
    own, stored = tmp_path / "data" / broken[0].name, tmp_path / "stored"
    shutil.copytree(broken[0].parent, own.parent)
    shutil.copytree(broken[1], stored)
    command = [str(own), "--run", "default", "--features", str(stored), "--device", "cpu"]
    command += ["--out", str(tmp_path / "out")]
    assert told(*command)[0] == 0
    before = _similarities(tmp_path / "out")
    Image.new("RGB", (300, 200), (200, 30, 30)).save(own.parent / "p03.jpg")
    shutil.rmtree(stored)
    features(own, stored)
    assert told(*command)[0] == 0
    after = _similarities(tmp_path / "out")
    changed = {pair for pair in before if before[pair] != after[pair]}
    split = open_dataset(str(own)).splits["train"]
    assert changed and {int(split.image_of[pair]) for pair in changed} == {3}


def _similarities(folder: Path) -> dict[int, float]:
    return {row["pair"]: row["similarity"] for row in findings(folder)}


@pytest.mark.long
def test_data_that_comes_with_features_is_audited_with_them(toy):
    changes = ["--set", "train.batch=16", "--set", "train.epochs=1"]
    code, output = told("toy_precomp", "--folds", "2", "--device", "cpu", *changes)
    assert code == 0, output
    assert "2 fold models by the recipe audit/light" in output


@pytest.mark.parametrize("kind", ["constant", "upside down"])
def test_judges_who_know_nothing_say_so(kind):
    image_of = np.repeat(np.arange(60), 2)
    scores = scores_of(image_of, views=1)
    scores = [0 * view for view in scores] if kind == "constant" else [-view for view in scores]
    given, *wrong = looked_at(scores, image_of, 0.05, 0)
    with pytest.raises(
        BadData, match=r"cannot be told apart\. Expected models that have learnt"
    ):
        suspect(given, wrong, image_of)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--gallery", "1"], "Invalid value for '--gallery'"),
        (["--threshold", "7"], "Invalid value for '--threshold'"),
        (["--worst", "-1"], "Invalid value for '--worst'"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--folds", "1"], "Invalid value for '--folds'"),
        (["--out", "toy.toml"], "--out 'toy.toml' is a file"),
        (["--run", "default", "--recipe", "toy.toml"], "--recipe is about fold models"),
        (["--run", "default", "--set", "noise.ratio=0.5"], "--set is about fold models"),
        (["--run", "default", "--folds", "7"], "--folds is about fold models"),
    ],
)
def test_what_cannot_be_is_refused_at_once(toy, changes, words):
    code, output = told("toy_precomp", "--device", "cpu", *changes)
    assert code == 2 and words in " ".join(output.split()), output


def test_too_little_is_refused_before_anything_is_trained(toy):
    with pytest.raises(BadData, match=r"too few for 48 folds.*lower --folds"):
        told(*TOY, "--folds", "48", "--out", "new")
    assert not Path("new/folds").exists()
    with pytest.raises(NoDevice, match=r"'xpu7' cannot be used.*change --device"):
        told(*TOY, "--device", "xpu7")


def test_a_batch_that_was_too_large_may_be_lowered(toy):
    large = [*TOY, "--out", "new", "--set", "train.batch=1000"]
    with pytest.raises(BadData, match=r"lower train\.batch"):
        told(*large)
    code, output = told(*large, "--set", "train.batch=16", "--gallery", "5")
    assert code == 0, output  # in galleries of five, five, five, five and four images


def test_few_steps_are_told_before_they_are_taken(toy):
    code, output = told(*TOY)
    assert code == 0 and "Each learns in 7 steps, which is little" in output


def test_folds_from_before_there_were_notes_are_not_trusted(toy):
    (toy / "out" / "folds" / "fold1" / "learnt.npy").unlink()
    with pytest.raises(WrongCheckpoint, match="does not say which pairs it has learnt from"):
        told(*TOY)


def test_the_dataset_is_never_overwritten(broken, tmp_path):
    own = tmp_path / "mine"
    own.mkdir()
    for name in ("pairs.jsonl", "pairs.csv"):
        shutil.copy(broken[0], own / name)
        before = (own / name).read_bytes()
        code, output = told(str(own / name), "--run", "default", "--out", str(own))
        assert code == 2 and "would overwrite" in " ".join(output.split())
        assert (own / name).read_bytes() == before


def test_one_image_has_no_rivals(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jpg")
    rows = [f"a.jpg,caption {n},train" for n in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n")
    features(tmp_path / "mine.csv", tmp_path / "stored")
    command = [str(tmp_path / "mine.csv"), "--run", "default", "--device", "cpu"]
    with pytest.raises(BadData, match="one image to judge"):
        told(*command, "--features", str(tmp_path / "stored"), "--out", str(tmp_path / "o"))


def test_the_last_images_stand_in_for_dev_where_they_have_features(broken, tmp_path):
    own = tmp_path / "data" / broken[0].name
    shutil.copytree(broken[0].parent, own.parent)
    photographs = sorted(own.parent.glob("p*.jpg"))
    for photograph in photographs[-2:]:
        photograph.unlink()
    shutil.rmtree(own.parent / "stored")
    features(own, tmp_path / "stored")
    command = [str(own), "--features", str(tmp_path / "stored"), "--device", "cpu"]
    command += ["--set", "train.batch=12", "--set", "train.epochs=1", "--folds", "2"]
    code, output = told(*command, "--out", str(tmp_path / "out"))
    assert code == 0, output
    assert "2 fold models by the recipe audit/light on cpu" in output
    found = Model.from_pretrained(tmp_path / "out" / "folds" / "fold0")
    assert found.visual["parts"] == Recipe.open("audit/light").features.grid ** 2
    about = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert about["judged_by"] == "judged by 2 models (audit/light) that had not seen them"
    assert about["fingerprint"] == open_dataset(str(own)).fingerprint


def test_a_name_that_no_file_can_have_is_told():
    with pytest.raises(AvowError, match=r"There is no dataset 'a\\x00b'\. Expected"):
        told("a\0b")
