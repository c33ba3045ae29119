"""The audit: plain loops, wrong pairs found, files that come back, a page with ticks."""

import csv
import json
import math
import shutil
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import default_backbone, small_recipe, write_precomp
from search_samples import save_toy
from test_training import as_toml
from tiers import long
from typer.testing import CliRunner

from avow.assembly.features import extract
from avow.assembly.model import Model
from avow.assembly.recipe import Recipe
from avow.audit.files import (
    cleanlab_columns,
    load_judged,
    read_decisions,
    save_judged,
    write_cleaned,
    write_findings,
)
from avow.audit.judge import Audit, Finding, Judged, looked_at
from avow.audit.page import write_page
from avow.audit.pair_features import given_pairs, made_up_pairs, standing
from avow.audit.wrong_pairs import suspect
from avow.cli import app
from avow.core.contracts import PairedDataset, Split
from avow.core.errors import BadData, WrongTrust
from avow.data.noise import draw_noise
from avow.data.opening import open_dataset
from avow.data.readers.sample import build as open_sample
from avow.training.folds import chosen, deal
from avow.training.setup import fold_recipe


def scores_of(image_of: np.ndarray, seed: int = 0, views: int = 2) -> list[np.ndarray]:
    """Similarities that tell right from wrong, but not always."""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((int(image_of.max()) + 1, 12))
    texts = images[image_of] + 0.9 * rng.standard_normal((len(image_of), 12))
    out = []
    for _ in range(views):
        left = images + 0.2 * rng.standard_normal(images.shape)
        right = texts + 0.2 * rng.standard_normal(texts.shape)
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        right /= np.linalg.norm(right, axis=1, keepdims=True)
        out.append((left @ right.T).astype(np.float32))
    return out


IMAGE_OF = np.repeat(np.arange(8), 3)


def test_standing_equals_a_plain_loop():
    views, tau = scores_of(IMAGE_OF), 0.1
    found = standing(views, given_pairs(IMAGE_OF), tau).measures
    together = np.mean(views, 0)
    for text, image in enumerate(IMAGE_OF):
        own = float(together[image, text])
        rivals = [float(together[j, text]) for j in range(8) if j != image]
        others = [float(together[image, t]) for t in range(24) if IMAGE_OF[t] != image]
        for name, against in (("image", rivals), ("text", others)):
            whole = sum(math.exp(s / tau) for s in [own, *against])
            assert float(found[f"share of {name}"][text]) == pytest.approx(
                own / tau - math.log(whole), abs=1e-4
            )
            above = sum(s >= own for s in against)
            assert float(found[f"rank of {name}"][text]) == pytest.approx(math.log1p(above))
            assert float(found[f"lead of {name}"][text]) == pytest.approx(
                own - max(against), abs=1e-5
            )
        siblings = [t for t in range(24) if IMAGE_OF[t] == image and t != text]
        alike = [np.corrcoef(together[:, text], together[:, t])[0, 1] for t in siblings]
        assert float(found["like its siblings"][text]) == pytest.approx(
            np.mean(alike), abs=1e-4
        )


@pytest.mark.parametrize("together", [False, True])
def test_made_up_pairs_are_wrong_and_of_either_kind(together):
    image_of = np.repeat(np.arange(100), 3)
    made = made_up_pairs(image_of, 0, together)
    assert (made.image != image_of).all()
    assert 0.4 < (made.hidden_images >= 0).mean() < 0.6
    own = image_of
    beside = own if together else made.image
    for place in range(len(made)):
        siblings = made.siblings[place]
        owners = set(own[siblings[siblings >= 0]].tolist())
        # of the image it came to, or of the one it left together with them
        assert owners == {int(beside[place])}
        assert int(made.text[place]) not in siblings.tolist()


def test_a_hidden_image_is_no_rival():
    views = scores_of(IMAGE_OF, views=1)
    made = made_up_pairs(IMAGE_OF, 1)
    found = standing(views, made, 0.1).measures
    for place in range(len(made)):
        text, image = int(made.text[place]), int(made.image[place])
        hidden = int(made.hidden_images[place, 0])
        own = views[0][image, text]
        above = sum(views[0][j, text] >= own for j in range(8) if j not in (image, hidden))
        assert float(found["rank of image"][place]) == pytest.approx(math.log1p(above))


