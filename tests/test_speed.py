"""What the benchmark of speed relies on: plain loops that score alike, and honest counts."""

import pytest
import torch
from samples import regions, tokens
from torch.utils.flop_counter import FlopCounterMode

from avow import methods
from avow.core import folder
from benchmarks._flops import score_flops
from benchmarks._plain import plain_scores

WAYS = [
    ("scan", {"direction": "t2i"}),
    ("scan", {"direction": "i2t", "aggregate": "lse"}),
    ("imram", {"mode": "full"}),
    ("imram", {"mode": "text", "memory_norm": True}),
    ("acmnet", {"grounded": "text"}),
    ("acmnet", {"grounded": "image", "reduce": "sum"}),
    ("saf", {"similarity_dim": 16}),
    ("sgr", {"similarity_dim": 16}),
    ("gsmn", {}),
    ("vsrn", {}),
    ("dive", {"heads": 2, "head_dim": 8}),
    ("vse_infty", {}),
]
SIZES = {"visual_dim": 12, "vocabulary": 30, "dim": 64, "word_dim": 6}


def built(name, chosen):
    torch.manual_seed(0)
    return folder.build(methods, name, **SIZES, **chosen).eval()


@torch.inference_mode()
@pytest.mark.parametrize("name, chosen", WAYS)
def test_plain_loops_score_alike(name, chosen):
    method = built(name, chosen)
    visual = method.encode_visual(regions([5, 5, 5]))
    text = method.encode_text(tokens([7, 4, 1]))
    plain = plain_scores(method, visual, text)
    torch.testing.assert_close(method.score(visual, text), plain, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name, chosen", WAYS)
def test_arithmetic_is_counted_as_torch_counts_it(name, chosen):
    method = built(name, chosen)
    visual = method.encode_visual(regions([12] * 20, parts=12))
    text = method.encode_text(tokens([7] * 30))
    with FlopCounterMode(display=False) as counted:
        method.score(visual, text)
    ours = score_flops(method, 20, [7] * 30, 12, SIZES["dim"])
    # what all pairs of so few items share weighs more here than among thousands
    assert 0.97 * counted.get_total_flops() < ours * 1.35
    assert ours < 1.02 * counted.get_total_flops()


def test_figures_of_a_half_that_was_kept_say_where_they_are_from(monkeypatch):
    from benchmarks.speed import compact_vectors

    machine = {"cores": 2, "architecture": "x86_64", "date": "2026-11-18"}
    kept = {"machine": machine, "note": "the figures of quality were measured before, on one."}
    monkeypatch.setattr(compact_vectors, "read", lambda name: kept)
    assert compact_vectors.noted(None) == {}
    assert compact_vectors.noted("speed")["note"] == kept["note"]  # older than the machine's
    assert compact_vectors.noted("quality") == {
        "note": "the figures of speed were measured before, on 2 cores (x86_64), 2026-11-18."
    }
