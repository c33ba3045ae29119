"""Each reader on a tiny dataset of its layout, and what each says of a broken one."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import refusal

from avow.core.contracts import PairedDataset
from avow.core.errors import BadRecipe
from avow.data.opening import data_home, open_dataset
from avow.data.readers import coco, compact, flickr8k, karpathy, pairs, precomp


def photograph(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (200, 30, 30)).save(path)


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


def write_json(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def described(dataset: PairedDataset) -> dict[str, dict[str, list[str]]]:
    """The captions of every image of every split."""
    found = {}
    for name, split in dataset.splits.items():
        assert split.image_of.dtype == np.int64
        of = {image: [] for image in split.image_ids}
        for caption, place in zip(split.captions, split.image_of, strict=True):
            of[split.image_ids[place]].append(caption)
        found[name] = of
    return found


# --- compact -----------------------------------------------------------------------

KITE = {"filename": "kite.jpg", "split": "train", "captions": ["A kite.", "Red kite."]}
GULL = {"filename": "gull.jpg", "split": "test", "captions": ["A gull."]}


def write_compact(root: Path, *images: dict) -> Path:
    return write_json(root / "captions.json", {"dataset": "bay", "images": [*images]})


def test_compact_reads_captions_in_order(tmp_path):
    write_compact(tmp_path, GULL, KITE)
    photograph(tmp_path / "images" / "kite.jpg")
    dataset = compact.build(root=str(tmp_path))
    assert dataset.name == "bay"
    assert described(dataset) == {
        "train": {"kite.jpg": ["A kite.", "Red kite."]},
        "test": {"gull.jpg": ["A gull."]},
    }
    files = dataset.splits["train"].files
    assert files and size_of(files[0]) == (8, 6)


def test_compact_opens_without_photographs(tmp_path):
    write_compact(tmp_path, KITE)
    split = compact.build(root=str(tmp_path)).splits["train"]
    assert split.files == (tmp_path / "images" / "kite.jpg",)


def test_compact_takes_another_image_folder(tmp_path):
    write_compact(tmp_path / "a", KITE)
    folder = tmp_path / "photographs"
    dataset = compact.build(root=str(tmp_path / "a"), images=str(folder))
    assert dataset.splits["train"].files == (folder / "kite.jpg",)


def test_compact_malformed_json_says_where(tmp_path):
    path = tmp_path / "captions.json"
    path.write_text('{"dataset": "bay",\n "images": [}')
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The file '{path}' is not JSON at line 2, column 13 (Expecting value). "
        "Expected one JSON object. Download or write it again."
    )


def test_compact_missing_file(tmp_path):
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The file '{tmp_path / 'captions.json'}' is missing. Expected it as part of "
        "the dataset. Download or copy it there."
    )


def test_compact_not_utf8(tmp_path):
    path = tmp_path / "captions.json"
    path.write_bytes(b'{"dataset": "\xe9"}')
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The file '{path}' is not UTF-8 text (byte 13). Expected UTF-8. Convert it to "
        "UTF-8 and try again."
    )


def test_compact_not_an_object(tmp_path):
    path = write_json(tmp_path / "captions.json", [KITE])
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The file '{path}' holds a list. Expected one JSON object. Check that it is "
        "the right file."
    )


def test_compact_missing_key_says_where(tmp_path):
    path = write_compact(tmp_path, KITE, {"filename": "x.jpg", "split": "dev"})
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"'captions' is missing at images[1] of '{path}'. Expected a list. Correct the file."
    )


def test_compact_wrong_kind_says_where(tmp_path):
    path = write_compact(tmp_path, KITE | {"filename": 7})
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"'filename' is a number at images[0] of '{path}'. Expected a string. Correct the file."
    )


def test_compact_caption_that_is_no_string(tmp_path):
    path = write_compact(tmp_path, KITE | {"captions": ["A kite.", 3.5]})
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"'captions' holds the value 3.5 at images[0] of '{path}'. Expected strings "
        "only. Correct the file."
    )


def test_compact_unknown_split(tmp_path):
    path = write_compact(tmp_path, KITE | {"split": "trian"})
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The image 'kite.jpg' in '{path}' is in a split called 'trian'. Expected one "
        "of: train, dev, val, test. Rename the split."
    )


def test_compact_image_without_captions(tmp_path):
    path = write_compact(tmp_path, KITE | {"captions": []})
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The image 'kite.jpg' in '{path}' has no captions. Expected at least one per "
        "image. Add its captions or remove the image."
    )


def test_compact_image_listed_twice(tmp_path):
    path = write_compact(tmp_path, KITE, KITE | {"split": "test"})
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"The image 'kite.jpg' is listed twice in '{path}'. Expected every image once, "
        "in one split. Remove one of the two."
    )


def test_compact_without_images(tmp_path):
    path = write_compact(tmp_path)
    assert refusal(lambda: compact.build(root=str(tmp_path))) == (
        f"There are no images in '{path}'. Expected at least one with its captions. "
        "Check that the file is complete."
    )


# --- flickr8k -----------------------------------------------------------------------


def write_flickr8k(root: Path) -> None:
    rows = [
        "kite.jpg#1\tRed kite .",
        "kite.jpg#0\tA kite .",
        "stray.jpg.1#0\tNobody's photograph .",
        "gull.jpg#0\tA gull .",
        "boat.jpg#0\tA boat .",
    ]
    (root / "Flickr8k.token.txt").write_text("\n".join(rows) + "\n")
    for split, name in [("train", "kite"), ("dev", "gull"), ("test", "boat")]:
        (root / f"Flickr_8k.{split}Images.txt").write_text(f"{name}.jpg\n")


def test_flickr8k_reads_its_three_splits(tmp_path):
    write_flickr8k(tmp_path)
    assert described(flickr8k.build(root=str(tmp_path))) == {
        "train": {"kite.jpg": ["A kite .", "Red kite ."]},
        "dev": {"gull.jpg": ["A gull ."]},
        "test": {"boat.jpg": ["A boat ."]},
    }


@pytest.mark.parametrize("folder", ["Flicker8k_Dataset", "Flickr8k_Dataset", "Images"])
def test_flickr8k_finds_its_photographs(tmp_path, folder):
    write_flickr8k(tmp_path)
    photograph(tmp_path / folder / "kite.jpg")
    files = flickr8k.build(root=str(tmp_path)).splits["train"].files
    assert files and size_of(files[0]) == (8, 6)


def test_flickr8k_missing_split_file(tmp_path):
    write_flickr8k(tmp_path)
    path = tmp_path / "Flickr_8k.devImages.txt"
    path.unlink()
    assert refusal(lambda: flickr8k.build(root=str(tmp_path))) == (
        f"The file '{path}' is missing. Expected it as part of the dataset. Download "
        "or copy it there."
    )


def test_flickr8k_empty_split(tmp_path):
    write_flickr8k(tmp_path)
    path = tmp_path / "Flickr_8k.testImages.txt"
    path.write_text("\n")
    assert refusal(lambda: flickr8k.build(root=str(tmp_path))) == (
        f"The split 'test' is empty in '{path}'. Expected one image name per line. "
        "Download or copy the file again."
    )


def test_flickr8k_image_without_captions(tmp_path):
    write_flickr8k(tmp_path)
    (tmp_path / "Flickr_8k.testImages.txt").write_text("stray.jpg\n")
    assert refusal(lambda: flickr8k.build(root=str(tmp_path))) == (
        f"The image 'stray.jpg' in '{tmp_path}' has no captions. Expected at least one "
        "per image. Add its captions or remove the image."
    )


def test_flickr8k_malformed_line(tmp_path):
    write_flickr8k(tmp_path)
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text("kite.jpg#0\tA kite .\nkite.jpg A kite\n")
    assert refusal(lambda: flickr8k.build(root=str(tmp_path))) == (
        f"Line 2 of '{path}' is 'kite.jpg A kite'. Expected an image name, '#', a "
        "number, a tab and a caption. Correct or remove the line."
    )


# --- coco ---------------------------------------------------------------------------


def official(name: str, number: int, *captions: str) -> dict:
    """An official caption file of one image."""
    texts = [{"image_id": number, "caption": caption} for caption in captions]
    return {"images": [{"id": number, "file_name": name}], "annotations": texts}


@pytest.mark.parametrize("folder", ["annotations", "."])
@pytest.mark.parametrize("year", [2014, 2017])
def test_coco_reads_train_and_dev(tmp_path, folder, year):
    train, val = official("1.jpg", 1, "A kite. ", "Kite"), official("2.jpg", 2, "Gull")
    write_json(tmp_path / folder / f"captions_train{year}.json", train)
    write_json(tmp_path / folder / f"captions_val{year}.json", val)
    dataset = coco.build(root=str(tmp_path))
    assert dataset.name == f"coco{year}"
    assert described(dataset) == {
        "train": {"1.jpg": ["A kite.", "Kite"]},
        "dev": {"2.jpg": ["Gull"]},
    }
    assert dataset.splits["dev"].files == (tmp_path / f"val{year}" / "2.jpg",)


def test_coco_joins_captions_by_number(tmp_path):
    content = {
        "images": [{"id": 5, "file_name": "5.jpg"}, {"id": 3, "file_name": "3.jpg"}],
        "annotations": [
            {"image_id": 3, "caption": "three"},
            {"image_id": 5, "caption": "five"},
            {"image_id": 3, "caption": "again three"},
        ],
    }
    write_json(tmp_path / "annotations" / "captions_val2017.json", content)
    assert described(coco.build(root=str(tmp_path))) == {
        "dev": {"5.jpg": ["five"], "3.jpg": ["three", "again three"]}
    }


def test_coco_year_may_be_chosen(tmp_path):
    for year in (2014, 2017):
        content = official(f"{year}.jpg", 1, "A kite.")
        write_json(tmp_path / f"captions_train{year}.json", content)
    assert coco.build(root=str(tmp_path)).name == "coco2017"
    chosen = coco.build(root=str(tmp_path), year=2014)
    assert chosen.splits["train"].image_ids == ("2014.jpg",)


def test_coco_missing_captions(tmp_path):
    assert refusal(lambda: coco.build(root=str(tmp_path))) == (
        f"There is no 'captions_train2017.json' in '{tmp_path}' or its folder "
        "'annotations'. Expected the official COCO captions. Download "
        "annotations_trainval and unpack it there."
    )


def test_coco_empty_split(tmp_path):
    path = tmp_path / "captions_val2017.json"
    write_json(path, {"images": [], "annotations": []})
    assert refusal(lambda: coco.build(root=str(tmp_path))) == (
        f"The split 'dev' is empty in '{path}'. Expected the images of the split. "
        "Download the file again."
    )


# --- karpathy -----------------------------------------------------------------------


def listed(name: str, split: str, *captions: str, **more: str) -> dict:
    sentences = [{"raw": caption} for caption in captions]
    return {"filename": name, "split": split, "sentences": sentences, **more}


def test_karpathy_joins_restval_and_renames_val(tmp_path):
    images = [
        listed("1.jpg", "train", "One. "),
        listed("2.jpg", "val", "Two."),
        listed("3.jpg", "restval", "Three.", "Third.", filepath="val2014"),
        listed("4.jpg", "test", "Four."),
    ]
    write_json(tmp_path / "dataset_coco.json", {"dataset": "coco", "images": images})
    dataset = karpathy.build(root=str(tmp_path))
    assert dataset.name == "coco"
    assert described(dataset) == {
        "train": {"1.jpg": ["One."], "val2014/3.jpg": ["Three.", "Third."]},
        "dev": {"2.jpg": ["Two."]},
        "test": {"4.jpg": ["Four."]},
    }
    folder = tmp_path / "images"
    assert dataset.splits["train"].files == (
        folder / "1.jpg",
        folder / "val2014" / "3.jpg",
    )


def test_karpathy_takes_the_file_itself_and_another_folder(tmp_path):
    content = {"images": [listed("1.jpg", "test", "One.")]}
    path = write_json(tmp_path / "dataset_flickr30k.json", content)
    photograph(tmp_path / "photographs" / "1.jpg")
    dataset = karpathy.build(root=str(path), images="photographs")
    assert dataset.name == "flickr30k"
    files = dataset.splits["test"].files
    assert files and size_of(files[0]) == (8, 6)


def test_karpathy_two_files(tmp_path):
    for name in ("dataset_a.json", "dataset_b.json"):
        write_json(tmp_path / name, {})
    assert refusal(lambda: karpathy.build(root=str(tmp_path))) == (
        f"There are 2 datasets in '{tmp_path}': dataset_a.json, dataset_b.json. "
        "Expected one. Give the path of the file instead of its folder."
    )


def test_karpathy_no_file(tmp_path):
    assert refusal(lambda: karpathy.build(root=str(tmp_path))) == (
        f"There is no 'dataset*.json' in '{tmp_path}'. Expected a file such as "
        "dataset_flickr30k.json. Download it there."
    )


def test_karpathy_missing_sentence_says_where(tmp_path):
    image = listed("1.jpg", "test", "One.") | {"sentences": [{"tokens": ["one"]}]}
    path = write_json(tmp_path / "dataset_a.json", {"images": [image]})
    assert refusal(lambda: karpathy.build(root=str(tmp_path))) == (
        f"'raw' is missing at images[0].sentences[0] of '{path}'. Expected a string. "
        "Correct the file."
    )


# --- pairs --------------------------------------------------------------------------


def test_pairs_reads_csv(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text(
        "image,caption,split\n"
        'a/kite.jpg,"A kite, red",train\n'
        "gull.jpg,A gull,val\n"
        "a/kite.jpg,Red kite,train\n"
    )
    photograph(tmp_path / "a" / "kite.jpg")
    dataset = pairs.build(root=str(path))
    assert dataset.name == "shop"
    assert described(dataset) == {
        "train": {"a/kite.jpg": ["A kite, red", "Red kite"]},
        "dev": {"gull.jpg": ["A gull"]},
    }
    files = dataset.splits["train"].files
    assert files and size_of(files[0]) == (8, 6)


def test_pairs_reads_jsonl_with_other_columns(tmp_path):
    path = tmp_path / "shop.jsonl"
    row = {"file": "kite.jpg", "title": "A kite", "part": "test"}
    path.write_text(json.dumps(row) + "\n\n")
    dataset = pairs.build(
        root=str(path),
        image_column="file",
        caption_column="title",
        split_column="part",
    )
    assert described(dataset) == {"test": {"kite.jpg": ["A kite"]}}


def test_pairs_splits_by_a_hash_of_the_image(tmp_path):
    """Shares come out right, and adding images moves none."""
    path = tmp_path / "many.csv"
    rows = [f"{number}.jpg,A kite" for number in range(2000)]
    path.write_text("image,caption\n" + "\n".join(rows))
    splits = pairs.build(root=str(path)).splits
    share = {name: len(split.image_ids) / 2000 for name, split in splits.items()}
    assert share == pytest.approx({"train": 0.8, "dev": 0.1, "test": 0.1}, abs=0.025)
    path.write_text("image,caption\n" + "\n".join(reversed(rows[:1000])))
    for name, split in pairs.build(root=str(path)).splits.items():
        assert set(split.image_ids) < set(splits[name].image_ids)


def test_pairs_shares_may_be_chosen(tmp_path):
    path = tmp_path / "many.csv"
    rows = [f"{number}.jpg,A kite" for number in range(50)]
    path.write_text("image,caption\n" + "\n".join(rows))
    splits = pairs.build(root=str(path), train=0.0, dev=0.0, test=1.0).splits
    assert list(splits) == ["test"]


def test_pairs_shares_must_sum_to_one(tmp_path):
    path = str(tmp_path / "x.csv")
    assert refusal(lambda: pairs.build(root=path, train=0.9), BadRecipe) == (
        "The shares of the splits are 'train 0.9, dev 0.1, test 0.1'. Expected none "
        "below 0 and a sum of 1. Change train, dev or test."
    )


def refused_table(path: Path, content: str) -> str:
    """With which words a table of pairs is refused; the table is PATH in them."""
    path.write_text(content)
    return refusal(lambda: pairs.build(root=str(path))).replace(str(path), "PATH")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "shop.csv",
            "image,text\nkite.jpg,A kite\n",
            "There is no column 'caption' at line 2 of 'PATH'. It has: image, text. "
            "Rename it, or set caption_column.",
        ),
        (
            "shop.csv",
            "image,caption\nkite.jpg,A kite\ngull.jpg,\n",
            "The column 'caption' is '' at line 3 of 'PATH'. Expected some text. Fill "
            "it in or remove the row.",
        ),
        (
            "shop.csv",
            "image,caption,split\nk.jpg,A kite,train\nk.jpg,Kite,test\n",
            "The image 'k.jpg' in 'PATH' is in the splits 'train' and 'test'. Expected "
            "every image in one split. Give all its rows the same split.",
        ),
        (
            "shop.jsonl",
            '{"image": "k.jpg", "caption": "A kite"}\n{"image": }\n',
            "The file 'PATH' is not JSON at line 2, column 11 (Expecting value). "
            "Expected one JSON object per line. Correct that line.",
        ),
        (
            "shop.jsonl",
            "[1]\n",
            "The file 'PATH' holds '[1]' at line 1. Expected one JSON object per line. "
            "Correct that line.",
        ),
    ],
    ids=["missing column", "empty cell", "two splits", "malformed line", "no object"],
)
def test_pairs_that_cannot_be_read(tmp_path, name, content, words):
    assert refused_table(tmp_path / name, content) == words


@pytest.mark.parametrize("said", ["true", "yes"])
def test_pairs_image_meant_to_be_in_two_splits(tmp_path, said):
    path = tmp_path / "shop.csv"
    rows = [f"k.jpg,A kite,train,{said}", f"k.jpg,Kite,test,{said}", "g.jpg,A gull,test,"]
    path.write_text("image,caption,split,shared\n" + "\n".join(rows))
    if said != "true":
        assert "is in the splits 'train' and 'test'" in refusal(
            lambda: pairs.build(root=str(path))
        )
        return
    splits = pairs.build(root=str(path)).splits
    assert splits["train"].captions == ("A kite",)
    assert splits["test"].image_ids == ("k.jpg", "g.jpg")
    assert splits["test"].captions == ("Kite", "A gull")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("k.jpg,hello, world", "more fields than columns"),
        ('k.jpg,"hello', "unexpected end of data"),
        (f"k.jpg,{'x' * 200_000}", "field larger than field limit (131072)"),
    ],
)
def test_pairs_line_that_is_no_csv(tmp_path, row, why):
    content = f"image,caption\nk.jpg,A kite\n{row}\n"
    assert refused_table(tmp_path / "shop.csv", content) == (
        f"The file 'PATH' is not CSV at line 3 ({why}). Expected a field per column, and "
        'quotes around a text with commas in it: "so, and so". Correct that line.'
    )


def test_pairs_suffix_in_capitals(tmp_path):
    path = tmp_path / "shop.JSONL"
    path.write_text('{"image": "k.jpg", "caption": "A kite", "split": "train"}\n')
    assert pairs.build(root=str(path)).splits["train"].captions == ("A kite",)


# --- precomp ------------------------------------------------------------------------


def write_features(root: Path, name: str, rows: int, repeats: int = 1) -> Path:
    path = root / f"{name}_ims.npy"
    values = np.arange(rows * 6, dtype=np.float32).reshape(rows, 3, 2)
    np.save(path, np.repeat(values, repeats, axis=0))
    return path


def write_captions(root: Path, name: str, count: int) -> Path:
    path = root / f"{name}_caps.txt"
    path.write_text("".join(f"caption {number}\n" for number in range(count)))
    return path


@pytest.mark.parametrize("repeats", [1, 5])
def test_precomp_has_one_row_per_image_however_stored(tmp_path, repeats):
    path = write_features(tmp_path, "test", 3, repeats)
    write_captions(tmp_path, "test", 15)
    dataset = precomp.build(root=str(tmp_path))
    split = dataset.splits["test"]
    assert (dataset.name, list(dataset.splits)) == (tmp_path.name, ["test"])
    assert split.image_ids == ("test/0", "test/1", "test/2")
    assert split.image_of.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert split.captions[7] == "caption 7"
    assert split.features == path and split.feature_rows is not None
    assert np.load(path)[split.feature_rows, 0, 0].tolist() == [0, 6, 12]


def test_precomp_brings_boxes_where_there_are_any(tmp_path):
    for name in ("dev", "test"):
        write_features(tmp_path, name, 2)
        write_captions(tmp_path, name, 10)
    (tmp_path / "dev_boxes.npy").touch()
    splits = precomp.build(root=str(tmp_path)).splits
    assert splits["dev"].boxes == tmp_path / "dev_boxes.npy"
    assert splits["test"].boxes is None


def test_precomp_one_caption_each_is_not_taken_for_repeats(tmp_path):
    write_features(tmp_path, "train", 10)
    write_captions(tmp_path, "train", 10)
    split = precomp.build(root=str(tmp_path)).splits["train"]
    assert split.image_of.tolist() == list(range(10))


def test_precomp_reads_tables(tmp_path):
    """A table has one caption per image, even where the features are all alike."""
    write_features(tmp_path, "train", 1, repeats=5)
    rows = [f'{number}\t"kite ""{number}"""\n' for number in range(100, 105)]
    (tmp_path / "train_caps.tsv").write_text("".join(rows))
    split = precomp.build(root=str(tmp_path)).splits["train"]
    assert split.image_ids == ("100", "101", "102", "103", "104")
    assert split.captions[0] == 'kite "100"'
    assert split.image_of.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("per_image", [1, 5])
