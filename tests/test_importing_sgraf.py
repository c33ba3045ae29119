"""Checkpoints of SGRAF: every weight finds its place, and what does not fit is named."""

import pytest
import torch
from samples import SIZES
from torch import Tensor

from avow import methods
from avow.assembly.importing import sgraf
from avow.core import folder
from avow.core.errors import WrongCheckpoint

SHAPE = {**SIZES, "regions": 5, "similarity_dim": 16}
OLD = {
    "visual.straight": "fc",
    "text.words": "embed",
    "visual_gist.local": "v_global_w.embedding_local.0",
    "visual_gist.local_norm": "v_global_w.embedding_local.1",
    "visual_gist.whole": "v_global_w.embedding_global.0",
    "visual_gist.whole_norm": "v_global_w.embedding_global.1",
    "visual_gist.weigh": "v_global_w.embedding_common.0",
    "text_gist.local": "t_global_w.embedding_local.0",
    "text_gist.whole": "t_global_w.embedding_global.0",
    "text_gist.weigh": "t_global_w.embedding_common.0",
    "local": "sim_tranloc_w",
    "whole": "sim_tranglo_w",
    "head.judge": "sim_eval_w",
    "head.weigh": "SAF_module.attn_sim_w",
    "head.norm": "SAF_module.bn",
}


def published(state: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """A state of ours as the published system would have saved it, biases and all."""
    parts: list[dict[str, Tensor]] = [{}, {}, {}]
    for name, tensor in state.items():
        module, _, kind = name.rpartition(".")
        if module.startswith("text.gru."):
            back = "_reverse" if ".back" in module else ""
            parts[1][f"cap_rnn.{kind}{back}"] = tensor
        elif module.startswith("head.steps."):
            _, _, step, layer = module.split(".")
            old = {"query": "graph_query_w", "key": "graph_key_w", "update": "sim_graph_w"}
            parts[2][f"SGR_module.{step}.{old[layer]}.{kind}"] = tensor
        else:
            side = {"visual": 0, "text": 1}.get(module.partition(".")[0], 2)
            parts[side][f"{OLD[module]}.{kind}"] = tensor
    biases(parts[2])
    return parts


def biases(comparison: dict[str, Tensor]) -> None:
    """Those that change no score, and running means that have seen them."""
    for name in [name for name in comparison if name.endswith("weight")]:
        module = name.removesuffix(".weight")
        if f"{module}.bias" not in comparison:
            comparison[f"{module}.bias"] = torch.rand(len(comparison[name]))
    for bias, norm in (
        ("v_global_w.embedding_global.0.bias", "v_global_w.embedding_global.1"),
        ("SAF_module.attn_sim_w.bias", "SAF_module.bn"),
    ):
        if bias in comparison:
            mean = f"{norm}.running_mean"
            comparison[mean] = comparison[mean] + comparison[bias]
            comparison[f"{norm}.num_batches_tracked"] = torch.tensor(3)
    comparison["v_global_w.embedding_local.1.num_batches_tracked"] = torch.tensor(3)


@pytest.mark.parametrize("name", ["saf", "sgr"])
def test_every_weight_finds_its_place(name):
    torch.manual_seed(0)
    steps = {"steps": 2} if name == "sgr" else {}
    state = folder.build(methods, name, **SHAPE, **steps).state_dict()
    state["visual_gist.whole_norm.num_batches_tracked"].fill_(3)
    options = {"margin": 0.3, "max_violation": True}
    found = sgraf.translate({"model": published(state)}, options)
    expected = {"name": name, **SHAPE, "text": "gru", "squash": "sigmoid", **steps}
    assert found.method == expected
    assert found.loss == {"name": "hinge", "margin": 0.3, "hardest": True, "warm_up": 0}
    (view,) = found.views
    assert view.keys() == state.keys()
    for key, tensor in state.items():
        torch.testing.assert_close(view[key], tensor, msg=key)


def test_evidence_reads_the_tanh():
    parts = published(folder.build(methods, "saf", **SHAPE).state_dict())
    found = sgraf.translate({"model": parts}, {"tau": 0.1})
    assert found.method["squash"] == "tanh"


def test_half_precision_becomes_whole():
    parts = published(folder.build(methods, "sgr", **SHAPE).half().state_dict())
    (view,) = sgraf.translate({"model": parts}, {}).views
    assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in view.values())


def test_what_is_unknown_keeps_its_name():
    parts = published(folder.build(methods, "saf", **SHAPE).state_dict())
    parts[2]["mystery.weight"] = torch.ones(1)
    assert "sim_enc.mystery.weight" in sgraf.translate({"model": parts}, {}).views[0]


def refusal(change, options: dict) -> str:
    parts = published(folder.build(methods, "saf", **SHAPE).state_dict())
    change(parts)
    with pytest.raises(WrongCheckpoint) as caught:
        sgraf.translate({"model": parts}, options)
    return str(caught.value)


def test_parts_that_are_no_unit_vectors():
    assert refusal(lambda parts: None, {"no_imgnorm": True}) == (
        "The checkpoint was trained with 'no_imgnorm'. Expected parts of length one. Import "
        "a checkpoint trained without it."
    )


def test_another_gru():
    assert refusal(lambda parts: parts[1].pop("cap_rnn.weight_hh_l0_reverse"), {}) == (
        "The checkpoint has a GRU of 'one direction'. Expected one layer, read in both "
        "directions. Import a checkpoint trained with that."
    )
    deeper = refusal(lambda parts: parts[1].update({"cap_rnn.weight_hh_l1": None}), {})
    assert deeper.startswith("The checkpoint has a GRU of 'several layers'. Expected one")


def test_another_system():
    def without_filtration(parts):
        for name in [name for name in parts[2] if name.startswith("SAF_module")]:
            del parts[2][name]

    assert refusal(without_filtration, {}) == (
        "The checkpoint has neither a 'SAF_module' nor an 'SGR_module'. Expected a network "
        "of SGRAF, which has one of them. Import such a checkpoint."
    )
