"""What is usual for a candidate, summed up block by block, against the whole matrix."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from avow.core.background import Background


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 1000))
def test_blocks_equal_the_whole(sizes, seed):
    torch.manual_seed(seed)
    blocks = [torch.rand(2, size, 3) for size in sizes]
    found = Background.from_scores(blocks, tau=0.1, kept=4)
    whole = torch.cat(blocks, 1)
    assert found.queries == sum(sizes)
    torch.testing.assert_close(found.log_mean, (whole / 0.1).exp().mean(1).log())
    torch.testing.assert_close(found.mean, whole.mean(1))
    torch.testing.assert_close(found.spread, whole.std(1, correction=0), atol=1e-3, rtol=1e-3)
    ordered = whole.sort(1, descending=True).values.transpose(1, 2)
    torch.testing.assert_close(found.top, ordered[..., :4])


def test_a_choice_of_candidates():
    found = Background.from_scores([torch.rand(1, 6, 5)], tau=0.05)
    part = found.of(torch.tensor([4, 0]))
    torch.testing.assert_close(part.top, found.top[:, [4, 0]])
    assert part.queries == 6
