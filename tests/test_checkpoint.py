"""Saved models: cut into small files, whole again when opened, refused when damaged."""

import errno
import json

import pytest
import torch
from samples import SIZES, refusal, regions

from avow.assembly import checkpoint
from avow.assembly.model import Model
from avow.core.errors import BadData, BadFeatures, NoRoom, WrongCheckpoint
from avow.core.opinion import Opinion
from benchmarks.torture._model_damage import toy_model


@pytest.fixture
def model() -> Model:
    return toy_model(SIZES["visual_dim"])


def test_weights_are_cut_and_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "LARGEST_FILE", 1000)
    torch.manual_seed(0)
    state = {
        "large": torch.randn(100, 30),
        "half": torch.randn(7, 3).half(),
        "count": torch.tensor(5),
        "empty": torch.zeros(0, 4),
        "row": torch.randn(2000),
    }
    checkpoint.save_weights(state, tmp_path)
    files = list(tmp_path.glob("*.safetensors"))
    assert len(files) > 10
    assert max(file.stat().st_size for file in files) < 2000
    found = checkpoint.load_weights(tmp_path)
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], state[name]) for name in state)
    assert all(found[name].dtype == state[name].dtype for name in state)


def test_no_file_is_larger_than_16_megabytes(tmp_path):
    checkpoint.save_weights({"embedding": torch.zeros(30522, 300)}, tmp_path)
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 4 and max(sizes) <= 16 * 2**20


def test_saved_and_opened_is_the_same_model(model, tmp_path):
    model.save_pretrained(tmp_path / "run")
    opened = Model.from_pretrained(tmp_path / "run")
    texts = ["a red dog", "two cats"]
    before, after = (
        model.similarity(regions([5, 3]), texts),
        opened.similarity(regions([5, 3]), texts),
    )
    assert torch.equal(before, after)
    assert opened.recipe == model.recipe


def test_similarity_is_the_mean_of_the_views(model):
    texts = ["a red dog", "two cats sit", "mat"]
    views = model.similarities(regions([5, 3]), texts)
    assert [view.shape for view in views] == [(2, 3)] * 2
    torch.testing.assert_close(
        model.similarity(regions([5, 3]), texts), (views[0] + views[1]) / 2
    )


def test_the_order_of_texts_is_kept(model):
    """Captions are encoded sorted by length and must come back where they were."""
    texts = ["two cats sit on a mat", "a", "red dog runs", "a mat"]
    together = model.similarity(regions([5]), texts)[0]
    for place, text in enumerate(texts):
        alone = model.similarity(regions([5]), [text])[0, 0]
        torch.testing.assert_close(together[place], alone)


def test_opinions_of_both_directions_and_of_each_view(model):
    texts = ["a red dog", "two cats sit", "mat"]
    visual = regions([5, 3])
    by_image = model.opinion(visual, texts)
    assert by_image.uncertainty.shape == (2,) and by_image.belief.shape == (2, 3)
    by_text = model.opinion(visual, texts, query="text")
    assert by_text.uncertainty.shape == (3,)
    views = model.similarities(visual, texts)
    own = model.opinion(visual, texts, query="text", view="own")
    expected = Opinion.from_similarity(views[1].T, tau=0.1)
    torch.testing.assert_close(own.uncertainty, expected.uncertainty)
    assert model.evidence_settings == {"tau": 0.1, "kind": "exp"}


def test_features_of_another_width_are_refused(model):
    assert refusal(lambda: model.similarity(torch.zeros(1, 5, 7), ["a dog"]), BadFeatures) == (
        "The features have 7 numbers per part. Expected 12, as the run was trained with."
    )


def test_nan_is_refused(model):
    broken = torch.zeros(1, 5, 12)
    broken[0, 0, 0] = torch.nan
    assert refusal(lambda: model.similarity(broken, ["a dog"]), BadFeatures) == (
        "The features hold NaN or infinite numbers. Expected finite ones; extract them again."
    )


def test_nothing_to_compare_with_is_refused(model):
    assert (
        refusal(lambda: model.similarity(torch.zeros(1, 5, 12), []), BadData)
        == "There is no text to compare with. Expected at least one."
    )
    assert (
        refusal(lambda: model.similarity([], ["a dog"]), BadData)
        == "There is no image to compare with. Expected at least one."
    )


def test_photographs_need_a_backbone_in_the_recipe(model, tmp_path):
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    assert refusal(lambda: model.similarity([tmp_path / "a.png"], ["a dog"]), BadFeatures) == (
        "The run 'toy' was trained on features that came with its dataset. Expected such "
        "features, not photographs: pass a tensor [images, parts, dim]."
    )


@pytest.fixture
def saved(model, tmp_path):
    model.save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def test_a_truncated_file_is_named(saved):
    file = saved / "weights-00001.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    assert refusal(lambda: Model.from_pretrained(saved), WrongCheckpoint) == (
        f"The weights file {str(file)!r} is damaged. Expected the content that was saved with "
        "the run; copy the run again or train it anew."
    )


def test_a_missing_file_is_named(saved):
    file = saved / "weights-00001.safetensors"
    file.unlink()
    assert refusal(lambda: Model.from_pretrained(saved), WrongCheckpoint) == (
        f"The weights file {str(file)!r} is missing. Expected the content that was saved with "
        "the run; copy the run again or train it anew."
    )


def test_a_cut_index_is_named(saved):
    (saved / "checksums.json").unlink()
    index = saved / "weights.json"
    index.write_text(index.read_text()[:50])
    with pytest.raises(WrongCheckpoint) as caught:
        Model.from_pretrained(saved)
    assert str(caught.value).startswith(f"The checkpoint file {str(index)!r} cannot be read (")
    assert str(caught.value).endswith(
        "Expected a folder that `avow train` or `save_pretrained` wrote whole."
    )


def test_weights_of_another_method_are_refused(saved):
    (saved / "checksums.json").unlink()
    path = saved / "avow.json"
    about = json.loads(path.read_text())
    about["recipe"]["method"]["dim"] = 16
    path.write_text(json.dumps(about))
    with pytest.raises(WrongCheckpoint) as caught:
        Model.from_pretrained(saved)
    assert str(caught.value).startswith(
        f"The weights in {str(saved)!r} do not fit their recipe ("
    )
    assert str(caught.value).endswith(
        "Expected the weights of the same method; copy the run again or train it anew."
    )


def test_another_format_is_refused(saved):
    (saved / "checksums.json").unlink()
    path = saved / "avow.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 9, "avow": "7.0"}))
    assert refusal(lambda: Model.from_pretrained(saved), WrongCheckpoint) == (
        f"{str(saved)!r} has format 9. Expected 1; open it with the Avow version that wrote "
        "it (7.0)."
    )


def test_a_folder_without_a_model(tmp_path):
    assert refusal(lambda: Model.from_pretrained(tmp_path), WrongCheckpoint) == (
        f"There is no model in {str(tmp_path)!r}. Expected a folder made by `avow train` or "
        "`save_pretrained`, or 'default' for the model that comes with Avow."
    )


def test_a_full_disk_keeps_the_model_that_was_there(saved, monkeypatch):
    """Writing goes to a folder beside it, so the old one stays whole until the end."""
    model = Model.from_pretrained(saved)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    assert refusal(lambda: model.save_pretrained(saved), NoRoom) == (
        f"The disk is full while writing {str(saved)!r}. Everything written before is kept. "
        "Free some space and run the same command again to continue."
    )
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
