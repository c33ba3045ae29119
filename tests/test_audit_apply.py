"""Decisions about an audit's pairs: kept by the page, and applied to a copy of the dataset."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from test_audit import HEAD, finding, photographs  # noqa: F401
from typer.testing import CliRunner

from avow.audit.files import Decision, write_cleaned
from avow.audit.page import write_page
from avow.cli import app
from avow.core.contracts import PairedDataset, Split
from avow.core.errors import WrongTrust
from avow.data.opening import open_dataset
from avow.data.readers.sample import build as open_sample

pytestmark = pytest.mark.usefixtures("few_trees")


def pairs_of(split: Split) -> Counter[tuple[str, str]]:
    """Every pair by the name of its photograph's file."""
    assert split.files is not None
    names = [split.files[image].name for image in split.image_of]
    return Counter(zip(names, split.captions, strict=True))


def decided(dataset: PairedDataset, split: str, pair: int, choice, better="") -> Decision:
    chosen = dataset.splits[split]
    image = chosen.image_ids[int(chosen.image_of[pair])]
    return Decision(split, pair, image, chosen.captions[pair], choice, better)


# --- the cleaned dataset ------------------------------------------------------------------


@pytest.mark.parametrize("is_link", [False, True])
def test_photographs_are_found_below_a_link(tmp_path, photographs, is_link):  # noqa: F811
    """A link leads to a place of another depth; what is cleaned may be cleaned again."""
    real = tmp_path / "a" / "deep" / "place"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    out = tmp_path / "link" if is_link else tmp_path / "link" / "cleaned"
    write_cleaned(photographs, [decided(photographs, "train", 0, "wrong")], out)
    once = open_dataset(str(out / "pairs.jsonl"))
    write_cleaned(once, [decided(once, "train", 3, "wrong")], tmp_path / "again")
    twice = open_dataset(str(tmp_path / "again" / "pairs.jsonl"))
    for dataset, count in ((once, 7), (twice, 6)):
        files = dataset.splits["train"].files or ()
        assert len(files) == 4 and all(file.is_file() for file in files)
        assert sum(pairs_of(dataset.splits["train"]).values()) == count


def test_photographs_that_link_to_one_file_stay_apart(tmp_path, photographs):  # noqa: F811
    (tmp_path / "i1.jpg").unlink()
    (tmp_path / "i1.jpg").symlink_to(tmp_path / "i0.jpg")
    write_cleaned(photographs, [], tmp_path / "cleaned")
    cleaned = open_dataset(str(tmp_path / "cleaned" / "pairs.jsonl"))
    assert pairs_of(cleaned.splits["train"]) == pairs_of(photographs.splits["train"])


def test_a_cleaned_sample_has_the_same_images_in_all_its_splits(tmp_path):
    sample = open_sample()
    better = sample.splits["dev"].image_ids[3]
    decisions = [
        decided(sample, "train", 5, "wrong"),
        decided(sample, "dev", 0, "move", better),
        decided(sample, "test", 1, "wrong"),
    ]
    write_cleaned(sample, decisions, tmp_path / "cleaned")
    cleaned = open_dataset(str(tmp_path / "cleaned" / "pairs.jsonl"))
    expected = {name: pairs_of(split) for name, split in sample.splits.items()}
    files = sample.splits["dev"].files
    assert files is not None
    for one in decisions:
        image = files[sample.splits["dev"].image_ids.index(one.image)].name
        expected[one.split][image, one.caption] -= 1
    expected["dev"][files[3].name, decisions[1].caption] += 1
    assert {name: pairs_of(split) for name, split in cleaned.splits.items()} == expected
    lines = (tmp_path / "cleaned" / "pairs.jsonl").read_text().splitlines()
    assert all(json.loads(line)["shared"] for line in lines)


