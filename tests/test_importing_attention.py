"""Published SCAN and IMRAM under our names, and what is refused."""

from typing import Any

import pytest
import torch
from samples import SIZES, regions, tokens

from avow import losses, methods
from avow.assembly.importing import imram, scan
from avow.assembly.translated import Translated
from avow.core import folder
from avow.core.errors import WrongCheckpoint

VISUAL, VOCABULARY, DIM, WORD = SIZES.values()
OPTIONS = {
    "margin": 0.3,
    "max_violation": True,
    "bi_gru": True,
    "num_layers": 1,
    "no_imgnorm": False,
    "no_txtnorm": True,
    "lambda_softmax": 4.0,
    "raw_feature_norm": "no_norm",
}
SCAN = {**OPTIONS, "cross_attn": "i2t", "agg_func": "LogSumExp", "lambda_lse": 5.0}
IMRAM = {**OPTIONS, "model_mode": "text_IMRAM", "iteration_step": 2, "no_IMRAM_norm": True}


def encoders() -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a linear layer, and of an embedding with a two-way GRU."""
    torch.manual_seed(0)
    image = torch.nn.Linear(VISUAL, DIM).state_dict()
    rnn = torch.nn.GRU(WORD, DIM, bidirectional=True).state_dict()
    text = {f"rnn.{name}": tensor for name, tensor in rnn.items()}
    return dict(image), {"embed.weight": torch.randn(VOCABULARY, WORD), **text}


def published_scan() -> dict[str, Any]:
    image, text = encoders()
    return {"model": [{f"fc.{name}": tensor for name, tensor in image.items()}, text]}


def published_imram() -> dict[str, Any]:
    image, text = encoders()
    state = {f"img_enc.fc_local.{name}": tensor for name, tensor in image.items()}
    state |= {f"txt_enc.{name}": tensor for name, tensor in text.items()}
    for layer in ("linear", "gate"):
        for direction in ("t2i", "i2t"):
            own = torch.nn.Linear(2 * DIM, DIM).state_dict()
            state |= {f"{layer}_{direction}.{name}": value for name, value in own.items()}
    return {"model": state}


def built(found: Translated) -> Any:
    """The method with the weights in it: every name and every shape fits."""
    settings = {key: value for key, value in found.method.items() if key != "name"}
    method = folder.build(methods, found.method["name"], **settings)
    method.load_state_dict(found.views[0])
    chosen = {key: value for key, value in found.loss.items() if key != "name"}
    folder.build(losses, found.loss["name"], **chosen)
    return method.eval()


def test_scan_in_our_words():
    found = scan.translate(published_scan(), SCAN)
    assert found.method == {
        "name": "scan",
        **SIZES,
        "text": "gru",
        "norm": "image",
        "smooth": 4.0,
        "raw_feature_norm": "none",
        "direction": "i2t",
        "aggregate": "lse",
        "lse_scale": 5.0,
    }
    assert found.loss == {"name": "hinge", "margin": 0.3, "hardest": True, "warm_up": 0}
    built(found)


@pytest.mark.parametrize(
    ("mode", "steps"), [("text", 2), ("image", 2), ("full", 2), ("full", 1)]
)
def test_imram_in_our_words(mode, steps):
    options = {**IMRAM, "model_mode": f"{mode}_IMRAM", "iteration_step": steps}
    published = published_imram()
    found = imram.translate(published, options)
    assert found.method["mode"] == mode and found.method["steps"] == steps
    assert found.method["memory_norm"] is False
    method = built(found)
    if steps > 1 and mode != "image":
        torch.testing.assert_close(
            method.pairing.words.fresh.weight.detach(), published["model"]["linear_t2i.weight"]
        )


def test_normalised_weights_are_multiplied_out():
    published = published_scan()
    image, _ = published["model"]
    plain = built(scan.translate(published_scan(), SCAN))
    weight = image.pop("fc.weight")
    image["fc.weight_g"], image["fc.weight_v"] = weight.norm(), weight * 7
    split = built(scan.translate(published, SCAN))
    visual, text = regions([5, 3]), tokens([7, 4])
    one, other = (m.score(m.encode_visual(visual), m.encode_text(text)) for m in (plain, split))
    torch.testing.assert_close(one, other)


def test_an_unknown_layer_is_not_dropped():
    published = published_scan()
    published["model"][1]["caps_bn.weight"] = torch.ones(3)
    assert "txt_enc.caps_bn.weight" in scan.translate(published, SCAN).views[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"agg_func": "Max"},
            "The checkpoint was trained with agg_func = 'Max'. Expected one of: Mean, "
            "LogSumExp. Import a checkpoint trained with one of those.",
        ),
        (
            {"bi_gru": False},
            "The checkpoint was trained with bi_gru = False. Expected True: one layer of a "
            "GRU read in both directions. Import a checkpoint trained with that.",
        ),
        (
            {"num_layers": 2},
            "The checkpoint was trained with num_layers = 2. Expected 1: one layer of a "
            "GRU read in both directions. Import a checkpoint trained with that.",
        ),
        (
            {"raw_feature_norm": "l3norm"},
            "The checkpoint was trained with raw_feature_norm = 'l3norm'. Expected one of: "
            "softmax, l2norm, clipped_l2norm, l1norm, clipped_l1norm, clipped, none, "
            "no_norm. Import a checkpoint trained with one of those.",
        ),
    ],
)
def test_what_cannot_be_translated_is_refused(change, expected):
    with pytest.raises(WrongCheckpoint) as caught:
        scan.translate(published_scan(), {**SCAN, **change})
    assert str(caught.value) == expected
