"""Joint spaces to search in: our own models and two-tower models, found by name."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file
from samples import refusal
from search_samples import PROCESSOR, picture, save_toy, save_two_towers, toy_model

import avow
from avow.assembly.model import Model
from avow.core.errors import AvowError, BadFeatures, BadRecipe, WrongCheckpoint
from avow.retrieval.encoders import bank
from avow.retrieval.encoders.hub import HubEncoder
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.encoders.run import ModelEncoder

TEXTS = ["a red dog", "two green cats sit", "the sea"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_toy(tmp_path_factory.mktemp("models") / "toy", bank=["a dog", "a cat"])


@pytest.fixture(scope="module")
def ours(run):
    return open_encoder(str(run))


@pytest.fixture(scope="module", params=["clip", "siglip"])
def towers(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("towers") / request.param
    return save_two_towers(request.param, place), place


# --- our own models -----------------------------------------------------------------------


def test_the_dot_product_is_the_similarity_of_the_model(run, ours):
    photographs = [picture(number) for number in range(3)]
    found = ours.encode_images(photographs) @ ours.encode_texts(TEXTS).T
    expected = Model.from_pretrained(run).similarity(photographs, TEXTS)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_each_slice_is_a_view(run, ours):
    photographs = [picture(number) for number in range(2)]
    images, texts = ours.encode_images(photographs), ours.encode_texts(TEXTS)
    assert (ours.views, ours.dim, images.shape[1]) == (2, 16, 16)
    views = Model.from_pretrained(run).similarities(photographs, TEXTS)
    for number, expected in enumerate(views):
        part = slice(8 * number, 8 * number + 8)
        found = ours.views * images[:, part] @ texts[:, part].T
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_vectors_have_length_one(ours):
    both = np.concatenate([ours.encode_texts(TEXTS), ours.encode_images([picture(1)])])
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=1e-5)
    assert both.dtype == np.float32


def test_reference_queries_come_from_the_folder(ours):
    assert ours.bank == ("a dog", "a cat")


def test_vectors_of_reference_queries_may_come_with_the_model(tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_HOME", str(tmp_path / "home"))
    place = save_toy(tmp_path / "toy", bank=["a dog", "a cat"])
    encoder = open_encoder(str(place))
    assert encoder.packed_bank() is None
    expected = encoder.encode_texts(encoder.bank)
    bank.pack(encoder, place)
    np.testing.assert_allclose(bank.encoded(encoder), expected, atol=3e-3)
    assert not (tmp_path / "home" / "banks").exists()

    (place / "bank.json").write_text('{"texts": ["a dog", "a fox"]}')
    (place / "checksums.json").unlink()
    other = open_encoder(str(place))
    assert other.packed_bank() is None  # of other queries
    assert np.array_equal(bank.encoded(other), other.encode_texts(other.bank))
    packed = (place / "bank.safetensors").read_bytes()
    (place / "bank.safetensors").write_bytes(packed[:40])
    assert encoder.packed_bank() is None  # damaged


def test_vectors_of_another_size_are_not_taken(tmp_path):
    place = save_toy(tmp_path / "toy", bank=["a dog", "a cat"])
    encoder = open_encoder(str(place))
    bank.pack(encoder, place)
    with safe_open(place / bank.VECTORS, "numpy") as packed:
        parts = {name: packed.get_tensor(name) for name in packed.keys()}
        about = packed.metadata()
    save_file(parts | {"steps": parts["steps"][:1]}, place / bank.VECTORS, about)
    (place / "checksums.json").unlink()
    assert encoder.packed_bank() is None


def test_vectors_of_other_weights_are_not_taken(tmp_path, ours):
    place = save_toy(tmp_path / "toy", bank=["a dog", "a cat"])
    bank.pack(ours, place)
    assert ours.packed_bank() is None  # its own folder has none
    other = ModelEncoder(toy_model(seed=1), "other", place)
    assert other.bank == ours.bank and other.packed_bank() is None
    assert ModelEncoder(toy_model(), "same", place).packed_bank() is not None


def test_damaged_reference_queries_are_named(tmp_path):
    place = save_toy(tmp_path / "toy")
    (place / "bank.json").write_text('{"texts": [3]}')
    with pytest.raises(WrongCheckpoint, match=r"bank\.json' cannot be read") as caught:
        open_encoder(str(place))
    assert str(caught.value).endswith("copy the model again.")


def test_the_fingerprint_follows_weights_and_pixels(ours):
    other = toy_model(seed=1)
    assert ModelEncoder(other, "other").fingerprint != ours.fingerprint
    same = toy_model()
    assert ModelEncoder(same, "same").fingerprint == ours.fingerprint
    same.visual["identity"] = {**same.visual["identity"], "size": 96}
    assert ModelEncoder(same, "stretched").fingerprint != ours.fingerprint


def test_a_training_run_is_opened_at_its_best(run, tmp_path, ours):
    (tmp_path / "best").write_text("best-00001")
    save_toy(tmp_path / "best-00001", bank=["one"])
    found = open_encoder(str(tmp_path))
    assert found.fingerprint == ours.fingerprint and found.bank == ("one",)
    assert found.name == str(tmp_path)


def test_a_pairwise_method_is_refused(tmp_path):
    place = save_toy(tmp_path / "pairs", method="scan")
    assert refusal(lambda: open_encoder(str(place)), BadRecipe) == (
        f"The model {str(place)!r} compares images and texts pair by pair (scan). Expected a "
        "method that gives every item one vector, such as vse_infty or tcvse; train one of "
        "those to search with."
    )


def test_a_model_without_a_pixel_network_is_refused():
    model = toy_model()
    blind = Model(
        type(model.recipe).from_dict(
            "blind", {k: v for k, v in model.recipe.to_dict().items() if k != "features"}
        ),
        model.views,
        model.tokeniser,
        {"dim": 1280, "parts": 4, "identity": None},
    )
    with pytest.raises(BadFeatures, match="Expected such features, not photographs"):
        ModelEncoder(blind, "blind")


def test_the_default_model_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(avow, "__file__", str(tmp_path / "__init__.py"))
    assert refusal(lambda: open_encoder(), WrongCheckpoint) == (
        "This copy of Avow comes without its default model. Expected one in the folder "
        "'avow/weights/default'; install Avow from a release, or name a model with --model "
        "(a run's folder, 'clip', 'siglip2', a hub name)."
    )


def test_the_default_model_is_the_packaged_one(monkeypatch, tmp_path, ours):
    save_toy(tmp_path / "weights" / "default")
    monkeypatch.setattr(avow, "__file__", str(tmp_path / "__init__.py"))
    found = open_encoder()
    assert (found.name, found.fingerprint) == ("default", ours.fingerprint)


def test_a_module_gives_a_model_of_its_own(monkeypatch, tmp_path):
    (tmp_path / "avowtest_space").mkdir()
    (tmp_path / "avowtest_space" / "colours.py").write_text(
        "from search_samples import ColourEncoder as build\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert open_encoder("avowtest_space.colours").name == "colours"
    with pytest.raises(BadRecipe, match="cannot be opened"):
        open_encoder("avowtest_space.none")


def test_a_folder_without_a_model(tmp_path):
    assert refusal(lambda: open_encoder(str(tmp_path)), WrongCheckpoint) == (
        f"There is no model in {str(tmp_path)!r}. Expected a folder made by `avow train` or "
        "`save_pretrained`, or a two-tower model saved by transformers; check the path."
    )


# --- two-tower models ---------------------------------------------------------------------


def test_towers_give_their_own_vectors(towers):
    """What the model itself makes of the same pixels and tokens."""
    network, place = towers
    found = open_encoder(str(place))
    assert isinstance(found, HubEncoder) and found.views == 1
    pixels = torch.from_numpy(np.stack([found.prepare(picture(n)) for n in range(2)]))
    mean, std = torch.tensor(PROCESSOR["image_mean"]), torch.tensor(PROCESSOR["image_std"])
    scaled = ((pixels / 255 - mean) / std).permute(0, 3, 1, 2)
    numbers = json.loads((place / "tokenizer.json").read_text())["model"]["vocab"]
    rows = [[0, *(numbers[word] for word in text.split()), 1] for text in TEXTS]
    longest = 12 if network.config.model_type == "siglip" else max(map(len, rows))
    ids = torch.tensor([row + [2] * (longest - len(row)) for row in rows])
    mask = {} if network.config.model_type == "siglip" else {"attention_mask": ids != 2}
    with torch.no_grad():
        expected = network(input_ids=ids, pixel_values=scaled, **mask)
    images = found.encode_images([picture(0), picture(1)])
    np.testing.assert_allclose(images, expected.image_embeds.numpy(), atol=1e-5)
    np.testing.assert_allclose(
        found.encode_texts(TEXTS), expected.text_embeds.numpy(), atol=1e-5
    )


def test_a_text_does_not_depend_on_its_neighbours(towers):
    found = open_encoder(str(towers[1]))
    together = found.encode_texts(TEXTS)
    alone = np.concatenate([found.encode_texts([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_whoever_ends_a_tokeniser_is_not_told_of_a_broken_model(towers, monkeypatch):
    def ended(*_, **__):
        raise KeyboardInterrupt

    found = open_encoder(str(towers[1]))
    monkeypatch.setattr(found, "words", ended)
    with pytest.raises(KeyboardInterrupt):
        found.encode_texts(TEXTS)


def test_a_text_longer_than_the_model_reads_is_cut(towers):
    found = open_encoder(str(towers[1]))
    long = found.encode_texts(["red " * 50])
    np.testing.assert_allclose(long, found.encode_texts(["red " * 10]), atol=1e-5)


def test_the_fingerprint_of_towers_follows_weights_and_pixels(towers, tmp_path):
    network, place = towers
    first = open_encoder(str(place)).fingerprint
    save_two_towers(network.config.model_type, tmp_path / "same")
    assert open_encoder(str(tmp_path / "same")).fingerprint == first
    save_two_towers(network.config.model_type, tmp_path / "other", seed=1)
    assert open_encoder(str(tmp_path / "other")).fingerprint != first
    file = tmp_path / "same" / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "image_mean": [0.1, 0.1, 0.1]}))
    assert open_encoder(str(tmp_path / "same")).fingerprint != first


def test_any_kind_of_picture_can_be_encoded(towers):
    found = open_encoder(str(towers[1]))
    pictures = [picture(0).convert(mode) for mode in ("L", "RGBA", "P", "CMYK")]
    assert np.isfinite(found.encode_images([*pictures, Image.new("RGB", (5, 90))])).all()


def test_a_model_of_one_tower_is_refused(tmp_path):
    import transformers as t
    from search_samples import VISION

    t.ViTModel(t.ViTConfig(**VISION)).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert refusal(lambda: open_encoder(str(tmp_path)), BadRecipe) == (
        f"{str(tmp_path)!r} is a 'vit' model, which has no vectors for both images and texts. "
        "Expected CLIP, SigLIP or SigLIP 2; choose another model."
    )


def test_a_name_that_cannot_be_reached(monkeypatch):
    import huggingface_hub

    def unreachable(*_, **__):
        raise OSError("no connection.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    assert refusal(lambda: open_encoder("siglip2"), AvowError) == (
        "The model 'google/siglip2-base-patch16-224' is no folder here, and the model hub did "
        "not give it (no connection). Check the name and the connection, or give a folder "
        "saved by transformers' `save_pretrained`."
    )


def test_a_model_without_a_quicker_way_stays_as_it_is(run):
    encoder = open_encoder(str(run))
    before = encoder.encode_texts(TEXTS)
    encoder.quicken()
    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), before)
