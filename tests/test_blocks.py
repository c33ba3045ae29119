"""Shared layers against plain loops and against torch's own."""

from typing import get_args

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from avow.blocks.attention import FocusNorm, focus
from avow.blocks.normalise import unit
from avow.blocks.pooling import LastPool, LearntPool, MaxPool, MeanPool
from avow.blocks.recurrent import OneWayGru, TwoWayGru

counts = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def present(lengths: list[int]) -> torch.Tensor:
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


@settings(deadline=None)
@given(counts, st.integers(0, 1000))
def test_two_way_gru_equals_a_packed_bidirectional_one(lengths, seed):
    torch.manual_seed(seed)
    ours = TwoWayGru(3, 4)
    packed = torch.nn.GRU(3, 4, batch_first=True, bidirectional=True)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    for name in names:
        getattr(packed, name).data = getattr(ours.ahead, name).data
        getattr(packed, f"{name}_reverse").data = getattr(ours.back, name).data
    steps = torch.randn(len(lengths), max(lengths), 3)
    states, _ = packed(
        pack_padded_sequence(steps, torch.tensor(lengths), True, enforce_sorted=False)
    )
    states, _ = pad_packed_sequence(states, batch_first=True)
    expected = (states[..., :4] + states[..., 4:]) / 2
    torch.testing.assert_close(ours(steps, present(lengths)), expected)
    ahead = OneWayGru(3, 4)
    ahead.ahead = ours.ahead
    torch.testing.assert_close(ahead(steps, present(lengths)), states[..., :4])


@settings(deadline=None)
@given(counts, st.integers(0, 1000))
def test_pools_equal_a_plain_loop(lengths, seed):
    torch.manual_seed(seed)
    inside = present(lengths)
    parts = torch.randn(len(lengths), max(lengths), 5)
    learnt = LearntPool()
    table = learnt.weights(max(lengths), parts.device)
    for place, length in enumerate(lengths):
        own = parts[place, :length]
        mean, most = own.mean(0), own.amax(0)
        weighted = (own.sort(0, descending=True).values * table[length - 1, :length, None]).sum(
            0
        )
        torch.testing.assert_close(MeanPool()(parts, inside)[place], mean)
        torch.testing.assert_close(MaxPool()(parts, inside)[place], most)
        torch.testing.assert_close(LastPool()(parts, inside)[place], own[-1])
        torch.testing.assert_close(learnt(parts, inside)[place], weighted, rtol=1e-4, atol=1e-5)


def test_learnt_weights_are_a_distribution_over_an_items_own_parts():
    table = LearntPool().weights(6, torch.device("cpu"))
    torch.testing.assert_close(table.sum(-1), torch.ones(6))
    assert (table.triu(1) == 0).all()


def test_learnt_weights_of_a_length_do_not_depend_on_the_longest():
    torch.manual_seed(0)
    pool = LearntPool()
    short, long = (pool.weights(n, torch.device("cpu")) for n in (4, 9))
    torch.testing.assert_close(short, long[:4, :4])


def test_absent_parts_do_not_have_to_be_last():
    """Augmentation drops regions anywhere, so every pool must cope with gaps."""
    torch.manual_seed(0)
    parts = torch.randn(1, 5, 3)
    gaps = torch.tensor([[True, False, True, False, True]])
    packed = parts[:, [0, 2, 4]]
    whole = torch.ones(1, 3, dtype=torch.bool)
    for pool in (MeanPool(), MaxPool(), LastPool(), LearntPool()):
        torch.testing.assert_close(pool(parts, gaps), pool(packed, whole))


def test_unit_of_zero_is_zero_with_a_finite_gradient():
    x = torch.zeros(2, 3, requires_grad=True)
    unit(x).sum().backward()
    assert (unit(x) == 0).all()
    assert x.grad is not None and torch.isfinite(x.grad).all()


@settings(deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 1000),
    st.sampled_from(get_args(FocusNorm)),
)
def test_focus_equals_a_loop_without_padding(queries, context, seed, norm):
    torch.manual_seed(seed)
    raw = torch.randn(2, 6, 7)
    query_present = torch.arange(6) < queries
    context_present = torch.arange(7) < context
    found = focus(raw, query_present[None], context_present[None], 4.0, norm)
    for pair in range(2):
        cut = raw[pair, :queries, :context].clone()
        if norm.startswith("clipped"):
            cut = torch.where(cut > 0, cut, 0.1 * cut)
        for column in range(context):
            values = cut[:, column]
            if norm == "softmax":
                cut[:, column] = values.exp() / values.exp().sum()
            if norm.endswith("l2norm"):
                cut[:, column] = values / (values.square().sum().sqrt() + 1e-8)
            if norm.endswith("l1norm"):
                cut[:, column] = values / (values.abs().sum() + 1e-8)
        expected = torch.stack([(4.0 * row).exp() / (4.0 * row).exp().sum() for row in cut])
        torch.testing.assert_close(found[pair, :queries, :context], expected)
        assert not found[pair, :queries, context:].any()
