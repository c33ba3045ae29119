"""The model that ships with Avow: what it learnt from, what it knows, how it is kept."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from samples import load_script, opened_once

from avow.core.places import packaged_folder
from avow.core.searching import Encoder
from avow.data.opening import dataset_file
from avow.data.readers.sample import build as open_sample
from avow.retrieval.answer import percent
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.encoders.run import ModelEncoder
from avow.retrieval.status import cost, costs
from avow.trust.held_out import ANSWERED
from avow.trust.policy import Policy

SCRIPT = Path(__file__).parent.parent / "scripts" / "default_model"


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return open_encoder()


def script() -> ModuleType:
    return load_script(SCRIPT)


def test_the_weights_are_small():
    folder = packaged_folder()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 75e6
    assert max(path.stat().st_size for path in folder.iterdir()) < 50e6


def test_a_server_encodes_texts_to_the_same_vectors(tmp_path, monkeypatch):
    """By onnxruntime, from files made once; texts of several lengths, alone and together."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    quick = ModelEncoder.open(packaged_folder(), "default")
    texts = ["a dog", "two children in red coats run over the snow", "dog " * 100]
    plain = quick.encode_texts(texts)
    quick.quicken()
    assert quick._quick is not None
    np.testing.assert_allclose(quick.encode_texts(texts), plain, atol=1e-5)
    alone = np.concatenate([quick.encode_texts([text]) for text in texts])
    np.testing.assert_allclose(alone, plain, atol=1e-5)
    kept = sorted((tmp_path / "backbones").iterdir())
    assert [path.suffix for path in kept] == [".onnx"] * quick.views
    before = [path.stat().st_mtime_ns for path in kept]
    quick.quicken()
    assert [path.stat().st_mtime_ns for path in kept] == before


def test_without_onnxruntime_texts_are_encoded_as_ever(monkeypatch):
    monkeypatch.setattr("avow.blocks.onnx_export._PACKAGES", ("no_such_package",))
    encoder = ModelEncoder.open(packaged_folder(), "default")
    encoder.quicken()
    assert encoder._quick is None and encoder.encode_texts(["a dog"]).shape == (1, encoder.dim)


def test_it_has_a_card():
    card = (packaged_folder() / "README.md").read_text("utf-8")
    for word in ("MS-COCO", "Flickr8k", "ImageNet", "CC BY 4.0", "Apache-2.0", "English"):
        assert word in card


@pytest.mark.parametrize(
    ("query", "usual"),
    [
        ("text", {"names": 0.06, "descriptions": 0.15}),
        ("image", {"questions": 0.15}),
        ("picture", {"questions": 0.2}),
    ],
)
def test_its_trust_was_fitted_for_it(encoder, query, usual):
    policy = Policy.load(packaged_folder() / f"trust-{query}.json")
    assert policy.conditions.model == encoder.fingerprint
    assert policy.usual_risks == usual
    for kind, risk in usual.items():
        assert policy.promised(risk, asked=kind).coverage >= ANSWERED[kind]


def test_what_a_risk_costs_is_told_for_galleries_of_this_size():
    """From held-out queries over about as many pictures; of other sizes nothing is claimed."""
    policy = Policy.load(packaged_folder() / "trust-text.json")
    few, many = (cost(policy, "names", 0.1, size) for size in (30, 1500))
    assert few.coverage != many.coverage
    assert few.wrong is not None and few.wrong <= 0.1 and many.wrong <= 0.1
    assert few.says == (
        f"At most 10 % wrong: answers {percent(few.coverage)} of names over 20 to 60 pictures; "
        f"{percent(few.wrong)} of these answers were wrong."
    )
    beyond = cost(policy, "descriptions", 0.2, 5000)
    assert beyond.wrong is None and beyond.says.startswith(
        "At most 20 % wrong: nothing was measured over about 5,000 pictures; over 20 to 1,894"
    )
    assert "cannot be promised" in cost(policy, "names", 0.1, 100_000).says
    never = cost(policy, "descriptions", 0.01, 30)
    assert not never.promised and never.says.startswith(
        "That at most 1 % of answers to descriptions are wrong cannot be promised here"
    )


