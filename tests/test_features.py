"""Extraction and storage of features: resumable, complete, and suspicious of damage."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import skimage.data
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from samples import refusal

from avow.assembly.features import Extraction, cell_boxes, default_folder, extract, pooled
from avow.assembly.recipe import Recipe
from avow.assembly.stores import open_store
from avow.core.contracts import Backbone, PairedDataset, Split
from avow.core.errors import BadData, BadFeatures, BadRecipe, NoRoom, UnknownName
from avow.core.files import new_file
from avow.core.places import avow_home
from avow.data.coarse import coarser
from avow.data.features import FeatureRows, FeatureStore, NpyRows
from avow.data.shards import ShardWriter


class Colours(Backbone):
    """The mean colour of each of 4 x 4 cells: a backbone whose answers are plain."""

    dim = 3

    def __init__(self, size=32, poison=False):
        super().__init__()
        self.identity = {"backbone": "colours", "weights": "none", "size": size}
        self.size = size
        self.poison = poison

    def prepare(self, photograph):
        return np.array(photograph.convert("RGB").resize((self.size, self.size)))

    def forward(self, pixels):
        cells = pixels.float().unflatten(1, (4, -1)).unflatten(3, (4, -1)).mean((2, 4))
        return cells * torch.nan if self.poison else cells / 255


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Eleven crops of real photographs, as JPEG files."""
    folder = tmp_path_factory.mktemp("photographs")
    sources = [skimage.data.chelsea(), skimage.data.astronaut(), skimage.data.coffee()]
    for number in range(11):
        pixels = sources[number % 3][number * 9 : 200 + number * 5, 20 : 220 + number]
        Image.fromarray(pixels).save(folder / f"{number:02d}.jpg", quality=90)
    return sorted(folder.iterdir())


def split_of(files):
    ids = tuple(file.name for file in files)
    captions = tuple(f"caption of {name}" for name in ids)
    return Split(ids, captions, np.arange(len(ids)), tuple(files))


def dataset_of(files, name="crops", **others):
    splits = {"train": split_of(files)} | {k: split_of(v) for k, v in others.items()}
    return PairedDataset(name, splits)


def make(dataset, out, backbone=None, **chosen):
    splits, small = (
        chosen.pop("splits", None),
        {"grid": 2, "batch": 2, "shard": 4, "workers": 2},
    )
    how = Extraction(**{**small, **chosen})
    return extract(dataset, backbone or Colours(), out, how, splits=splits, progress=False)


