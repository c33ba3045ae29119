"""What videos will need of the core: times of items, and experts that may be missing."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from avow.core.contracts import Experts, PairedDataset, Split, Times
from avow.core.errors import BadData, BadFeatures
from avow.data.noise import draw_noise
from avow.training.folds import chosen


def times(count: int = 4) -> Times:
    start = np.arange(count) * 2.0
    return Times(start, start + 1.5, np.full(count, 25.0))


def split() -> Split:
    names = tuple(f"video{n}" for n in range(4))
    captions = tuple(f"caption {n}" for n in range(8))
    return Split(names, captions, np.repeat(np.arange(4), 2), times=times())


def experts(counts: dict[str, list[int]], parts: dict[str, int], seed: int = 0) -> Experts:
    """The first `counts` parts of every item are there; 0: the expert is missing for it."""
    draw = torch.Generator().manual_seed(seed)
    present = {
        name: torch.arange(parts[name])[None] < torch.tensor(some)[:, None]
        for name, some in counts.items()
    }
    features = {
        name: torch.randn(*mask.shape, 3 + place, generator=draw)
        for place, (name, mask) in enumerate(present.items())
    }
    return Experts(features, present)


COUNTS = {"scene": [2, 1, 2], "speech": [4, 0, 3]}


def test_times_stay_with_their_items():
    part = chosen(split(), np.array([False, True, False, True]))
    assert part.image_ids == ("video1", "video3")
    assert part.times is not None and part.times.rate is not None
    assert part.times.start.tolist() == [2.0, 6.0] and part.times.end.tolist() == [3.5, 7.5]
    assert part.times.rate.tolist() == [25.0, 25.0]
    assert times().seconds.tolist() == [1.5] * 4
    noisy = draw_noise(split(), 0.5, "caption", "derangement").apply(split())
    assert noisy.times is not None and noisy.times.start.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_the_fingerprint_knows_the_times_and_is_as_before_without_them():
    still = replace(split(), times=None)
    later = replace(split(), times=Times(times().start, times().end + 1))
    marks = [
        PairedDataset("clips", {"train": one}).fingerprint for one in (split(), later, still)
    ]
    assert len(set(marks)) == 3
    assert marks[2] == "a1a9293cce03be1b"  # of version 0.1, whose features and audits name it


@pytest.mark.parametrize(
    "start, end, rate",
    [
        (-1.0, 2.0, 25.0),
        (2.0, 2.0, 25.0),
        (0.0, np.nan, 25.0),
        (0.0, np.inf, 1.0),
        (0.0, 1.0, 0.0),
    ],
)
def test_impossible_times_are_refused(start, end, rate):
    with pytest.raises(BadData, match="Expected 0 <= start < end and a positive frame rate"):
        Times(np.array([0.0, start]), np.array([1.0, end]), np.array([1.0, rate]))


def test_times_of_another_number_of_items_are_refused():
    message = (
        "The times are of 1 and 2 items. Expected one start, end and frame rate for every item."
    )
    with pytest.raises(BadData, match=re.escape(message)):
        Times(np.zeros(2), np.ones(2), np.ones(1))


def test_a_missing_expert_is_one_without_parts():
    one = experts(COUNTS, {"scene": 2, "speech": 4})
    assert one.names == ("scene", "speech") and len(one) == 3
    assert one.available.tolist() == [[True, True], [True, False], [True, True]]


@pytest.mark.parametrize("rows", [slice(1, 3), torch.tensor([2, 0])])
def test_rows_keep_the_experts_of_an_item_together(rows):
    whole = experts(COUNTS, {"scene": 2, "speech": 4})
    part = whole.rows(rows).to("cpu")
    assert torch.equal(part.available, whole.available[rows])
    for name in whole.names:
        assert torch.equal(part.features[name], whole.features[name][rows])
        assert torch.equal(part.present[name], whole.present[name][rows])


def test_joined_batches_are_padded_per_expert_and_come_apart_again():
    short = experts({"scene": [1], "speech": [0]}, {"scene": 1, "speech": 1}, seed=1)
    long = experts(COUNTS, {"scene": 2, "speech": 4})
    both = Experts.joined([short, long])
    assert both.features["scene"].shape == (4, 2, 3)
    assert both.features["speech"].shape == (4, 4, 4)
    assert both.available.tolist() == [[True, False], *long.available.tolist()]
    back = both.rows(slice(1, 4))
    for name in long.names:
        assert torch.equal(back.features[name], long.features[name])
        assert torch.equal(back.present[name], long.present[name])


def test_experts_that_do_not_fit_together_are_refused():
    one = experts(COUNTS, {"scene": 2, "speech": 4})
    with pytest.raises(BadFeatures, match="a mask for each, in the same order"):
        Experts(one.features, {"scene": one.present["scene"]})
    cut = {**one.present, "speech": one.present["speech"][:, :2]}
    with pytest.raises(BadFeatures, match=r"The expert 'speech' has features \[3, 4, 4\]"):
        Experts(one.features, cut)
    other = experts({"scene": [1]}, {"scene": 1})
    with pytest.raises(BadFeatures, match="give missing experts an empty mask"):
        Experts.joined([one, other])
