"""Readers of videos, on small files written in the exact format of the published ones.

The published annotations are not part of the repository. Where a data test finds them in
AVOW_DATA (msrvtt, activitynet, didemo, msvd-official), it counts what the papers count.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from samples import refusal

from avow.assembly.pairs import FeaturedSplit
from avow.core.contracts import PairedDataset
from avow.core.datasets import VideoFeatures
from avow.core.errors import BadFeatures, BadRecipe
from avow.data.opening import data_home, open_dataset
from avow.data.videos import VideoRows, without_ending


def described(dataset: PairedDataset) -> dict[str, dict[str, list[str]]]:
    """The captions of every video, split by split."""
    out: dict[str, dict[str, list[str]]] = {}
    for name, split in dataset.splits.items():
        out[name] = {video: [] for video in split.image_ids}
        for caption, place in zip(split.captions, split.image_of, strict=True):
            out[name][split.image_ids[place]].append(caption)
    return out


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# --- compact videos, and experts -----------------------------------------------------------

VIDEOS = [
    {"id": "one_0_5", "split": "train", "captions": ["a cat", "the cat sleeps"]},
    {"id": "two_3_9", "split": "test", "captions": ["a dog"]},
    {"id": "six", "split": "val", "captions": ["a fish", "fish", "it swims"]},
    {"id": "ten", "split": "train", "captions": ["a bird"]},
]


def write_compact(root: Path) -> np.ndarray:
    write(root / "captions.json", {"dataset": "tiny", "videos": VIDEOS})
    frames = np.arange(4 * 3 * 2, dtype=np.float16).reshape(4, 3, 2)
    np.save(root / "frames_net.npy", frames)
    return frames


def test_compact_videos_find_their_frames(tmp_path):
    frames = write_compact(tmp_path)
    dataset = open_dataset(str(tmp_path))
    assert dataset.name == "tiny"
    assert described(dataset) == {
        "train": {"one_0_5": ["a cat", "the cat sleeps"], "ten": ["a bird"]},
        "dev": {"six": ["a fish", "fish", "it swims"]},
        "test": {"two_3_9": ["a dog"]},
    }
    train = FeaturedSplit.join(dataset, "train", None)
    regions = train.regions(np.array([1, 0]))
    np.testing.assert_array_equal(regions.features.numpy(), frames[[3, 0]])
    assert regions.present.all()


def test_compact_videos_with_several_arrays_ask_which(tmp_path):
    write_compact(tmp_path)
    np.save(tmp_path / "frames_other.npy", np.ones((4, 2, 5)))
    message = refusal(lambda: open_dataset(str(tmp_path)))
    assert message == (
        f"The features of '{tmp_path}' are not clear: frames_net.npy, frames_other.npy. "
        "Expected one file called frames_NAME.npy, or its name in data.features."
    )
    chosen = open_dataset(str(tmp_path), features="frames_other.npy")
    assert FeaturedSplit.join(chosen, "dev", None).dim == 5


def test_compact_videos_say_where_something_is_missing(tmp_path):
    write_compact(tmp_path)
    broken = [{**VIDEOS[0], "captions": []}]
    path = write(tmp_path / "captions.json", {"dataset": "tiny", "videos": broken})
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        f"The video 'one_0_5' in '{path}' has no captions. Expected at least one per video. "
        "Add its captions or remove the video."
    )


def test_experts_stand_side_by_side_and_may_be_missing(tmp_path):
    write(tmp_path / "captions.json", {"dataset": "tiny", "videos": VIDEOS})
    (tmp_path / "experts").mkdir()
    scene, audio = np.ones((4, 2)), np.full((3, 5, 3), 2.0)
    scene[0] = np.nan  # one way to say that there is none
    np.save(tmp_path / "experts" / "scene.npy", scene)
    write(tmp_path / "experts" / "scene.txt", "\n".join(v["id"] for v in VIDEOS))
    np.save(tmp_path / "experts" / "audio.npy", audio)
    write(tmp_path / "experts" / "audio.txt", "one_0_5\nsix\ntwo_3_9")  # and the other: 'ten'
    dataset = open_dataset(str(tmp_path), experts="scene, audio", frames=4)
    train = FeaturedSplit.join(dataset, "train", None)
    assert (train.parts, train.dim) == (4, 5)
    found = train.regions(np.array([0, 1]))
    expected = np.zeros((2, 4, 5))
    expected[0, :, 2:], expected[1, 0, :2] = 2, 1
    np.testing.assert_array_equal(found.features.numpy(), expected)
    assert found.present.tolist() == [[True] * 4, [True, False, False, False]]
    assert refusal(lambda: open_dataset(str(tmp_path), experts="scene, speech")) == (
        f"There is no expert 'speech' in '{tmp_path / 'experts'}'. Expected one .npy each; "
        "there are: audio, scene."
    )


# --- MSVD ----------------------------------------------------------------------------------


def write_msvd(root: Path) -> None:
    captions = {"a_0_5": ["a cat", "cat"], "b_2_9": ["a dog"], "c_1_3": ["a fish"]}
    write(root / "captions_msvd.json", captions)
    for name, video in zip(("train", "val", "test"), captions, strict=True):
        write(root / f"{name}_list.txt", video)  # no final newline, as published


def test_msvd_reads_its_lists_and_one_file_per_video(tmp_path):
    write_msvd(tmp_path)
    for video, frames in (("a_0_5", 7), ("b_2_9", 2)):
        (tmp_path / "feat").mkdir(exist_ok=True)
        rows = np.arange(1, frames * 3 + 1, dtype=np.float32).reshape(frames, 3)
        np.save(tmp_path / "feat" / f"{video}.avi.npy", rows)
    dataset = open_dataset(str(tmp_path), features="feat", frames=3)
    assert described(dataset) == {
        "train": {"a_0_5": ["a cat", "cat"]},
        "dev": {"b_2_9": ["a dog"]},
        "test": {"c_1_3": ["a fish"]},
    }
    long = FeaturedSplit.join(dataset, "train", None).regions(np.array([0]))
    assert long.features[0, :, 0].tolist() == [1.0, 10.0, 19.0]  # first, middle, last
    short = FeaturedSplit.join(dataset, "dev", None).regions(np.array([0]))
    assert short.features.shape == (1, 2, 3) and short.present.all()
    assert refusal(lambda: FeaturedSplit.join(dataset, "test", None), BadFeatures).startswith(
        "None of the 1 images of split 'test' has features."
    )
    bare = open_dataset(str(tmp_path))
    assert refusal(lambda: FeaturedSplit.join(bare, "dev", None), BadFeatures) == (
        "The split 'dev' of 'msvd' has no features. Expected some where the reader looks for "
        "them, or named in the recipe: data.features."
    )


def test_msvd_a_listed_clip_without_captions(tmp_path):
    write_msvd(tmp_path)
    write(tmp_path / "val_list.txt", "nobody_0_1\n")
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        "'nobody_0_1' is missing at its top level of "
        f"'{tmp_path / 'captions_msvd.json'}'. Expected a list. Correct the file."
    )


# --- MSR-VTT -------------------------------------------------------------------------------


def write_msrvtt(root: Path, names: tuple[str, ...]) -> None:
    """Videos 0-2 train, 3 validate, 4-5 test; captions of a video are not together."""
    splits = ["train", "train", "train", "validate", "test", "test"]
    videos = [
        {
            "category": 9,
            "url": "https://example.org",
            "video_id": f"video{n}",
            "start time": 137.72,
            "end time": 147.72 + n,
            "split": split,
            "id": n,
        }
        for n, split in enumerate(splits)
    ]
    sentences = [
        {"caption": f"caption {k} of {n}", "video_id": f"video{n}", "sen_id": 10 * n + k}
        for k in (1, 0)
        for n in range(6)
    ]
    parts = (
        {names[0]: range(4), names[-1]: range(4, 6)} if len(names) > 1 else {names[0]: range(6)}
    )
    for name, numbers in parts.items():
        some = {f"video{n}" for n in numbers}
        write(
            root / name,
            {
                "info": {},
                "videos": [v for v in videos if v["video_id"] in some],
                "sentences": [s for s in sentences if s["video_id"] in some],
            },
        )
    write(root / "MSRVTT_train.7k.csv", "video_id\nvideo2\nvideo0\nvideo3\n")
    write(root / "MSRVTT_train.9k.csv", "video_id\nvideo0\nvideo1\nvideo2\nvideo3\nvideo4")
    row = 'ret0,msr5,video5,"a man, and a dog"\n'
    write(root / "MSRVTT_JSFUSION_test.csv", "key,vid_key,video_id,sentence\n" + row)


OFFICIAL = ("train_val_videodatainfo.json", "test_videodatainfo.json")


@pytest.mark.parametrize("names", [OFFICIAL, ("MSRVTT_data.json",)], ids=["parts", "whole"])
def test_msrvtt_full(tmp_path, names):
    write_msrvtt(tmp_path, names)
    dataset = open_dataset(str(tmp_path))
    found = described(dataset)
    assert {name: list(split) for name, split in found.items()} == {
        "train": ["video0", "video1", "video2"],
        "dev": ["video3"],
        "test": ["video4", "video5"],
    }
    assert found["test"]["video5"] == ["caption 0 of 5", "caption 1 of 5"]
    times = dataset.splits["test"].times
    assert times is not None and times.seconds.round(6).tolist() == [14.0, 15.0]


def test_msrvtt_lists_are_tested_on_1k_a_with_one_caption_each(tmp_path):
    write_msrvtt(tmp_path, OFFICIAL)
    seven = described(open_dataset(str(tmp_path), protocol="7k"))
    assert list(seven["train"]) == ["video2", "video0"] and list(seven["dev"]) == ["video3"]
    assert seven["test"] == {"video5": ["a man, and a dog"]}
    nine = described(open_dataset(str(tmp_path), protocol="9k", dev="test"))
    assert list(nine["train"]) == ["video0", "video1", "video2", "video3", "video4"]
    assert nine["dev"] == nine["test"] == {"video5": ["a man, and a dog"]}


def test_msrvtt_a_listed_video_that_nobody_knows(tmp_path):
    write_msrvtt(tmp_path, OFFICIAL)
    (tmp_path / OFFICIAL[1]).unlink()
    path = tmp_path / "MSRVTT_JSFUSION_test.csv"
    assert refusal(lambda: open_dataset(str(tmp_path), protocol="7k")) == (
        f"The video 'video5' of '{path}' is in none of the official annotations beside it. "
        "Expected all of them, in train_val_videodatainfo.json and test_videodatainfo.json or "
        "in MSRVTT_data.json."
    )


def test_msrvtt_a_list_of_other_columns(tmp_path):
    write_msrvtt(tmp_path, OFFICIAL)
    path = write(tmp_path / "MSRVTT_train.7k.csv", "video,split\nvideo2,train\n")
    assert refusal(lambda: open_dataset(str(tmp_path), protocol="7k")) == (
        f"The file '{path}' has the columns 'video, split'. Expected video_id. Check that it "
        "is the right file."
    )


# --- paragraphs ----------------------------------------------------------------------------


def write_activitynet(root: Path, train: int = 5) -> None:
    def entry(n: int) -> dict:
        return {
            "duration": 10.5 + n,
            "timestamps": [[0, 4.14], [4.14, 9.0]],
            "sentences": [f"A man {n}.", " He runs."],
        }

    write(root / "train.json", {f"v_train{n}": entry(n) for n in range(train)})
    write(root / "val_1.json", {"v_test": entry(0)})
    write(root / "val_2.json", {"v_test": {**entry(0), "sentences": ["Other words."]}})


def test_activitynet_is_read_as_paragraphs(tmp_path):
    write_activitynet(tmp_path)
    dataset = open_dataset(str(tmp_path), dev=2)
    found = described(dataset)
    assert found["test"] == {"v_test": ["A man 0. He runs."]}
    assert list(found["dev"]) == ["v_train0", "v_train4"]
    assert list(found["train"]) == ["v_train1", "v_train2", "v_train3"]
    times = dataset.splits["train"].times
    assert times is not None and times.end.tolist() == [11.5, 12.5, 13.5]
    published = described(open_dataset(str(tmp_path), dev=0))
    assert published["dev"] == published["test"] and len(published["train"]) == 5


def test_activitynet_a_video_of_no_length(tmp_path):
    write_activitynet(tmp_path)
    entry = {"duration": 0, "timestamps": [], "sentences": ["A man."]}
    path = write(tmp_path / "val_1.json", {"v_test": entry})
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        f"'duration' of v_test in '{path}' is 0. Expected seconds above 0. Download the file "
        "again."
    )


def test_didemo_joins_descriptions_of_a_video_whatever_its_ending(tmp_path):
    def entry(video: str, text: str, segments: int = 6) -> dict:
        return {
            "num_segments": segments,
            "description": text,
            "dl_link": "https://example.org",
            "times": [[1, 1], [1, 1], [0, 0]],
            "video": video,
            "annotation_id": 1,
        }

    moments = [entry("1@N_2.mov", "a man bends"), entry("3@N_4.", "a bug ", 5)]
    write(tmp_path / "val_data.json", [*moments, entry("1@N_2.mp4", "he rises")])
    write(tmp_path / "test_data.json", [entry("5@N_6.avi", "rocks")])
    dataset = open_dataset(str(tmp_path))
    assert described(dataset) == {
        "dev": {"1@N_2": ["a man bends he rises"], "3@N_4": ["a bug"]},
        "test": {"5@N_6": ["rocks"]},
    }
    times = dataset.splits["dev"].times
    assert times is not None and times.end.tolist() == [30.0, 25.0]


# --- BigFile -------------------------------------------------------------------------------


def write_bigfile(folder: Path, names: list[str], width: int = 2) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    rows = 1 + np.arange(len(names) * width, dtype=np.float32).reshape(-1, width)
    rows.tofile(folder / "feature.bin")
    write(folder / "shape.txt", f"{len(names)} {width}")
    write(folder / "id.txt", " ".join(names))
    return rows


def test_bigfile_frames_are_sorted_by_their_numbers(tmp_path):
    rows = {}
    for subset, video in (("toytrain", "video1"), ("toyval", "video2"), ("toytest", "video3")):
        names = [f"{video}_{frame}" for frame in (10, 0, 2)]
        rows[subset] = write_bigfile(tmp_path / subset / "FeatureData" / "net", names)
        lines = f"{video}#enc#0 a man runs\n{video}#enc#1 he runs\n"
        write(tmp_path / subset / "TextData" / f"{subset}.caption.txt", lines)
    dataset = open_dataset(str(tmp_path))
    assert described(dataset)["dev"] == {"video2": ["a man runs", "he runs"]}
    found = FeaturedSplit.join(dataset, "train", None).regions(np.array([0]))
    np.testing.assert_array_equal(found.features[0].numpy(), rows["toytrain"][[1, 2, 0]])


def test_bigfile_two_collections_ask_which(tmp_path):
    for subset in ("toytrain", "othertrain"):
        write_bigfile(tmp_path / subset / "FeatureData" / "net", ["video1_0"])
        write(tmp_path / subset / "TextData" / "x.caption.txt", "video1#0 a man\n")
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        f"There are 2 folders of the split 'train' in '{tmp_path}': othertrain, toytrain. "
        "Expected one. Say how its name begins with data.collection."
    )
    chosen = open_dataset(str(tmp_path), collection="toy")
    assert described(chosen) == {"train": {"video1": ["a man"]}}


def test_bigfile_a_malformed_line(tmp_path):
    write_bigfile(tmp_path / "toytrain" / "FeatureData" / "net", ["video1_0"])
    path = write(tmp_path / "toytrain" / "TextData" / "x.caption.txt", "video1 a man\n")
    assert refusal(lambda: open_dataset(str(tmp_path))) == (
        f"Line 1 of '{path}' is 'video1 a man'. Expected a video, '#', a number, a space and "
        "a sentence. Correct or remove the line."
    )


def test_bigfile_an_id_that_ends_in_a_number_is_no_frame(tmp_path):
    rows = write_bigfile(tmp_path / "net", ["clip_5_15", "clip_5_16_0", "clip_5_16_1"])
    where = VideoFeatures({"frames": tmp_path / "net"})
    found = VideoRows(["clip_5_15", "clip_5_16", "clip_5"], where)
    assert found.ids == ("clip_5_15", "clip_5_16", "clip_5")
    np.testing.assert_array_equal(found.rows(np.array([0]))[0], [rows[0], [0, 0]])
    np.testing.assert_array_equal(found.rows(np.array([1]))[0], rows[1:])


def test_bigfile_that_was_cut_short(tmp_path):
    write_bigfile(tmp_path / "net", ["a_0", "a_1"])
    with (tmp_path / "net" / "feature.bin").open("r+b") as file:
        file.truncate(12)
    where = VideoFeatures({"frames": tmp_path / "net"})
    assert refusal(lambda: VideoRows(["a"], where), BadFeatures) == (
        f"The folder '{tmp_path / 'net'}' has 2 names and 12 bytes of features. Expected 2 "
        "names and 16 bytes, as shape.txt says. Copy the folder again."
    )


# --- features ------------------------------------------------------------------------------


def test_features_that_cannot_be_read_are_refused(tmp_path):
    write_msvd(tmp_path)
    assert refusal(lambda: open_dataset(str(tmp_path), features="a=x, a=y"), BadRecipe) == (
        "data.features is 'a=x, a=y', which cannot be read at 'a=y'. Expected one path, or a "
        "different name for each: 'scene=PATH, audio=PATH'."
    )
    nowhere = open_dataset(str(tmp_path), features="feat")
    assert refusal(lambda: FeaturedSplit.join(nowhere, "dev", None), BadFeatures).startswith(
        f"There are no features of videos at '{tmp_path / 'feat'}'. Expected a folder with "
    )


def test_a_video_file_of_another_width_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    np.save(tmp_path / "b.npy", np.ones((2, 4)))
    rows = VideoRows(["a", "b"], VideoFeatures({"frames": tmp_path}))
    assert refusal(lambda: rows.rows(np.array([1])), BadFeatures) == (
        f"The features '{tmp_path / 'b.npy'}' have the shape (2, 4). Expected frames of 3 "
        "numbers, like the first file of the folder."
    )


@pytest.mark.parametrize(
    "name, stem",
    [("a.mov", "a"), ("a.", "a"), ("a.b.MP4", "a.b"), ("a_1.5", "a_1.5"), ("plain", "plain")],
)
def test_endings_of_video_files_are_taken_off(name, stem):
    assert without_ending(name) == stem


# --- the published files -------------------------------------------------------------------


def counted(name: str, **settings) -> dict[str, tuple[int, int]]:
    home = data_home()
    if home is None or not (home / name).is_dir():
        pytest.skip(f"no {name!r} in AVOW_DATA")
    splits = open_dataset(name, **settings).splits
    return {key: (len(split.image_ids), len(split.captions)) for key, split in splits.items()}


@pytest.mark.data
def test_the_compact_msvd_is_whole():
    expected = {"train": (1200, 48774), "dev": (100, 4290), "test": (670, 27763)}
    assert counted("msvd") == expected
    test = FeaturedSplit.join(open_dataset("msvd"), "test", None)
    assert (test.parts, test.dim) == (16, 512)


@pytest.mark.data
def test_the_official_msvd_is_whole():
    expected = {"train": (1200, 48774), "dev": (100, 4290), "test": (670, 27763)}
    assert counted("msvd-official") == expected


@pytest.mark.data
@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, {"train": (6513, 130260), "dev": (497, 9940), "test": (2990, 59800)}),
        (
            {"protocol": "7k"},
            {"train": (6513, 130260), "dev": (497, 9940), "test": (1000, 1000)},
        ),
        (
            {"protocol": "9k", "dev": "test"},
            {"train": (9000, 180000), "dev": (1000, 1000), "test": (1000, 1000)},
        ),
    ],
)
def test_the_published_msrvtt_is_whole(settings, expected):
    assert counted("msrvtt", **settings) == expected


@pytest.mark.data
def test_the_published_paragraphs_are_whole():
    expected = {"train": (10009, 10009), "dev": (4917, 4917), "test": (4917, 4917)}
    assert counted("activitynet", dev=0) == expected


@pytest.mark.data
def test_the_published_didemo_is_whole():
    found = counted("didemo")
    assert (found["dev"], found["test"]) == ((1065, 1065), (1004, 1004))