# --- from the command line ----------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("as_json", [False, True])
def test_apply_from_the_command_line(tmp_path, photographs, as_json):  # noqa: F811
    (tmp_path / "decisions.csv").write_text(
        HEAD
        + "train,0,i0.jpg,caption 0a,wrong,i1.jpg\n"
        + "train,3,i1.jpg,caption 1b,move,i2.jpg\n"
        + "train,4,i2.jpg,caption 2a,right,\n"
    )
    before, out = contents(tmp_path), tmp_path / "cleaned"
    command = ["audit", str(tmp_path / "mine.csv"), "--out", str(out)]
    command += ["--apply", str(tmp_path / "decisions.csv")]
    told = CliRunner().invoke(app, [*command, *["--json"] * as_json])
    assert told.exit_code == 0, told.output
    if as_json:
        done = {"out": str(out), "kept": 5, "right": 1, "wrong": 1, "move": 1}
        assert json.loads(told.output) == done
    else:
        assert told.output.split() == (
            f"1 pairs left out, 1 moved, 6 kept -> {out / 'pairs.jsonl'}".split()
        )
    expected = pairs_of(photographs.splits["train"])
    expected.subtract([("i0.jpg", "caption 0a"), ("i1.jpg", "caption 1b")])
    expected["i2.jpg", "caption 1b"] += 1
    cleaned = open_dataset(str(out / "pairs.jsonl"))
    assert pairs_of(cleaned.splits["train"]) == expected
    (removed,) = (out / "removed.jsonl").read_text().splitlines()
    assert json.loads(removed)["caption"] == "caption 0a"
    assert contents(tmp_path) == before


def test_apply_that_cannot_be_done_writes_nothing(tmp_path, photographs):  # noqa: F811
    (tmp_path / "decisions.csv").write_text(f"{HEAD}train,0,i0.jpg,another,wrong,\n")
    before = sorted(tmp_path.iterdir())
    command = ["audit", str(tmp_path / "mine.csv"), "--apply", str(tmp_path / "decisions.csv")]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 2 and "--apply needs --out" in told.output
    told = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "cleaned")])
    assert told.exit_code != 0 and isinstance(told.exception, WrongTrust)
    assert sorted(tmp_path.iterdir()) == before


# --- the page -----------------------------------------------------------------------------


def audited(folder: Path, *findings) -> Path:
    about = {"dataset": "mine", "split": "train", "pairs": 8, "images": 4, "share": 0.1}
    about |= {"judged_by": "a model", "in_sample": False, "fingerprint": "abc"}
    folder.mkdir()
    return write_page(findings, about, folder, None)


@pytest.mark.browser
def test_ticks_outlive_other_pages_of_the_dataset(tmp_path, visit):
    """The pages share some pairs; one proposes another image for one of these."""
    first = audited(tmp_path / "a", finding(1, 0.9), finding(2, 0.8), finding(3, 0.7))
    other = finding(3, 0.7, better_image="i9.jpg")
    second = audited(tmp_path / "b", finding(2, 0.9), other, finding(4, 0.6))
    seen = visit(first)
    cards, count = seen.page.locator(".suspect"), seen.page.locator("#decided")
    cards.nth(0).get_by_label("wrong: leave out").check()
    cards.nth(1).get_by_label("wrong: leave out").check()
    cards.nth(2).get_by_label("wrong: give the caption").check()
    seen.page.goto(second.as_uri())
    assert count.inner_text() == "1 of 3 decided"  # nobody agreed to i9.jpg
    assert cards.nth(0).get_by_label("wrong: leave out").is_checked()
    cards.nth(2).get_by_label("right").check()
    cards.nth(0).get_by_label("not decided").check()
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("button", name="Save decisions.csv").click()
    waiting.value.save_as(tmp_path / "decisions.csv")
    with (tmp_path / "decisions.csv").open(newline="") as stream:
        saved = [(row["pair"], row["decision"]) for row in csv.DictReader(stream)]
    assert saved == [("4", "right")]  # what this page shows
    seen.page.goto(first.as_uri())
    assert count.inner_text() == "2 of 3 decided"
    assert cards.nth(0).get_by_label("wrong: leave out").is_checked()
    assert cards.nth(1).get_by_label("not decided").is_checked()
    assert cards.nth(2).get_by_label("wrong: give the caption").is_checked()
    assert seen.complaints == []
