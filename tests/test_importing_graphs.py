"""Published names of VSRN, GSMN, DivE and RVSE++ in ours; numbers: test_oracles_graphs.py."""

import pytest
import torch
from samples import SIZES, regions, tokens

from avow import losses, methods
from avow.assembly.importing import dive, gsmn, rvsepp, vsrn
from avow.assembly.translated import Translated
from avow.core import folder
from avow.core.contracts import Method
from avow.core.errors import WrongCheckpoint

DIM, WORD_DIM = SIZES["dim"], SIZES["word_dim"]


def linear(name: str, outside: int, inside: int) -> dict[str, torch.Tensor]:
    return {
        f"{name}.weight": torch.randn(outside, inside),
        f"{name}.bias": torch.randn(outside),
    }


def gru(name: str, inside: int, hidden: int, ways: tuple[str, ...] = ("", "_reverse")):
    out = {}
    for way in ways:
        out[f"{name}.weight_ih_l0{way}"] = torch.randn(3 * hidden, inside)
        out[f"{name}.weight_hh_l0{way}"] = torch.randn(3 * hidden, hidden)
        out[f"{name}.bias_ih_l0{way}"] = torch.randn(3 * hidden)
        out[f"{name}.bias_hh_l0{way}"] = torch.randn(3 * hidden)
    return out


def norm(name: str, dim: int) -> dict[str, torch.Tensor]:
    return {
        f"{name}.weight": torch.rand(dim),
        f"{name}.bias": torch.randn(dim),
        f"{name}.running_mean": torch.randn(dim),
        f"{name}.running_var": torch.rand(dim) + 0.5,
        f"{name}.num_batches_tracked": torch.tensor(3),
    }


def text_encoder() -> dict[str, torch.Tensor]:
    words = {"embed.weight": torch.randn(SIZES["vocabulary"], WORD_DIM)}
    return words | gru("rnn", WORD_DIM, DIM)


def split(part: dict) -> tuple[str, dict]:
    return part["name"], {key: value for key, value in part.items() if key != "name"}


def built(made: Translated) -> Method:
    """Every setting is one the method has, and every tensor finds its place."""
    (name, settings), (method, sizes) = split(made.loss), split(made.method)
    folder.build(losses, name, **settings)
    view = folder.build(methods, method, **sizes)
    (state,) = made.views
    view.load_state_dict(state)
    return view.eval()


# --- RVSE++ -------------------------------------------------------------------------------