def test_precomp_reads_ids(tmp_path, per_image):
    write_features(tmp_path, "test", 2)
    write_captions(tmp_path, "test", 10)
    ids = [f"{name}\n" for name in ("kite", "gull") for _ in range(per_image)]
    (tmp_path / "test_ids.txt").write_text("".join(ids))
    split = precomp.build(root=str(tmp_path)).splits["test"]
    assert split.image_ids == ("kite", "gull")


def test_precomp_ids_that_do_not_fit(tmp_path):
    write_features(tmp_path, "test", 2)
    write_captions(tmp_path, "test", 10)
    path = tmp_path / "test_ids.txt"
    path.write_text("kite\ngull\nboat\n")
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"There are 3 image ids in '{path}' for 2 images. Expected one per image or one "
        "per caption. Download the file again, or remove it."
    )


def test_precomp_captions_are_text_and_never_bytes(tmp_path):
    write_features(tmp_path, "test", 1)
    path = tmp_path / "test_caps.txt"
    lines = [
        "a café .",
        r"b'a caf\xc3\xa9 .'",
        'b"a kite\'s tail ."',
        "b's kite is red",
        r"b'\xff'",
    ]
    path.write_text("\r\n".join(lines) + "\r\n", "utf-8", newline="")
    split = precomp.build(root=str(tmp_path)).splits["test"]
    assert split.captions == (
        "a café .",
        "a café .",
        "a kite's tail .",
        "b's kite is red",
        r"b'\xff'",
    )