@pytest.mark.parametrize("by", ["image", "caption"])
def test_wrong_pairs_are_found_and_counted(by):
    from sklearn.metrics import average_precision_score

    truth = np.repeat(np.arange(200), 5)
    split = Split(tuple(map(str, range(200))), tuple(map(str, range(1000))), truth)
    noise = draw_noise(split, 0.2, by, "derangement")
    wrong, said = noise.wrong(split), noise.image_of(split)
    views = scores_of(truth)
    given, *astray = looked_at(views, said, 0.05, 0)
    found = suspect(given, astray, said)
    raw = average_precision_score(wrong, -given.measures["similarity"])
    assert average_precision_score(wrong, found.order) > max(raw, 0.9)
    assert found.share == pytest.approx(0.2, abs=0.06)
    assert found.probability[wrong].mean() > 0.7 > 0.1 > found.probability[~wrong].mean()
    ordered = found.probability[np.argsort(found.order)]
    assert (np.diff(ordered) >= 0).all()


@pytest.mark.parametrize("pairs", [50, long(64)])
def test_few_pairs_are_judged_too(pairs):
    """Trees that want forty examples in a leaf cannot divide what sixty pairs give."""
    from sklearn.metrics import average_precision_score

    truth = np.arange(pairs)
    said, wrong = truth.copy(), np.arange(0, pairs, 9)
    said[wrong] = np.roll(wrong, 1)
    given, *astray = looked_at(scores_of(truth), said, 0.05, 0)
    found = suspect(given, astray, said)
    assert average_precision_score(said != truth, found.order) > 0.8
    assert 0.05 < found.share < 0.3


@pytest.mark.usefixtures("some_trees")
def test_captions_astray_alone_come_before_images_astray():
    """Looked for alone, single wrong captions rank above those of wrong images."""
    truth = np.repeat(np.arange(90), 5)
    split = Split(tuple(map(str, range(90))), tuple(map(str, range(450))), truth)
    said = draw_noise(split, 0.1, "image", "derangement").image_of(split)
    whole = said != truth
    single = np.flatnonzero(~whole)[::20]
    said[single] = np.roll(said[single], 1)
    given, alone, together = looked_at(scores_of(truth), said, 0.05, 0)
    either, narrow = (suspect(given, kinds, said) for kinds in ((alone, together), (alone,)))
    for found, above in ((either, False), (narrow, True)):
        ahead = np.mean(found.order[single][:, None] > found.order[whole][None])
        assert (ahead > 0.5) == above


def test_folds_share_the_images_out():
    fold_of = deal(103, 5, 0)
    assert sorted(np.bincount(fold_of)) == [20, 20, 21, 21, 21]
    assert np.array_equal(fold_of, deal(103, 5, 0))
    whole = Split(("a", "b", "c"), ("a1", "c1", "b1", "c2"), np.array([0, 2, 1, 2]))
    part = chosen(whole, np.array([True, False, True]))
    assert part.image_ids == ("a", "c") and part.captions == ("a1", "c1", "c2")
    assert part.image_of.tolist() == [0, 1, 1]


# --- files ------------------------------------------------------------------------------


def finding(pair: int, probability: float, **changes) -> Finding:
    known = {
        "pair": pair,
        "split": "train",
        "image": f"i{pair}.jpg",
        "caption": f'a "caption", {pair}',
        "probability": probability,
        "in_sample": False,
        "similarity": 0.1,
        "images_above": 3,
        "captions_above": 0,
        "better_image": "i0.jpg",
        "better_caption": "",
        "why": "3 other images suit the caption at least as well",
    }
    return Finding(**{**known, **changes})


