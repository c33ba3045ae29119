"""The sample opens, has five captions a photograph, and splits them as it says."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import refusal

from avow.core.errors import BadData, MissingExtra
from avow.data.readers import sample


@pytest.fixture(scope="module")
def dataset():
    return sample.build()


@pytest.fixture(scope="module")
def captions() -> dict[str, list[str]]:
    return json.loads(sample.CAPTIONS.read_text("utf-8"))


def test_every_photograph_opens(dataset):
    files = dataset.splits["test"].files
    assert len(files) == 18
    for file in files:
        with Image.open(file) as photograph:
            width, height = photograph.convert("RGB").size
        assert min(width, height) > 100


def test_five_different_captions_each(captions):
    everything = [text for five in captions.values() for text in five]
    assert {len(five) for five in captions.values()} == {5}
    assert len(set(everything)) == len(everything)
    assert all(text[0].isupper() and text.endswith(".") for text in everything)


def test_four_captions_teach_the_words_of_the_fifth(captions):
    def words(text: str) -> set[str]:
        return set(text.lower().replace(",", "").rstrip(".").split())

    for name, (*four, fifth) in captions.items():
        taught = set().union(*map(words, four))
        known = len(words(fifth) & taught) / len(words(fifth))
        assert known >= 0.8, f"{name}: {sorted(words(fifth) - taught)}"


def test_splits_share_photographs_but_not_captions(dataset):
    train, dev, test = (dataset.splits[name] for name in ("train", "dev", "test"))
    assert train.image_ids == dev.image_ids == test.image_ids
    assert len(set(train.image_ids)) == 18
    assert len(train.captions) == 4 * 18
    assert len(test.captions) == 18
    assert dev.captions == test.captions
    assert not set(train.captions) & set(test.captions)


def test_captions_point_at_their_photograph(dataset, captions):
    for split in dataset.splits.values():
        for text, place in zip(split.captions, split.image_of, strict=True):
            (name,) = [name for name, five in captions.items() if text in five]
            assert split.image_ids[place] == Path(name).stem
            assert split.files[place].as_posix().endswith(name)
        assert split.image_of.dtype == np.int64


def test_nothing_of_the_wheels_is_imported():
    code = (
        "import sys; from avow.data.readers import sample; sample.build();"
        "print({'skimage', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_no_folder_is_taken_for_the_sample(tmp_path):
    assert sample.recognises(tmp_path) is False


def test_a_missing_wheel_names_the_extra(monkeypatch):
    monkeypatch.setattr(sample, "find_spec", lambda package: None)
    assert refusal(lambda: sample.build(), MissingExtra) == (
        "The sample needs the package 'scikit-image', which is not installed. "
        "Install it with: pip install 'avow[sample]'."
    )


def test_a_missing_photograph_says_so(monkeypatch, tmp_path):
    hollow = importlib.util.spec_from_loader("skimage", None, is_package=True)
    hollow.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(sample, "find_spec", lambda package: hollow)
    assert refusal(lambda: sample.build(), BadData) == (
        "The installed 'scikit-image' has no photograph 'data/astronaut.png', which "
        "the sample needs. Install it anew with: pip install --force-reinstall "
        "scikit-image."
    )
