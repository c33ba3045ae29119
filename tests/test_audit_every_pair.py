"""An audit looks at every pair, takes tables of others, and gives its findings to others."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from search_samples import ColourEncoder, colours_of, picture
from typer.testing import CliRunner

import avow
from avow.audit.exports import write_exports
from avow.audit.files import read_decisions, write_cleaned
from avow.cli import app
from avow.core.errors import BadData, MissingExtra
from avow.data.opening import open_dataset

pytestmark = pytest.mark.usefixtures("few_trees")

PAIRS, WRONG = 100, 10


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    """A CSV without a split column: a hundred pairs, of which ten are wrong."""
    home = tmp_path_factory.mktemp("listed")
    rows = []
    for number in range(PAIRS):
        picture(number, 32).save(home / f"{number:03d}.png")
        main, under = colours_of(number if number >= WRONG else number + 45)
        rows.append(f"{number:03d}.png,a {main} wall below {under} sky {number}")
    (home / "mine.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    return home / "mine.csv"


def wrong_captions(listed: Path) -> set[str]:
    return {row.partition(",")[2] for row in listed.read_text().splitlines()[1 : WRONG + 1]}


def test_every_row_is_judged_by_default(listed, tmp_path):
    """Hashed into splits, 238 of 300 pairs were judged, and 6 of 30 wrong ones never seen."""
    dataset = open_dataset(str(listed))
    assert len(dataset.splits) == 3 and not dataset.own_splits
    audit = avow.audit_pairs(str(listed), run=ColourEncoder(), out=tmp_path / "out")
    assert len(audit.findings) == PAIRS
    assert {finding.caption for finding in audit.findings} >= wrong_captions(listed)
    about = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert (about["pairs"], about["split"]) == (PAIRS, "all")
    for finding in audit.findings:  # under the split and the place that the dataset has it
        split = dataset.splits[finding.split]
        assert split.captions[finding.pair] == finding.caption
        assert split.image_ids[split.image_of[finding.pair]] == finding.image
    first = {finding.caption for finding in audit.findings[:WRONG]}
    assert len(first & wrong_captions(listed)) >= WRONG - 3


def test_a_split_can_still_be_named(listed, tmp_path):
    audit = avow.audit_pairs(
        str(listed), run=ColourEncoder(), split="train", out=tmp_path / "out"
    )
    assert len(audit.findings) == len(open_dataset(str(listed)).splits["train"].captions)


def test_a_caption_moves_to_a_better_image_of_another_split(listed, tmp_path):
    dataset = open_dataset(str(listed))
    source, other = dataset.splits["train"], dataset.splits["test"]
    rows = [
        "split,pair,image,caption,decision,better_image",
        f"train,0,{source.image_ids[0]},{source.captions[0]},move,{other.image_ids[0]}",
    ]
    (tmp_path / "decisions.csv").write_text("\n".join(rows) + "\n")
    write_cleaned(dataset, read_decisions(tmp_path / "decisions.csv"), tmp_path / "clean")
    cleaned = open_dataset(str(tmp_path / "clean" / "pairs.jsonl"))
    split = cleaned.splits["test"]
    place = split.captions.index(source.captions[0])
    assert Path(split.image_ids[split.image_of[place]]).name == other.image_ids[0]


@pytest.mark.long
def test_fold_models_learn_from_and_judge_every_pair_without_splits(listed, tmp_path):
    command = ["audit", str(listed), "--folds", "2", "--out", str(tmp_path / "out")]
    command += ["--set", "train.batch=12", "--set", "train.epochs=1", "--device", "cpu"]
    features = tmp_path / "features"
    made = CliRunner().invoke(
        app, ["features", str(listed), "--run", "default", "--out", str(features)]
    )
    assert made.exit_code == 0, made.output
    told = CliRunner().invoke(app, [*command, "--features", str(features), "--json"])
    assert told.exit_code == 0, told.output
    about = json.loads(told.output.splitlines()[-1])
    assert (about["pairs"], about["split"]) == (PAIRS, "all")
    rows = (tmp_path / "out" / "pairs.jsonl").read_text().splitlines()
    assert {json.loads(row)["split"] for row in rows} == {"train", "dev", "test"}


# --- tables of others -------------------------------------------------------------------------


def rows_of(listed: Path, count: int = 12) -> list[tuple[str, str]]:
    lines = listed.read_text().splitlines()[1 : count + 1]
    return [tuple(line.split(",", 1)) for line in lines]  # type: ignore[misc]


def pairs_of(dataset) -> set[tuple[bytes, str]]:
    """Every pair by the bytes of its picture and its caption."""
    return {
        ((split.files or ())[image].read_bytes(), caption)
        for split in dataset.splits.values()
        for image, caption in zip(split.image_of, split.captions, strict=True)
    }


def expected(listed: Path) -> set[tuple[bytes, str]]:
    return {((listed.parent / name).read_bytes(), text) for name, text in rows_of(listed)}


def test_parquet_with_paths_and_with_pictures_inside(listed, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = [text for _, text in rows_of(listed)]
    paths = [str(listed.parent / name) for name, _ in rows_of(listed)]
    inside = [{"bytes": Path(path).read_bytes(), "path": None} for path in paths]
    for name, images in (("paths", paths), ("inside", inside)):
        file = tmp_path / f"{name}.parquet"
        parquet.write_table(pa.table({"image": images, "caption": texts}), file)
        dataset = open_dataset(str(file))
        assert pairs_of(dataset) == expected(listed) and not dataset.own_splits


def test_folders_of_datasets(listed, tmp_path):
    """As the package itself saves them: one split, several, and Parquet as on the hub."""
    datasets = pytest.importorskip("datasets")
    rows = [
        {"image": str(listed.parent / name), "text": [text, f"{text} again"]}
        for name, text in rows_of(listed)
    ]
    saved = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
    more = ("", " again")
    both = {(content, text + end) for content, text in expected(listed) for end in more}
    saved.save_to_disk(tmp_path / "one")
    assert pairs_of(open_dataset(str(tmp_path / "one"))) == both
    parts = datasets.DatasetDict(
        {"train": saved.select(range(8)), "validation": saved.select(range(8, 12))}
    )
    parts.save_to_disk(tmp_path / "several")
    found = open_dataset(str(tmp_path / "several"))
    assert pairs_of(found) == both and found.own_splits
    assert {name: len(split.image_ids) for name, split in found.splits.items()} == {
        "train": 8,
        "dev": 4,
    }
    (tmp_path / "hub" / "data").mkdir(parents=True)
    for name, part in parts.items():
        part.to_parquet(tmp_path / "hub" / "data" / f"{name}-00000-of-00001.parquet")
    assert open_dataset(str(tmp_path / "hub")).fingerprint  # pictures lie in `embedded`
    assert pairs_of(open_dataset(str(tmp_path / "hub"))) == both


def test_tables_that_cannot_be_read(tmp_path, monkeypatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "odd.parquet")
    with pytest.raises(BadData) as told:
        open_dataset(str(tmp_path / "odd.parquet"))
    assert str(told.value) == (
        f"There is no column called 'image', 'img', 'picture' in '{tmp_path}/odd.parquet'. It "
        "has: a, b. Rename it, or set image_column."
    )
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadData, match="cannot be read"):
        open_dataset(str(tmp_path / "broken.parquet"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"avow\[tables\]"):
        open_dataset(str(tmp_path / "odd.parquet"))


# --- for other tools ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(listed, tmp_path_factory):
    out = tmp_path_factory.mktemp("audited")
    audit = avow.audit_pairs(str(listed), run=ColourEncoder(), out=out)
    files = {f"{n:03d}.png": listed.parent / f"{n:03d}.png" for n in range(PAIRS)}
    return audit, files, out


def test_export_for_datasets_is_read_by_the_package(audited):
    datasets = pytest.importorskip("datasets")
    audit, files, out = audited
    place = write_exports(["datasets"], audit.findings, files, out)["datasets"]
    read = datasets.Dataset.from_parquet(place, cache_dir=str(out / "cache"))
    assert len(read) == PAIRS and isinstance(read.features["image"], datasets.Image)
    first = read[0]
    assert first["p_wrong"] == audit.findings[0].probability
    with Image.open(files[audit.findings[0].image]) as original:
        assert np.array_equal(np.asarray(first["image"]), np.asarray(original))


def test_export_for_fiftyone_has_the_keywords_of_a_sample(audited):
    audit, files, out = audited
    place = write_exports(["fiftyone"], audit.findings, files, out)["fiftyone"]
    rows = [json.loads(line) for line in Path(place).read_text().splitlines()]
    assert len(rows) == PAIRS and Path(rows[0]["filepath"]).is_file()
    assert rows[0]["p_wrong"] == audit.findings[0].probability
    assert not {"id", "_id", "metadata"} & set(rows[0])  # names that FiftyOne keeps
    fiftyone = pytest.importorskip("fiftyone")
    sample = fiftyone.Sample(**rows[0])
    assert sample.caption == rows[0]["caption"]


def test_export_from_the_command_line(tmp_path):
    pytest.importorskip("pyarrow")
    rows = []
    for number in range(10):
        picture(number, 32).save(tmp_path / f"{number}.png")
        rows += [f"{number}.png,a {colours_of(number)[0]} wall {place}" for place in range(6)]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    command = ["audit", str(tmp_path / "mine.csv"), "--run", "default", "--json"]
    command += ["--out", str(tmp_path / "out")]
    told = CliRunner().invoke(app, [*command, "--export", "fiftyone", "--export", "datasets"])
    assert told.exit_code == 0, told.output
    about = json.loads(told.output.splitlines()[-1])
    assert about["pairs"] == 60
    assert {Path(place).name for place in about["exports"].values()} == {
        "fiftyone.jsonl",
        "pairs.parquet",
    }