def test_the_lists_and_cleanlab_s_columns(tmp_path):
    found = Audit((finding(2, 0.9), finding(0, 0.6, better_image=""), finding(1, 0.1)), 0.3)
    write_findings(found, tmp_path, 0.5)
    with (tmp_path / "pairs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["pair"] for row in rows] == ["2", "0", "1"]
    assert rows[0]["caption"] == 'a "caption", 2'
    lines = (tmp_path / "pairs.jsonl").read_text().splitlines()
    assert [json.loads(line)["probability"] for line in lines] == [0.9, 0.6, 0.1]
    names, columns = cleanlab_columns(found, 0.5)
    assert names[0] == "pair" and [row["pair"] for row in columns] == [0, 1, 2]
    assert names[1:] == ["is_label_issue", "label_score", "given_label", "predicted_label"]
    assert [row["is_label_issue"] for row in columns] == [True, False, True]
    assert columns[0]["predicted_label"] == columns[0]["given_label"] == "i0.jpg"
    assert columns[2]["label_score"] == pytest.approx(0.1)


def test_what_was_judged_is_kept_for_the_same_model_only(tmp_path):
    given, *astray = looked_at(scores_of(IMAGE_OF), IMAGE_OF, 0.1, 0)
    judged = Judged(np.arange(24), given, *astray, ["i"] * 24, ["é"] * 24)
    save_judged(judged, tmp_path / "judged-0.npz", "abc")
    again = load_judged(tmp_path / "judged-0.npz", "abc")
    assert again is not None and again.better_caption == ["é"] * 24
    for name, value in given.measures.items():
        assert np.array_equal(again.given.measures[name], value)
    assert load_judged(tmp_path / "judged-0.npz", "abd") is None
    for made_up in (b"no array", b""):  # a member that is no array comes as bytes
        path = Path(shutil.copy(tmp_path / "judged-0.npz", tmp_path / "other.npz"))
        with zipfile.ZipFile(path) as whole:
            members = {name: whole.read(name) for name in whole.namelist()}
        with zipfile.ZipFile(path, "w") as changed:
            for name, content in (members | {"better_caption.npy": made_up}).items():
                changed.writestr(name, content)
        assert load_judged(path, "abc") is None
    whole = (tmp_path / "judged-0.npz").read_bytes()
    for rest in (whole[: len(whole) // 2], b"", b"cut short"):
        (tmp_path / "judged-0.npz").write_bytes(rest)
        assert load_judged(tmp_path / "judged-0.npz", "abc") is None


@pytest.fixture
def photographs(tmp_path) -> PairedDataset:
    """Four photographs with two captions each, as a file of pairs."""
    rows = []
    for number in range(4):
        Image.new("RGB", (40, 30), (60 * number, 90, 90)).save(tmp_path / f"i{number}.jpg")
        rows += [f"i{number}.jpg,caption {number}{letter},train" for letter in "ab"]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n")
    return open_dataset(str(tmp_path / "mine.csv"))


HEAD = "split,pair,image,caption,decision,better_image\n"


def test_decisions_make_a_cleaned_dataset_and_leave_the_old_one(tmp_path, photographs):
    before = (tmp_path / "mine.csv").read_bytes()
    (tmp_path / "decisions.csv").write_text(
        HEAD
        + 'train,0,i0.jpg,"caption 0a",wrong,i1.jpg\n'
        + "train,3,i1.jpg,caption 1b,move,i2.jpg\n"
        + "train,4,i2.jpg,caption 2a,right,\n"
    )
    decisions = read_decisions(tmp_path / "decisions.csv")
    done = write_cleaned(photographs, decisions, tmp_path / "new" / "cleaned")
    assert done == {"kept": 5, "right": 1, "wrong": 1, "move": 1}
    cleaned = open_dataset(str(tmp_path / "new" / "cleaned" / "pairs.jsonl")).splits["train"]
    told = dict(zip(cleaned.captions, cleaned.image_of, strict=True))
    names = {caption: Path(cleaned.image_ids[n]).name for caption, n in told.items()}
    assert "caption 0a" not in names and len(names) == 7
    assert names["caption 1b"] == "i2.jpg" and names["caption 1a"] == "i1.jpg"
    assert cleaned.files is not None and all(path.is_file() for path in cleaned.files)
    assert (tmp_path / "mine.csv").read_bytes() == before
    with pytest.raises(BadData, match="There is something in"):
        write_cleaned(photographs, decisions, tmp_path / "new" / "cleaned")


@pytest.mark.parametrize(
    ("row", "error", "told"),
    [
        ("train,0,i0.jpg,caption 0a,maybe,", BadData, "a decision out of right, wrong, move"),
        ("train,0,i0.jpg,caption 0a", BadData, "is no decision .too few fields"),
        (f"train,{'9' * 5000},i0.jpg,caption 0a,wrong,", BadData, "is no decision .pair '999"),
        ('train,0,i0.jpg,"caption 0a,wrong,', BadData, "unexpected end of data"),
        ("train,0,i0.jpg,caption 0a,wrong,\ntrain,0,i0.jpg,caption 0a,right,", BadData, "two"),
        ("train,0,i0.jpg,another,wrong,", WrongTrust, "the decision is about 'i0.jpg' with"),
        ("train,99,i0.jpg,caption 0a,wrong,", WrongTrust, "There is no pair 99 in split"),
        ("train,0,i0.jpg,caption 0a,move,x.jpg", BadData, "which is no image of 'mine'"),
    ],
)
def test_decisions_about_something_else_are_refused(tmp_path, photographs, row, error, told):
    (tmp_path / "decisions.csv").write_text(f"{HEAD}{row}\n")
    with pytest.raises(error, match=told):
        write_cleaned(photographs, read_decisions(tmp_path / "decisions.csv"), tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("text", ["", "hello\n", "split;pair;image;caption;decision\n"])
def test_a_file_without_decisions_is_refused(tmp_path, text):
    (tmp_path / "decisions.csv").write_text(text)
    with pytest.raises(BadData, match=r"is no decision \(no column"):
        read_decisions(tmp_path / "decisions.csv")


def test_a_caption_of_two_lines_is_itself_however_they_end(tmp_path, photographs):
    split = photographs.splits["train"]
    split = replace(split, captions=("one\r\ntwo", *split.captions[1:]))
    rows = HEAD + 'train,0,i0.jpg,"one\ntwo",wrong,\n'
    (tmp_path / "decisions.csv").write_bytes(rows.encode())
    decisions = read_decisions(tmp_path / "decisions.csv")
    mine = PairedDataset("mine", {"train": split})
    assert write_cleaned(mine, decisions, tmp_path / "o")["wrong"] == 1


# --- who judges -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "device", "name", "expected"),
    [
        ("flickr8k", "cpu", "", "audit/light"),
        ("flickr8k", "cuda", "", "flickr8k/vse_infty_tcl_decl"),
        ("mine", "cuda:1", "", "audit/light"),
        ("flickr8k", "cpu", "flickr8k/vse_infty_tcl", "flickr8k/vse_infty_tcl"),
    ],
)
def test_fold_models_are_light_without_cuda(dataset, device, name, expected):
    mine = PairedDataset(dataset, {})
    recipe = fold_recipe(name, f"{dataset}.csv", mine, ["train.epochs=2"], 3, device)
    assert recipe.name == expected
    assert recipe.data["name"] == f"{dataset}.csv"
    assert (recipe.train.epochs, recipe.train.seed) == (2, 3)


def test_the_light_recipe_reads_every_caption_once():
    """A caption that is augmented is another caption, and would be read anew."""
    recipe = Recipe.open("audit/light")
    assert recipe.method["text"] == "kept"
    assert recipe.train.words_changed == 0
    assert not recipe.train.graphs  # what is looked up in a table cannot be recorded


def test_a_model_knows_what_it_learnt_from():
    packaged = Model.from_pretrained("default")
    for name in ("flickr8k", "coco"):
        assert packaged.learnt_from(PairedDataset(name, {}))
    mine = PairedDataset("mine", {})
    assert not packaged.learnt_from(mine)
    packaged.history = {"dataset": "another", "data": mine.fingerprint}
    assert packaged.learnt_from(mine)
    assert packaged.learnt_from(PairedDataset("another", {}))


@pytest.mark.usefixtures("few_trees")
def test_a_folder_called_default_is_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Model.from_pretrained("default").recipe.name == "default/photographs"
    Path("default").mkdir()  # one without a model hides nothing
    assert Model.from_pretrained("default").recipe.name == "default/photographs"
    save_toy(Path("default"))
    assert Model.from_pretrained("default").recipe.name == "toy"


# --- the whole way ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def slipped(tmp_path_factory) -> tuple[Path, set[str]]:
    """The sample as a file of pairs in which four captions have changed places."""
    home = tmp_path_factory.mktemp("slipped")
    split = open_sample().splits["train"]
    image_of = split.image_of.copy()
    moved = np.array([0, 21, 42, 63])
    image_of[moved] = image_of[np.roll(moved, 1)]
    lines = [
        {"image": str((split.files or ())[image]), "caption": caption, "split": "train"}
        for caption, image in zip(split.captions, image_of, strict=True)
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (home / "slipped.jsonl").write_text(text)
    return home / "slipped.jsonl", {split.captions[n] for n in moved}


@pytest.fixture(scope="module")
def stored(slipped, tmp_path_factory) -> Path:
    """Its features, as `avow features` makes them."""
    out = tmp_path_factory.mktemp("features") / "stored"
    extract(open_dataset(str(slipped[0])), default_backbone(), out, progress=False)
    return out


@pytest.mark.usefixtures("some_trees")
def test_the_packaged_model_finds_slipped_captions(slipped, stored, tmp_path):
    """In somebody's own pictures, without any training."""
    command = ["audit", str(slipped[0]), "--run", "default", "--features", str(stored)]
    command += ["--worst", "3"]
    told = CliRunner().invoke(
        app, [*command, "--out", str(tmp_path / "out"), "--device", "cpu", "--json"]
    )
    assert told.exit_code == 0, told.output
    about = json.loads(told.output.splitlines()[-1])
    assert about["pairs"] == 72 and not about["in_sample"]
    assert about["judged_by"] == "judged by the model that comes with Avow"
    lines = (tmp_path / "out" / "pairs.jsonl").read_text().splitlines()
    first = [json.loads(line)["caption"] for line in lines[:6]]
    assert len(slipped[1] & set(first)) >= 3
    stamp = (tmp_path / "out" / "judged-0.npz").stat().st_mtime_ns
    again = [*command, "--out", str(tmp_path / "out"), "--device", "cpu", "--json"]
    told = CliRunner().invoke(app, [*again, "--error-kind", "alone"])
    assert (
        told.exit_code == 0
        and json.loads(told.output.splitlines()[-1])["error_kind"] == "alone"
    )
    assert (tmp_path / "out" / "judged-0.npz").stat().st_mtime_ns == stamp
    alone = (tmp_path / "out" / "pairs.jsonl").read_text().splitlines()
    first = [json.loads(line)["caption"] for line in alone[:6]]
    assert len(slipped[1] & set(first)) >= 3 and alone != lines


@pytest.mark.usefixtures("few_trees")
@pytest.mark.long  # of fewer photographs: test_audit_again.py
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_light_folds_from_stored_features(slipped, stored, tmp_path, noise):
    command = ["audit", str(slipped[0]), "--features", str(stored), "--folds", "2"]
    command += ["--out", str(tmp_path / "out"), "--device", "cpu", "--worst", "3"]
    changes = ["--set", "train.batch=12", "--set", "train.epochs=1"]
    changes += ["--set", f"noise.ratio={noise}"] if noise else []
    told = CliRunner().invoke(app, [*command, *changes])
    assert told.exit_code == 0, told.output
    assert "2 fold models by the recipe audit/light on cpu" in told.output
    found = Model.from_pretrained(tmp_path / "out" / "folds" / "fold0")
    assert found.visual["parts"] == Recipe.open("audit/light").features.grid ** 2
    about = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert about["judged_by"] == "judged by 2 models (audit/light) that had not seen them"
    given = open_dataset(str(slipped[0]))
    assert (about["fingerprint"] == given.fingerprint) == (noise == 0)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.slow
def test_audit_from_the_command_line(tmp_path, monkeypatch):
    """Fold models, then a run: lists, page, and nothing trained or scored twice."""
    monkeypatch.chdir(tmp_path)
    data = write_precomp(tmp_path / "toy_precomp")
    (tmp_path / "toy.toml").write_text(as_toml(small_recipe(data, epochs=2)))
    command = ["audit", str(data), "--recipe", "toy.toml", "--folds", "2", "--device", "cpu"]
    command += ["--out", "out", "--json", "--set", "train.batch=16"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    about = json.loads(told.output.splitlines()[-1])
    assert about["pairs"] == 240 and not about["in_sample"]
    stamp = (tmp_path / "out" / "judged-0.npz").stat().st_mtime_ns
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "out" / "judged-0.npz").stat().st_mtime_ns == stamp
    run = ["audit", str(data), "--run", "out/folds/fold0", "--split", "test", "--out", "b"]
    told = CliRunner().invoke(app, [*run, "--device", "cpu"])
    assert told.exit_code == 0, told.output
    assert "of 120 pairs are wrong with 50% or more" in told.output
    assert (tmp_path / "b" / "index.html").is_file()


class Cards(HTMLParser):
    """The suspect pairs of a page, and what can be ticked."""

    def __init__(self, page: Path):
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.values: list[str | None] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("class") == "suspect":
            self.found.append(given)
        elif tag == "input" and given["type"] == "radio":
            self.values.append(given["value"])


def test_page_keeps_captions_as_they_are(tmp_path):
    """The script writes decisions from the attributes, and a caption is no HTML."""
    odd = 'two\n"lines" & <script>alert(1)</script>'
    found = [finding(3, 0.9, caption=odd), finding(4, 0.8, better_image="")]
    about = {"dataset": "<i>", "split": "train", "pairs": 8, "images": 4, "share": 0.1}
    about |= {"judged_by": "a model", "in_sample": 1200, "fingerprint": "abc"}
    page = write_page(found, about, tmp_path, None)
    text, cards = page.read_text("utf-8"), Cards(page)
    assert "<i>" not in text and "<script>alert" not in text
    assert '<main data-audit="abc"' in text and "learnt from 1,200 of these pairs" in text
    assert [card["data-caption"] for card in cards.found] == [odd, found[1].caption]
    assert [(card["data-pair"], card["data-better"]) for card in cards.found] == [
        ("3", "i0.jpg"),
        ("4", ""),
    ]
    assert cards.values == ["", "right", "wrong", "move", "", "right", "wrong"]


@pytest.mark.usefixtures("few_trees")
@pytest.mark.browser
def test_ticks_are_saved_and_read_back(tmp_path, visit, photographs):
    found = [
        finding(n, 0.9 - n / 10, image=f"i{n // 2}.jpg", caption=f"caption {n // 2}{letter}")
        for n, letter in enumerate("abab")
    ]
    files = photographs.splits["train"]
    pictures = dict(zip(files.image_ids, files.files or (), strict=True))
    about = {"dataset": "mine", "split": "train", "pairs": 8, "images": 4, "share": 0.1}
    about |= {"judged_by": "a model", "in_sample": False, "fingerprint": "abc"}
    page = write_page(found, about, tmp_path, pictures.get)
    seen = visit(page)
    cards = seen.page.locator(".suspect")
    assert cards.count() == 4 and seen.unseen_images() == []
    cards.nth(0).get_by_label("wrong: leave out").check()
    cards.nth(2).get_by_label("wrong: give the caption").check()
    assert seen.page.locator("#decided").inner_text() == "2 of 4 decided"
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("button", name="Save decisions.csv").click()
    waiting.value.save_as(tmp_path / "decisions.csv")
    done = write_cleaned(
        photographs, read_decisions(tmp_path / "decisions.csv"), tmp_path / "o"
    )
    assert (done["wrong"], done["move"]) == (1, 1)
    assert seen.complaints == [] and not seen.scrolls_sideways()