def rvsepp_checkpoint() -> dict:
    torch.manual_seed(0)
    pool = gru("gpool.gru", 32, 32) | {"gpool.linear.weight": torch.randn(1, 32)}
    image = linear("fc", DIM, SIZES["visual_dim"]) | pool
    image |= linear("mlp.layers.0", DIM // 2, DIM) | linear("mlp.layers.1", DIM, DIM // 2)
    image |= norm("mlp.bns.0", DIM // 2) | norm("mlp.bns.1", DIM)
    return {"model": [image, text_encoder() | pool]}


def test_rvsepp_is_vse_infinity_with_its_branch_after_the_projection():
    published = rvsepp_checkpoint()
    made = rvsepp.translate(published, {"margin": 0.3, "epsilon": 0.05})
    assert made.loss == {"name": "selhn", "margin": 0.3, "near": 0.05}
    assert made.method == {
        "name": "vse_infty",
        **SIZES,
        "text": "gru",
        "bend_from": "projection",
    }
    view, image = built(made), published["model"][0]
    features = regions([5, 3]).features
    straight = features @ image["fc.weight"].T + image["fc.bias"]
    inner = straight @ image["mlp.layers.0.weight"].T + image["mlp.layers.0.bias"]
    scale = (image["mlp.bns.0.running_var"] + 1e-5).sqrt()
    inner = (inner - image["mlp.bns.0.running_mean"]) / scale
    inner = (inner * image["mlp.bns.0.weight"] + image["mlp.bns.0.bias"]).relu()
    bent = inner @ image["mlp.layers.1.weight"].T + image["mlp.layers.1.bias"]
    torch.testing.assert_close(view.visual(features), straight + bent, rtol=1e-4, atol=1e-4)


def test_rvsepp_reads_words_both_ways():
    published = rvsepp_checkpoint()
    view, text = built(rvsepp.translate(published, {})), tokens([5])
    packed = torch.nn.GRU(WORD_DIM, DIM, batch_first=True, bidirectional=True)
    state = published["model"][1]
    packed.load_state_dict(
        {n.removeprefix("rnn."): t for n, t in state.items() if n.startswith("rnn.")}
    )
    states, _ = packed(state["embed.weight"][text.ids[:, :5]])
    mean = (states[..., :DIM] + states[..., DIM:]) / 2
    torch.testing.assert_close(view.text(text)[:, :5], mean)


def test_what_is_unknown_keeps_its_name():
    published = rvsepp_checkpoint()
    published["model"][0]["cnn.weight"] = torch.zeros(1)
    assert "img_enc.cnn.weight" in rvsepp.translate(published, {}).views[0]


# --- VSRN ---------------------------------------------------------------------------------


def vsrn_checkpoint(variant: str) -> dict:
    torch.manual_seed(0)
    image = linear("fc", DIM, SIZES["visual_dim"]) | gru("img_rnn", DIM, DIM, ("",))
    for number in range(1, 5):
        for part in ("g", "theta", "phi", "W.0"):
            name = f"Rs_GCN_{number}.{part}"
            image |= {f"{name}.weight": 0.1 * torch.randn(DIM, DIM, 1)}
            image |= {f"{name}.bias": torch.randn(DIM)}
        image |= norm(f"Rs_GCN_{number}.W.1", DIM)
    if variant == "f30k":
        image |= norm("bn", DIM)
    words = {"embed.weight": torch.randn(SIZES["vocabulary"], WORD_DIM)}
    return {"model": [image, words | gru("rnn", WORD_DIM, DIM, ("",))]}


@pytest.mark.parametrize("variant", ["f30k", "coco"])
def test_vsrn_as_it_is_published_has_no_captioner(variant):
    """Published checkpoints leave the captioner out; its variant shows in the weights."""
    made = vsrn.translate(vsrn_checkpoint(variant), {"margin": 0.2, "max_violation": True})
    assert made.method == {
        "name": "vsrn",
        **SIZES,
        "variant": variant,
        "text": "gru",
        "caption_weight": 0.0,
    }
    assert made.loss == {"name": "hinge", "margin": 0.2, "hardest": True, "warm_up": 0}
    view = built(made)
    sides = view.encode_visual(regions([5, 3])), view.encode_text(tokens([4, 2]))
    assert torch.isfinite(view.similarity(*sides)).all()


# --- GSMN and DivE ------------------------------------------------------------------------


def test_gsmn_drops_nothing_of_other_graphs():
    visual_graph = {
        "graph_convolution_1.mean_rho": torch.rand(1, 1),
        "graph_convolution_1.conv_weights.0.weight": torch.rand(4, 8),
    }
    textual_graph = {"out_3.bias": torch.zeros(1)}
    encoders = [linear("fc", DIM, SIZES["visual_dim"]), text_encoder()]
    published = {"model": [*encoders, visual_graph, textual_graph]}
    (view,) = gsmn.translate(published, {}).views
    assert "textual_graph.out_3.bias" in view


@pytest.mark.parametrize(
    ("key", "value", "wanted"), [("arch", "pvse", "slot"), ("use_bert", True, False)]
)
def test_dive_refuses_other_architectures(key, value, wanted):
    with pytest.raises(WrongCheckpoint) as caught:
        dive.translate({"model": {}}, {key: value})
    assert str(caught.value) == (
        f"The checkpoint was trained with {key} = {value!r}. Expected {wanted!r}. Import a "
        "checkpoint trained with that."
    )