def content(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


# --- extraction -------------------------------------------------------------------------


def test_features_are_those_of_the_photographs(photographs, tmp_path):
    store = make(dataset_of(photographs), tmp_path / "out")
    rows = store.split("train")
    assert rows.ids == tuple(file.name for file in photographs)
    assert rows.shape == (11, 4, 3) and rows.rows(np.arange(11)).dtype == np.float16
    for row, file in enumerate(photographs):
        with Image.open(file) as photograph:
            pixels = Colours().prepare(photograph).astype(float) / 255
        halves = pixels.reshape(2, 16, 2, 16, 3).mean((1, 3)).reshape(4, 3)
        np.testing.assert_allclose(rows.rows(np.array([row]))[0], halves, atol=2e-3)


def test_manifest_says_what_was_made(photographs, tmp_path):
    dataset = dataset_of(photographs[:6], dev=photographs[6:])
    manifest = make(dataset, tmp_path / "out").manifest
    assert manifest == {
        "format": 1,
        "dataset": "crops",
        "fingerprint": dataset.fingerprint,
        "backbone": Colours().identity,
        "grid": 2,
        "shard": 4,
        "dim": 3,
        "parts": 4,
        "dtype": "float16",
        "splits": {
            "train": {"images": 6, "shards": ["train-00000.npy", "train-00001.npy"]},
            "dev": {"images": 5, "shards": ["dev-00000.npy", "dev-00001.npy"]},
        },
        "skipped": [],
        "avow": "0.1.0",
    }


@pytest.mark.slow
def test_real_backbone_gives_the_same_alone_and_stored(photographs, tmp_path):
    from avow.backbones import efficientnet_lite0

    backbone = efficientnet_lite0.build(96)
    store = make(dataset_of(photographs[:3]), tmp_path / "out", backbone, grid=3)
    with Image.open(photographs[2]) as photograph:
        pixels = torch.from_numpy(backbone.prepare(photograph))[None]
    expected = backbone(pixels)[0].flatten(0, 1).half().numpy()
    stored = store.split("train").rows(np.array([2]))[0]
    np.testing.assert_allclose(stored, expected, rtol=0.01, atol=0.01)
    assert store.boxes.shape == (9, 4)


@pytest.mark.slow
def test_a_processor_takes_the_fast_path_of_indexing(photographs, tmp_path, monkeypatch):
    """Exported once; the features are those of torch to the rounding of float16."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from avow.backbones import efficientnet_lite0
    from avow.blocks import onnx_export

    monkeypatch.setenv("AVOW_HOME", str(tmp_path / "home"))
    backbone = efficientnet_lite0.build(64)
    before = dict(backbone.identity)
    store = make(dataset_of(photographs[:3]), tmp_path / "out", backbone, grid=2)
    assert [one.suffix for one in (tmp_path / "home" / "backbones").iterdir()] == [".onnx"]
    monkeypatch.setattr(onnx_export, "_PACKAGES", ("no_such_package",))
    plain = make(
        dataset_of(photographs[:3]), tmp_path / "plain", efficientnet_lite0.build(64), grid=2
    )
    one, other = (each.split("train").rows(np.arange(3)) for each in (store, plain))
    np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
    assert backbone.identity == before, "either way makes features of the same identity"
    resumed = make(dataset_of(photographs[:3]), tmp_path / "out", backbone, grid=2)
    assert resumed.folder == store.folder


def test_more_splits_can_follow(photographs, tmp_path):
    dataset = dataset_of(photographs[:6], dev=photographs[6:])
    first = make(dataset, tmp_path / "out", splits=["dev"])
    assert first.names == ["dev"]
    both = make(dataset, tmp_path / "out", splits=["train"])
    assert both.names == ["train", "dev"]
    assert content(tmp_path / "out") == content(make(dataset, tmp_path / "all").folder)


@pytest.mark.parametrize("grid", [1, 3, 4])
def test_cells_lie_where_their_boxes_say(grid):
    """A feature map that holds its own coordinates gives the middle of each box."""
    y, x = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
    places = (torch.stack([x, y], -1)[None] + 0.5) / 12
    found = pooled(places, grid, {})[0].numpy()
    boxes = cell_boxes(grid)
    np.testing.assert_allclose(found, (boxes[:, :2] + boxes[:, 2:]) / 2, atol=1e-6)


def test_default_folder_is_under_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    folder = default_folder("crops", "hub/name one", 256, 6)
    assert folder == tmp_path / "features" / "crops" / "hub-name-one-256px-6x6"


def test_home_follows_the_customs_of_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("AVOW_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    for system, place in [
        ("linux", "xdg/avow"),
        ("darwin", "Library/Application Support/avow"),
        ("win32", "local/avow"),
    ]:
        monkeypatch.setattr(sys, "platform", system)
        assert avow_home() == tmp_path / place


# --- photographs that cannot be read ----------------------------------------------------


def bomb(file):
    """A PNG that claims to be 20,000 pixels high and wide."""
    plain = io.BytesIO()
    Image.new("1", (1, 1)).save(plain, "PNG")
    header = bytearray(plain.getvalue())
    header[16:24] = (20_000).to_bytes(4, "big") * 2
    import zlib

    header[29:33] = zlib.crc32(bytes(header[12:29])).to_bytes(4, "big")
    file.write_bytes(header)


def test_broken_photographs_are_skipped_and_listed(photographs, tmp_path):
    broken = {name: tmp_path / name for name in ("cut", "empty", "gone", "text", "bomb")}
    broken["cut"].write_bytes(photographs[0].read_bytes()[:2000])
    broken["empty"].touch()
    broken["text"].write_text("not a photograph")
    bomb(broken["bomb"])
    files = [*photographs[:2], *broken.values(), *photographs[2:5]]
    store = make(dataset_of(files), tmp_path / "out")
    rows = store.split("train")
    assert rows.ids == tuple(file.name for file in photographs[:5])
    assert rows.rows_of(["cut", "00.jpg", "04.jpg", "gone"]).tolist() == [-1, 0, 4, -1]
    reasons = {one["id"]: one["reason"] for one in store.skipped}
    assert reasons.pop("cut").startswith("cannot be decoded (")
    assert reasons == {
        "empty": "the file is empty",
        "gone": "the file is missing",
        "text": "not a picture of a known format",
        "bomb": "cannot be decoded (the file ends in row 0)",
    }
    assert {one["split"] for one in store.skipped} == {"train"}
    clean = make(dataset_of(photographs[:5]), tmp_path / "clean").split("train")
    every = np.arange(5)
    np.testing.assert_array_equal(rows.rows(every), clean.rows(every))


def test_a_large_photograph_is_read_in_part_where_its_format_allows(photographs, tmp_path):
    large, whole = tmp_path / "large.png", tmp_path / "large.gif"
    Image.new("1", (10_000, 9_000), 1).save(large)
    Image.new("1", (10_000, 9_000), 1).save(whole)
    store = make(dataset_of([*photographs[:2], large, whole]), tmp_path / "out")
    assert store.split("train").ids[-1] == "large.png"
    np.testing.assert_allclose(store.split("train").rows(np.array([2])), 1)
    assert store.skipped == [
        {
            "id": "large.gif",
            "split": "train",
            "reason": "a GIF of 90000000 pixels; this format cannot be read in part; "
            "89478485 at most",
        }
    ]


def test_split_without_one_readable_photograph(photographs, tmp_path):
    files = [tmp_path / f"{number}.jpg" for number in range(6)]
    assert refusal(lambda: make(dataset_of(files), tmp_path / "out"), BadData) == (
        "None of the 6 images of split 'train' could be read. The first, '0.jpg': the "
        "file is missing. Expected photographs. Check the folder of images."
    )
    for file, photograph in zip(files, photographs, strict=False):
        file.write_bytes(photograph.read_bytes())
    assert len(make(dataset_of(files), tmp_path / "out").split("train")) == 6


def test_split_without_photographs(tmp_path):
    split = Split(("a",), ("one",), np.array([0]))
    assert refusal(
        lambda: make(PairedDataset("precomp", {"test": split}), tmp_path / "out"), BadData
    ) == (
        "The split 'test' of 'precomp' has no photographs. Expected image files to make "
        "features from. Use the features it comes with."
    )


def test_split_that_does_not_exist(photographs, tmp_path):
    assert refusal(
        lambda: make(dataset_of(photographs), tmp_path / "out", splits=["tain"]), UnknownName
    ) == (
        "There is no 'tain' in the splits of 'crops'. Did you mean 'train'? There are: train."
    )


def test_grid_finer_than_the_features(photographs, tmp_path):
    assert refusal(
        lambda: make(dataset_of(photographs), tmp_path / "out", grid=5), BadRecipe
    ) == (
        "A grid of 5 does not fit 'colours', which gives 4 x 4 cells at size 32. "
        "Expected 1 to 4. Choose another grid, or a larger size."
    )


def test_backbone_that_gives_no_numbers(photographs, tmp_path):
    assert refusal(
        lambda: make(dataset_of(photographs), tmp_path / "out", Colours(poison=True)),
        BadFeatures,
    ) == (
        "The backbone 'colours' gave values that are not finite in float16 for image "
        "'00.jpg'. Expected numbers. Use another backbone, or remove the image."
    )


# --- interrupted, repeated, mixed up ----------------------------------------------------

CHILD = """
import sys, time
from pathlib import Path
from test_features import Colours, dataset_of, make

class Waiting(Colours):
    seen = 0

    def prepare(self, photograph):
        self.seen += 1
        while self.seen == 30:  # until it is killed
            time.sleep(1)
        return super().prepare(photograph)

files = sorted(Path(sys.argv[1]).glob("*.jpg"))
make(dataset_of(files), Path(sys.argv[2]), Waiting(), workers=1)
"""


@pytest.mark.slow
def test_killed_run_continues_to_the_same_bytes(photographs, tmp_path):
    files = [tmp_path / "photographs" / f"{n:02d}.jpg" for n in range(40)]
    files[0].parent.mkdir()
    for number, file in enumerate(files):
        file.write_bytes(photographs[number % 11].read_bytes())
    files[5].write_bytes(b"broken")
    out = tmp_path / "out"
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent)])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(files[0].parent), str(out)],
        env={**os.environ, "PYTHONPATH": paths},
    )
    while not (out / "train-00002.npy").exists():
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert refusal(lambda: FeatureStore.open(out), BadFeatures) == (
        f"The features in {str(out)!r} are unfinished. Expected a complete folder. Run "
        "the same `avow features` again to continue."
    )
    kept = (out / "train-00001.npy").stat().st_mtime_ns
    for leftover in [*out.glob(".*.new"), *out.glob("*.partial")]:
        leftover.unlink()
    make(dataset_of(files), out)
    assert (out / "train-00001.npy").stat().st_mtime_ns == kept
    assert content(out) == content(make(dataset_of(files), tmp_path / "whole").folder)


def test_half_written_shard_is_made_again(photographs, tmp_path):
    whole = content(make(dataset_of(photographs), tmp_path / "whole").folder)
    out = make(dataset_of(photographs), tmp_path / "out").folder
    (out / "manifest.json").unlink()
    (out / "train-00001.npy").rename(out / "train-00001.npy.partial")
    os.truncate(out / "train-00001.npy.partial", 100)
    make(dataset_of(photographs), out)
    assert content(out) == whole


def test_finished_features_are_not_made_again(photographs, tmp_path):
    make(dataset_of(photographs), tmp_path / "out")
    poisoned = make(dataset_of(photographs), tmp_path / "out", Colours(poison=True))
    poisoned.check_finite()


def test_other_plan_is_refused(photographs, tmp_path):
    make(dataset_of(photographs), tmp_path / "out")
    assert refusal(
        lambda: make(dataset_of(photographs), tmp_path / "out", grid=4), BadFeatures
    ) == (
        f"The folder {str(tmp_path / 'out')!r} holds features of another plan: its grid "
        "is 2, this run's is 4. Expected the same plan to continue. Choose another "
        "--out, or delete that folder."
    )


def test_folder_of_something_else_is_left_alone(photographs, tmp_path):
    (tmp_path / "thesis.tex").touch()
    assert refusal(lambda: make(dataset_of(photographs), tmp_path), BadFeatures) == (
        f"{str(tmp_path)!r} exists and holds something other than features. Expected an "
        "empty or a new folder. Choose another --out."
    )


# --- a full disk ------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 256 kB, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk_keeps_what_was_written(small_disk):
    writer = ShardWriter(small_disk, remaining=5 * 64_000)
    shard = np.ones((10, 4, 800), np.float16)
    with pytest.raises(NoRoom) as caught:
        for number in range(5):
            writer.write("train", number, shard, ["x"] * 10, [])
    assert str(caught.value) == (
        f"The disk is full while writing {str(small_disk / 'train-00003.npy')!r}. "
        "Everything written before is kept. Free 1 MB and run the same command again to "
        "continue."
    )
    arrays = sorted(file.name for file in small_disk.iterdir() if file.suffix != ".json")
    assert arrays == [f"train-0000{number}.npy" for number in range(3)]
    np.testing.assert_array_equal(np.load(small_disk / "train-00002.npy"), shard)


def test_extraction_continues_after_the_disk_was_full(photographs, tmp_path, monkeypatch):
    from avow.data import shards

    real = shards.save_array
    written = []

    def full_at_the_second(file, array):
        written.append(array)
        if len(written) == 2:
            with new_file(file) as fresh:
                fresh.write_bytes(b"half")
                raise OSError(28, "No space left on device")
        real(file, array)

    monkeypatch.setattr(shards, "save_array", full_at_the_second)
    out = tmp_path / "out"
    assert refusal(lambda: make(dataset_of(photographs), out), NoRoom) == (
        f"The disk is full while writing {str(out / 'train-00001.npy')!r}. Everything "
        "written before is kept. Free 1 MB and run the same command again to continue."
    )
    assert not list(out.glob(".*"))
    make(dataset_of(photographs), out)
    assert content(out) == content(make(dataset_of(photographs), tmp_path / "w").folder)


# --- reading ----------------------------------------------------------------------------


@pytest.fixture
def store(photographs, tmp_path):
    return make(dataset_of(photographs), tmp_path / "out")


def write_manifest(store: FeatureStore, **changes: int) -> None:
    content = json.dumps({**store.manifest, **changes})
    (store.folder / "manifest.json").write_text(content)


@given(st.data())
def test_gathering_rows_equals_a_plain_loop(tmp_path_factory, data):
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    whole = np.arange(sum(sizes) * 6, dtype=np.float16).reshape(-1, 2, 3)
    folder = tmp_path_factory.mktemp("shards")
    files = [folder / f"{number}.npy" for number in range(len(sizes))]
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    for file, part in zip(files, parts, strict=True):
        np.save(file, part)
    rows = FeatureRows([str(number) for number in range(len(whole))], files)
    wanted = st.lists(st.integers(0, len(whole) - 1)) if len(whole) else st.just([])
    index = data.draw(wanted)
    expected = [whole[number] for number in index]
    gathered = rows.rows(np.array(index, np.int64))
    assert gathered.shape == (len(index), 2, 3) and gathered.dtype == np.float16
    np.testing.assert_array_equal(gathered, np.array(expected).reshape(-1, 2, 3))


def test_a_coarser_grid_is_the_mean_of_neighbouring_cells(photographs, tmp_path):
    fine = make(dataset_of(photographs), tmp_path / "fine", grid=4)
    found = coarser(fine, 2)
    every = np.arange(11)
    cells = fine.split("train").rows(every).astype(np.float32)
    for image in range(11):
        for row in range(2):
            for column in range(2):
                inside = [
                    cells[image, 4 * (2 * row + down) + 2 * column + right]
                    for down in range(2)
                    for right in range(2)
                ]
                np.testing.assert_allclose(
                    found.split("train").rows(every)[image, 2 * row + column],
                    np.mean(inside, 0),
                    rtol=2e-3,
                    atol=1e-3,
                )
    np.testing.assert_allclose(found.boxes, cell_boxes(2), atol=1e-6)
    found.check(grid=2)
    assert found.fingerprint != fine.fingerprint
    assert found.split("train").rows_of(["nobody.png"]).tolist() == [-1]


def test_a_recipe_reads_a_finer_store_in_the_usual_place(photographs, tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    recipe = Recipe.open("audit/light", ["data.name=crops"])
    with pytest.raises(BadFeatures, match="avow features crops --backbone efficientnet_lite2"):
        open_store(recipe, "crops", None)
    grid = recipe.features.grid if recipe.features else 0
    make(
        dataset_of(photographs),
        default_folder("crops", "efficientnet_lite2", 256, 4),
        grid=4,
    )
    assert open_store(recipe, "crops", None).manifest["grid"] == grid
    plain = Recipe.open("flickr8k/vse_infty_tcl", ["features.grid=4"])
    assert open_store(plain, "crops", None).manifest["grid"] == 4


@pytest.mark.parametrize("wrong", [-1, 11])
def test_rows_that_do_not_exist(store, wrong):
    assert refusal(lambda: store.split("train").rows(np.array([0, wrong])), BadFeatures) == (
        f"There is no row {wrong} in these features. Expected 0 to 10. Leave out the "
        "images that have no features."
    )


def test_rows_travel_between_processes_as_names(store):
    rows = store.split("train")
    every = np.arange(11)
    before = rows.rows(every)
    packed = pickle.dumps(rows)
    assert len(packed) < 2_000
    np.testing.assert_array_equal(pickle.loads(packed).rows(every), before)


def test_folder_without_features(tmp_path):
    assert refusal(lambda: FeatureStore.open(tmp_path), BadFeatures) == (
        f"The folder {str(tmp_path)!r} holds no features: it has no 'manifest.json'. "
        "Expected a folder made by `avow features`. Check the path, or make one."
    )


@pytest.mark.parametrize(
    "changed, why",
    [
        (
            {"format": 2},
            "The features in {folder!r} have format 2. Expected 1. Make them again with "
            "`avow features`.",
        ),
        (
            {"dim": 5},
            "The features of split 'train' in {folder!r} are 4 parts of 3 numbers. Expected "
            "4 of 5, as its manifest says. Delete that folder and run `avow features` again.",
        ),
    ],
    ids=["of a later format", "wider than the features"],
)
def test_a_manifest_that_does_not_fit(store, changed, why):
    write_manifest(store, **changed)
    said = refusal(lambda: FeatureStore.open(store.folder), BadFeatures)
    assert said == why.format(folder=str(store.folder))


def test_shard_that_is_missing(store):
    shard = store.folder / "train-00001.npy"
    shard.unlink()
    assert refusal(lambda: FeatureStore.open(store.folder), BadFeatures) == (
        f"The file {str(shard)!r} is missing. Delete that file and run the same `avow "
        "features` again."
    )


def test_shard_that_is_truncated(store, photographs):
    shard = store.folder / "train-00001.npy"
    os.truncate(shard, 200)
    assert refusal(lambda: FeatureStore.open(store.folder), BadFeatures) == (
        f"The file {str(shard)!r} is damaged: it has 200 bytes. Expected 224. Delete "
        "that file and run the same `avow features` again."
    )
    shard.unlink()
    assert len(make(dataset_of(photographs), store.folder).split("train")) == 11


def test_shard_that_is_something_else(store):
    shard = store.folder / "train-00002.npy"
    shard.write_bytes(b"hello")
    assert refusal(lambda: FeatureStore.open(store.folder), BadFeatures) == (
        f"The file {str(shard)!r} is not an array of numbers. Expected numpy's '.npy' "
        "format. Delete that file and run the same `avow features` again."
    )


def test_shard_of_another_width(store):
    shard = store.folder / "train-00002.npy"
    np.save(shard, np.zeros((3, 4, 5), np.float16))
    assert refusal(lambda: FeatureStore.open(store.folder), BadFeatures) == (
        f"The shard {str(shard)!r} holds features of shape (3, 4, 5), and the first "
        "shard (4, 4, 3). Expected shards of one width. Delete that file and run the "
        "same `avow features` again."
    )


def without_checksums(store: FeatureStore) -> None:
    """Make the features look as earlier versions wrote them."""
    write_manifest(store)


def test_features_without_checksums_are_the_same_features(store):
    without_checksums(store)
    opened = FeatureStore.open(store.folder)
    assert opened.fingerprint == store.fingerprint
    index = np.arange(11)
    np.testing.assert_array_equal(
        opened.split("train").rows(index), store.split("train").rows(index)
    )


@pytest.mark.parametrize("place", [8, 60, 128, -1])
def test_a_changed_byte_of_a_shard_is_noticed_when_it_is_read(store, place):
    """In the magic number and header, in the first and in the last row."""
    shard = store.folder / "train-00001.npy"
    data = bytearray(shard.read_bytes())
    data[place] ^= 1
    shard.write_bytes(data)
    with pytest.raises(BadFeatures) as caught:
        FeatureStore.open(store.folder).split("train").rows(np.arange(11))
    assert str(caught.value).endswith(
        "Delete that file and run the same `avow features` again."
    )


@pytest.mark.parametrize(
    "name", ["train-00001.npy", "train-00001.json", "train-ids.json", "boxes.npy"]
)
def test_deleting_the_damaged_file_and_running_again_mends_the_features(
    photographs, tmp_path, name
):
    whole = make(dataset_of(photographs), tmp_path / "out").folder
    before = content(whole)
    (whole / name).unlink()
    make(dataset_of(photographs), whole)
    assert content(whole) == before


def test_rows_that_are_not_listed(store):
    without_checksums(store)
    (store.folder / "train-ids.json").write_text('["one"]')
    assert refusal(lambda: FeatureStore.open(store.folder), BadFeatures) == (
        f"The shards in {str(store.folder)!r} hold 11 images where 1 are listed. "
        "Expected one row per image. Delete that folder and run `avow features` again."
    )


def test_list_that_is_damaged(store):
    names = store.folder / "train-ids.json"
    names.write_text('["one')
    assert refusal(lambda: FeatureStore.open(store.folder), BadFeatures) == (
        f"The file {str(names)!r} is missing or damaged. Delete that file and run the "
        "same `avow features` again."
    )


def test_split_that_was_not_extracted(store):
    assert refusal(lambda: store.split("test"), UnknownName) == (
        f"There is no 'test' in the features of {str(store.folder)!r}. There are: train."
    )


def test_values_that_are_not_finite(store):
    store.check_finite()
    without_checksums(store)
    shard = store.folder / "train-00001.npy"
    poisoned = np.load(shard)
    poisoned[2, 1, 0] = np.nan
    np.save(shard, poisoned)
    opened = FeatureStore.open(store.folder)
    opened.check_finite(sample=2)
    assert refusal(lambda: opened.check_finite(), BadFeatures) == (
        f"The features of image '06.jpg' (split 'train') in {str(store.folder)!r} hold "
        "values that are not finite. Expected numbers. Delete that folder and run `avow "
        "features` again."
    )


def test_right_features_pass_every_check(store, photographs):
    store.check(dataset_of(photographs), Colours().identity, 2)


def test_features_of_another_backbone(store):
    assert refusal(lambda: store.check(identity=Colours(64).identity), BadFeatures) == (
        f"The features in {str(store.folder)!r} were made by another backbone than the "
        "recipe's: 'colours' (size 32). Expected 'colours' (size 64). Make them again "
        "with `avow features` (with --run where the model brings its own backbone), or "
        "change the recipe."
    )


def test_features_of_another_dataset(store, photographs):
    other = dataset_of(photographs[1:])
    with pytest.raises(BadFeatures) as caught:
        store.check(dataset=other)
    theirs = dataset_of(photographs).fingerprint
    assert str(caught.value) == (
        f"The features in {str(store.folder)!r} were made from another dataset: 'crops' "
        f"({theirs}). Expected 'crops' ({other.fingerprint}). Make them again with "
        "`avow features`."
    )


def test_features_of_another_grid(store):
    assert refusal(lambda: store.check(grid=3), BadFeatures) == (
        f"The features in {str(store.folder)!r} have a grid of 2. Expected 3. Make them "
        "again with `avow features --grid 3`."
    )


# --- features a dataset comes with ------------------------------------------------------


def brought(file, array, rows=None):
    np.save(file, array, allow_pickle=array.dtype.hasobject)
    rows = np.array([0, 0, 2]) if rows is None else rows
    return Split(("a", "b", "c"), (), np.zeros(0, int), None, file, rows)


def test_brought_features_are_read_by_row(tmp_path):
    array = np.random.default_rng(0).normal(size=(3, 36, 8)).astype(np.float32)
    rows = NpyRows(brought(tmp_path / "test_ims.npy", array))
    assert rows.shape == (3, 36, 8) and rows.ids == ("a", "b", "c")
    np.testing.assert_array_equal(rows.rows(np.array([2, 1])), array[[2, 0]])
    assert rows.rows_of(["c", "none"]).tolist() == [2, -1]
    assert len(pickle.dumps(rows)) < 2_000


def test_brought_boxes_are_read_by_row(tmp_path):
    split = brought(tmp_path / "test_ims.npy", np.zeros((3, 36, 8), np.float32))
    assert NpyRows(split).boxes(np.array([1])) is None
    boxes = np.random.default_rng(0).random((3, 36, 4))
    np.save(tmp_path / "test_boxes.npy", boxes)
    rows = NpyRows(replace(split, boxes=tmp_path / "test_boxes.npy"))
    found = rows.boxes(np.array([2, 1]))
    np.testing.assert_array_equal(found, boxes[[2, 0]].astype(np.float32))
    assert len(pickle.dumps(rows)) < 2_000


def test_brought_boxes_of_another_shape(tmp_path):
    file = tmp_path / "test_boxes.npy"
    split = brought(tmp_path / "test_ims.npy", np.zeros((3, 36, 8), np.float32))
    np.save(file, np.zeros((3, 35, 4), np.float32))
    assert refusal(lambda: NpyRows(replace(split, boxes=file)), BadFeatures) == (
        f"The boxes {str(file)!r} have the shape (3, 35, 4). Expected (3, 36, 4): four "
        "numbers for every region of the features. Save them again as such an array."
    )


def test_brought_boxes_in_pixels(tmp_path):
    file = tmp_path / "test_boxes.npy"
    split = brought(tmp_path / "test_ims.npy", np.zeros((3, 2, 8), np.float32))
    np.save(file, np.full((3, 2, 4), 480, np.float32))
    assert refusal(
        lambda: NpyRows(replace(split, boxes=file)).boxes(np.arange(2)), BadFeatures
    ) == (
        f"The boxes {str(file)!r} hold numbers from 480 to 480. Expected 0 to 1, the width "
        "and the height of the image. Divide pixels by them."
    )


def test_brought_features_of_other_dimensions(tmp_path):
    file = tmp_path / "flat.npy"
    assert refusal(
        lambda: NpyRows(brought(file, np.zeros((3, 8), np.float32))), BadFeatures
    ) == (
        f"The features {str(file)!r} have 2 dimensions, (3, 8). Expected 3: images, "
        "regions, numbers per region. Save them again as such an array."
    )


def test_brought_features_with_too_few_rows(tmp_path):
    file = tmp_path / "short.npy"
    assert refusal(
        lambda: NpyRows(brought(file, np.zeros((2, 4, 8), np.float32))), BadFeatures
    ) == (
        f"The features {str(file)!r} have 2 rows, and the dataset asks for row 2. "
        "Expected features of the same dataset and split. Check that the files belong "
        "together."
    )


def test_brought_features_that_are_python_objects(tmp_path):
    file = tmp_path / "objects.npy"
    assert refusal(
        lambda: NpyRows(brought(file, np.array([[["x"]]], object))), BadFeatures
    ) == (
        f"The file {str(file)!r} holds Python objects, which are never read. Expected "
        "one array of numbers. Save it again as such."
    )


def test_split_that_brings_no_features():
    assert refusal(lambda: NpyRows(Split(("a",), (), np.zeros(0, int))), BadFeatures) == (
        "The split comes without features. Expected a dataset that brings a '.npy' "
        "file; make features with `avow features` instead."
    )