def test_precomp_unusual_spaces_end_no_line(tmp_path):
    write_features(tmp_path, "test", 1)
    (tmp_path / "test_caps.txt").write_text("a\u2028kite\x0b .\n\nred\n", "utf-8")
    split = precomp.build(root=str(tmp_path)).splits["test"]
    assert split.captions == ("a\u2028kite\x0b .", "", "red")


def test_precomp_dev_is_truncated_as_published(tmp_path):
    write_features(tmp_path, "dev", 1014)
    write_captions(tmp_path, "dev", 5070)
    split = precomp.build(root=str(tmp_path)).splits["dev"]
    assert (len(split.image_ids), len(split.captions)) == (1000, 5000)
    assert split.feature_rows is not None and len(split.feature_rows) == 1000
    whole = precomp.build(root=str(tmp_path), truncate_dev=False).splits["dev"]
    assert (len(whole.image_ids), len(whole.captions)) == (1014, 5070)


def test_precomp_dev_of_a_table_is_truncated_to_1000(tmp_path):
    write_features(tmp_path, "dev", 1010)
    rows = [f"{number}\ta kite\n" for number in range(1010)]
    (tmp_path / "dev_caps.tsv").write_text("".join(rows))
    split = precomp.build(root=str(tmp_path)).splits["dev"]
    assert (len(split.image_ids), len(split.captions)) == (1000, 1000)


