"""ImageNet's names: the backbone's own classifier, read from grid cells."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image

from avow.assembly.features import pooled
from avow.backbones import efficientnet_lite2
from avow.blocks import imagenet_names as module
from avow.blocks.imagenet_names import Names, imagenet_names
from avow.core.errors import BadRecipe
from avow.data.readers.sample import build as open_sample
from avow.methods import tcvse

NEAR, FAR = ("tabby cat", "tiger cat"), "missile"


@pytest.fixture(scope="module", autouse=True)
def read_names() -> Iterator[list[str]]:
    """The names whose vectors are really read: three, as a thousand take seconds.

    The vectors of all others are drawn. In the long form all are read.
    """
    if os.environ.get("AVOW_LONG_TESTS"):
        yield imagenet_names()
        return
    read = [*NEAR, FAR]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "imagenet_names", lambda: read)
        module.name_vectors.cache_clear()
        vectors = torch.randn(1000, 384, generator=torch.Generator().manual_seed(0))
        vectors[[imagenet_names().index(name) for name in read]] = module.name_vectors()
        patch.setattr(module, "name_vectors", lambda: vectors)
        yield read
    module.name_vectors.cache_clear()


@pytest.fixture(scope="module")
def names() -> Names:
    return Names("efficientnet_lite2", 1280, 8, pretrained=True).eval()


def test_there_are_a_thousand_different_names():
    assert len(set(imagenet_names())) == 1000
    assert (imagenet_names()[0], imagenet_names()[999]) == ("tench fish", "toilet tissue")


def test_shares_are_those_of_the_published_classifier(names):
    """The mean of all cells is what the network's own classifier reads."""
    split = open_sample().splits["test"]
    files = dict(zip(split.image_ids, split.files or (), strict=True))
    backbone = efficientnet_lite2.build(size=256)
    pixels = torch.from_numpy(backbone.prepare(Image.open(files["coffee"])))[None]
    with torch.no_grad():
        cells = pooled(backbone(pixels), 8, backbone.identity)
        shares = names.shares(cells, torch.ones(1, 64, dtype=torch.bool))
        planes = (pixels.permute(0, 3, 1, 2).float() - 127) / 128
        theirs = backbone.network(planes).softmax(-1)
    torch.testing.assert_close(shares, theirs, rtol=1e-3, atol=1e-4)
    assert imagenet_names()[int(shares.argmax())] in ("espresso", "cup", "coffee mug")


def test_near_names_have_near_vectors(names):
    listed = imagenet_names()
    vectors = names.get_buffer("vectors").float()
    tabby, tiger, rocket = (vectors[listed.index(name)] for name in (*NEAR, FAR))
    assert tabby @ tiger > tabby @ rocket + 0.2


def test_cells_that_are_absent_do_not_count(names):
    cells = torch.randn(2, 5, 1280)
    present = torch.tensor([[True] * 5, [True, True, False, False, False]])
    alone = names.shares(cells[1:, :2], present[1:, :2])
    torch.testing.assert_close(names.shares(cells, present)[1:], alone)


def test_a_method_with_names_saves_no_classifier():
    method = tcvse.build(visual_dim=1280, vocabulary=9, dim=8, names="efficientnet_lite2")
    saved = {name for name in method.state_dict() if name.startswith("names.")}
    assert saved == {"names.vectors", "names.sharpness", "names.project.weight"}


def test_features_of_another_width_are_refused():
    with pytest.raises(BadRecipe) as caught:
        tcvse.build(visual_dim=16, vocabulary=9, dim=8, names="efficientnet_lite2")
    assert str(caught.value) == (
        "The classifier of 'efficientnet_lite2' reads 1280 numbers per cell and the features "
        'have 16. Expected the features of that backbone; set method.names = "" or change the '
        "features."
    )


def test_names_are_loaded_not_made_again(tmp_path):
    made = Names("efficientnet_lite2", 1280, 8, pretrained=False)
    assert not made.get_buffer("vectors").any()
    fresh = Names("efficientnet_lite2", 1280, 8, pretrained=True)
    made.load_state_dict(fresh.state_dict())
    assert np.array_equal(made.get_buffer("vectors"), fresh.get_buffer("vectors"))