def test_large_galleries_have_a_fit_of_their_own():
    policy = Policy.load(packaged_folder() / "trust-text.json")
    assert policy.for_size(1894) is policy
    larger = policy.for_size(1895)
    assert larger.conditions.model == policy.conditions.model
    assert larger.conditions.largest > 50_000 and larger.kinds == policy.kinds
    for kind, risk in larger.usual_risks.items():
        assert cost(larger, kind, risk, 10_000).wrong is not None
        assert "cannot be promised" in cost(larger, kind, risk, 10**6).says


def test_galleries_of_every_size_are_answered_at_the_usual_risk():
    """A few held-out queries about one size are no reason to answer none there."""
    policy = Policy.load(packaged_folder() / "trust-text.json")
    for size in np.geomspace(20, 57_000, 40).astype(int).tolist():
        one = policy.for_size(size)
        for of_kind in costs(one, None, size):
            assert of_kind.promised, (size, of_kind)
            assert of_kind.wrong is None or of_kind.wrong <= of_kind.risk, (size, of_kind)


def test_vectors_give_similarities(encoder):
    texts = encoder.encode_texts(["a cat", "a dog on a beach"])
    assert texts.shape == (2, encoder.dim) and encoder.views == 2
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, atol=1e-5)


def test_its_bank_is_encoded_already(encoder):
    given = encoder.packed_bank()
    assert given is not None and given.shape == (len(encoder.bank), encoder.dim)
    chosen = range(0, len(encoder.bank), 125)
    anew = encoder.encode_texts([encoder.bank[place] for place in chosen])
    np.testing.assert_allclose(given[list(chosen)], anew, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(given, axis=1), 1, atol=1e-3)


def test_it_knows_a_cat_from_a_cup(encoder):
    split = open_sample().splits["test"]
    files = dict(zip(split.image_ids, split.files or (), strict=True))
    names = ("chelsea", "coffee", "motorcycle_left")
    pictures = encoder.encode_images([_opened(files[name]) for name in names])
    texts = encoder.encode_texts(["a cat", "a cup of coffee", "a motorcycle"])
    assert (texts @ pictures.T).argmax(1).tolist() == [0, 1, 2]


@pytest.mark.data
def test_nothing_that_is_tested_was_learnt():
    """Neither photographs nor captions nor object names of dev and test photographs."""
    opened = {name: opened_once(name).splits for name in ("flickr8k", "coco")}
    objects = json.loads(dataset_file("coco", "objects.json").read_text())
    entries, prepare = [], script()
    for name, splits in opened.items():
        kept_back = {i for part in ("dev", "test") for i in splits[part].image_ids}
        assert kept_back.isdisjoint(splits["train"].image_ids)
        assert kept_back.isdisjoint(objects)
        entries += [
            prepare.entry(name, part, image, Path(image), ["a caption"])
            for part in ("train", "dev")
            for image in splits[part].image_ids[:500]
        ]
    prepare.label(entries)
    labelled = [entry for entry in entries if entry["labels"]]
    assert len(labelled) > 100
    assert {(entry["set"], entry["split"]) for entry in labelled} == {("coco", "train")}


@pytest.mark.data
def test_the_bank_asks_nothing_that_is_tested(encoder):
    opened = [opened_once(name).splits for name in ("flickr8k", "coco")]
    tested = {
        text.strip().lower()
        for splits in opened
        for part in ("dev", "test")
        for text in splits[part].captions
    }
    learnt = {text.strip().lower() for splits in opened for text in splits["train"].captions}
    own = {text.strip().lower() for text in encoder.bank}
    assert len(own & learnt) > 1000
    assert not (own & tested) - learnt


def _opened(path):
    from PIL import Image

    with Image.open(path) as picture:
        picture.load()
        return picture
