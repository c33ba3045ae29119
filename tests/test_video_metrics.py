"""Recall of videos against a plain loop over queries, with ties and many captions."""

import numpy as np
import pytest

from avow.metrics.video import video_ranks, video_recall


def plain_ranks(scores: np.ndarray, video_of: np.ndarray) -> tuple[list[float], list[float]]:
    """Sort every query's candidates, and average the places of those that score alike."""

    def place(row: np.ndarray, score: float) -> float:
        ordered = sorted(row.tolist(), reverse=True)
        return float(np.mean([1 + n for n, other in enumerate(ordered) if other == score]))

    texts = [place(scores[:, t], scores[video, t]) for t, video in enumerate(video_of)]
    videos = [
        min(place(row, row[t]) for t in np.flatnonzero(video_of == video))
        for video, row in enumerate(scores)
    ]
    return texts, videos


@pytest.mark.parametrize("levels", [3, 10, 10**6], ids=["many ties", "some", "hardly any"])
@pytest.mark.parametrize("block", [2, 512])
def test_ranks_equal_a_plain_loop(levels, block):
    draw = np.random.default_rng(levels)
    video_of = draw.permutation(np.concatenate([np.arange(9), draw.integers(0, 9, 30)]))
    scores = draw.integers(0, levels, (9, 39)).astype(np.float32)
    for found, expected in zip(
        video_ranks(scores, video_of, block), plain_ranks(scores, video_of), strict=True
    ):
        np.testing.assert_allclose(found, expected)


def test_the_seven_numbers_equal_a_plain_loop():
    draw = np.random.default_rng(0)
    video_of = np.repeat(np.arange(70), draw.integers(1, 6, 70))
    scores = draw.normal(size=(70, len(video_of)))
    scores[video_of, np.arange(len(video_of))] += 1
    found = video_recall(scores, video_of)
    for side, ranks in zip(
        (found.text_to_video, found.video_to_text), plain_ranks(scores, video_of), strict=True
    ):
        shares = [
            100 * sum(rank <= cut for rank in ranks) / len(ranks) for cut in (1, 5, 10, 50)
        ]
        mean = (shares[0] * shares[1] * shares[2]) ** (1 / 3)
        expected = [*shares, float(np.median(ranks)), sum(ranks) / len(ranks), mean]
        np.testing.assert_allclose(side.row, expected)
    assert found.rsum == pytest.approx(
        sum(sum(side.row[:3]) for side in (found.text_to_video, found.video_to_text))
    )
    assert found.to_dict()["rsum"] == found.rsum


def test_a_constant_model_ranks_in_the_middle_and_is_never_first():
    found = video_recall(np.zeros((5, 10)), np.arange(10) // 2)
    assert found.text_to_video.r1 == 0 and found.text_to_video.mean_rank == 3
    assert found.text_to_video.r5 == 100
    assert found.video_to_text.mean_rank == 5.5


def test_own_captions_stand_in_the_way_of_none_but_the_best():
    scores = np.array([[0.9, 0.1, 0.5], [0.0, 0.2, 0.4]])
    found = video_ranks(scores, np.array([0, 0, 1]))
    assert found[1].tolist() == [1, 1]
    assert found[0].tolist() == [1, 2, 2]


def test_nothing_found_has_a_geometric_mean_of_zero():
    scores = np.eye(4)[[1, 2, 3, 0]]
    assert video_recall(scores, np.arange(4)).text_to_video.geometric_mean == 0