def test_precomp_caption_count_that_does_not_fit(tmp_path):
    features = write_features(tmp_path, "train", 4)
    captions = write_captions(tmp_path, "train", 19)
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"There is a caption count that does not fit: 19 captions in '{captions}' for 4 "
        f"images in '{features}'. Expected the same number of captions for every image. "
        "Download both files again."
    )


def test_precomp_features_without_captions(tmp_path):
    write_features(tmp_path, "train", 4)
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"There are features but no captions of the split 'train' in '{tmp_path}'. "
        "Expected train_caps.txt or train_caps.tsv. Download it there."
    )


def test_precomp_no_features(tmp_path):
    write_captions(tmp_path, "train", 4)
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"There are no features in '{tmp_path}'. Expected files such as train_ims.npy. "
        "Download them there, or name another folder."
    )


def test_precomp_truncated_features(tmp_path):
    path = write_features(tmp_path, "train", 4)
    path.write_bytes(path.read_bytes()[:140])
    write_captions(tmp_path, "train", 20)
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"The file '{path}' cannot be read (mmap length is greater than file size). "
        "Expected a complete .npy file of numbers. Download it again."
    )


def test_precomp_features_of_another_shape(tmp_path):
    path = tmp_path / "train_ims.npy"
    np.save(path, np.zeros((4, 2), np.float32))
    write_captions(tmp_path, "train", 20)
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"The features in '{path}' have the shape (4, 2). Expected images, regions and "
        "dimensions. Check that it is the right file."
    )


def test_precomp_malformed_table(tmp_path):
    write_features(tmp_path, "train", 2)
    path = tmp_path / "train_caps.tsv"
    path.write_text("1\ta kite\n2 a gull\n")
    assert refusal(lambda: precomp.build(root=str(tmp_path))) == (
        f"Line 2 of '{path}' is ['2 a gull']. Expected an image id, a tab and a "
        "caption. Correct the line."
    )


# --- opening by name ------------------------------------------------------------------


def write_coco(root: Path) -> None:
    content = official("1.jpg", 1, "A kite.")
    write_json(root / "annotations" / "captions_train2017.json", content)


def write_karpathy(root: Path) -> None:
    content = {"dataset": "bay", "images": [listed("1.jpg", "test", "One.")]}
    write_json(root / "dataset_bay.json", content)


def write_precomp(root: Path) -> None:
    write_features(root, "train", 2)
    write_captions(root, "train", 2)


LAYOUTS = {
    "compact": lambda root: write_compact(root, KITE),
    "flickr8k": write_flickr8k,
    "coco": write_coco,
    "karpathy": write_karpathy,
    "precomp": write_precomp,
}
READERS = {
    "compact": compact,
    "flickr8k": flickr8k,
    "coco": coco,
    "karpathy": karpathy,
    "precomp": precomp,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_recognised(tmp_path, layout):
    LAYOUTS[layout](tmp_path)
    built = READERS[layout].build(root=str(tmp_path))
    assert open_dataset(str(tmp_path)).fingerprint == built.fingerprint


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_files_of_pairs_are_recognised(tmp_path, suffix):
    path = tmp_path / f"shop.{suffix}"
    row = {"image": "k.jpg", "caption": "A kite", "split": "dev"}
    table = ",".join(row) + "\n" + ",".join(row.values())
    path.write_text(table if suffix == "csv" else json.dumps(row))
    assert described(open_dataset(str(path))) == {"dev": {"k.jpg": ["A kite"]}}


def test_a_file_of_karpathy_is_recognised(tmp_path):
    write_karpathy(tmp_path)
    assert open_dataset(str(tmp_path / "dataset_bay.json")).name == "bay"


def test_settings_reach_the_reader(tmp_path):
    write_compact(tmp_path, KITE)
    dataset = open_dataset(str(tmp_path), images="small")
    assert dataset.splits["train"].files == (tmp_path / "small" / "kite.jpg",)


def test_unknown_setting_lists_the_real_ones(tmp_path):
    write_compact(tmp_path, KITE)
    assert refusal(lambda: open_dataset(str(tmp_path), pixels=3), BadRecipe) == (
        "'compact' in readers has no setting 'pixels'. It has: root, images."
    )


def test_a_name_is_found_in_the_data_home(tmp_path, monkeypatch):
    (tmp_path / "bay").mkdir()
    write_compact(tmp_path / "bay", KITE)
    monkeypatch.setenv("AVOW_DATA", str(tmp_path))
    assert data_home() == tmp_path
    assert open_dataset("bay").name == "bay"


def test_the_sample_needs_no_folder(tmp_path, monkeypatch):
    pytest.importorskip("avow.data.readers.sample")
    monkeypatch.setenv("AVOW_DATA", str(tmp_path))
    assert open_dataset("sample").splits["train"].captions


def test_unknown_dataset_lists_the_data_home(tmp_path, monkeypatch):
    for name in ("bay", "alps"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("AVOW_DATA", str(tmp_path))
    assert refusal(lambda: open_dataset("bai")) == (
        f"There is no dataset 'bai'. Expected a path, or one of those in '{tmp_path}': "
        "alps, bay. Check the spelling, or set AVOW_DATA to another folder."
    )


def test_unknown_dataset_without_a_data_home(monkeypatch):
    monkeypatch.setattr("avow.data.opening.data_home", lambda: None)
    assert refusal(lambda: open_dataset("flickr8k")) == (
        "There is no dataset 'flickr8k'. Expected a path, or a name and a folder to "
        "find it in. Set AVOW_DATA to the folder that holds your datasets."
    )


def test_data_home_that_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_DATA", str(tmp_path / "gone"))
    assert refusal(data_home) == (
        f"AVOW_DATA is '{tmp_path / 'gone'}', which is not a folder. Expected the "
        "folder that holds your datasets. Create it or change AVOW_DATA."
    )


def test_layout_that_nobody_recognises(tmp_path):
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        f"The layout of the dataset at '{tmp_path}' is not recognised. Expected one of: "
        "activitynet, arrow, bigfile, coco, compact, compact_videos, didemo, experts, "
        "flickr8k, karpathy, msrvtt, msvd, pairs, precomp. Check the path, or say which with "
        "`reader`."
    )


def test_layout_that_several_recognise(tmp_path):
    write_compact(tmp_path, KITE)
    write_karpathy(tmp_path)
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        f"The dataset at '{tmp_path}' can be read as compact or karpathy. Expected one "
        "layout. Say which with `reader`."
    )
    assert "test" in open_dataset(str(tmp_path), reader="karpathy").splits


# --- the real ones ----------------------------------------------------------------------


def real(name: str) -> PairedDataset:
    home = data_home()
    if home is None or not (home / name).is_dir():
        pytest.skip(f"there is no {name} in the data home; set AVOW_DATA")
    return open_dataset(name)


@pytest.mark.data
def test_flickr8k_has_its_official_splits():
    splits = real("flickr8k").splits
    sizes = {name: len(split.image_ids) for name, split in splits.items()}
    assert sizes == {"train": 6000, "dev": 1000, "test": 1000}
    for split in splits.values():
        assert np.bincount(split.image_of).tolist() == [5] * len(split.image_ids)
        assert split.files and all(file.is_file() for file in split.files)


@pytest.mark.data
def test_coco_opens_without_its_train_photographs():
    splits = real("coco").splits
    sizes = {name: len(split.image_ids) for name, split in splits.items()}
    assert sizes == {"train": 37_516, "dev": 894, "test": 4_407}
    assert len(splits["train"].captions) == 95_625
    for name in ("dev", "test"):
        files = splits[name].files
        assert files and all(file.is_file() for file in files)
