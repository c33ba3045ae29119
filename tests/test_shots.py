"""Segments of videos: borders, key frames, lengths and pooled vectors, on known frames."""

from itertools import pairwise

import numpy as np
import pytest

from avow.core.shots import FrameLog, Segment, ShotSettings, pooled, segments
from avow.core.video_types import Frame

DIM = 32


def scenes(count: int, seed: int = 0) -> np.ndarray:
    """Directions that have nothing to do with each other."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(DIM, count)))[0].T


def picture(kind: str = "sharp", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 255, (48, 64, 3)).astype(np.uint8)
    if kind == "blurred":
        soft = np.linspace(20, 230, 64).astype(np.uint8)
        pixels = np.broadcast_to(soft[None, :, None], (48, 64, 3)).copy()
    if kind in ("black", "white"):
        pixels[:] = 4 if kind == "black" else 253
    return pixels


def logged(
    kinds: list[str], jumps: dict[int, float] | None = None, first: float = 0.0
) -> FrameLog:
    """One frame a second. jumps: frames before which the picture jumped, and when."""
    log = FrameLog()
    for number, kind in enumerate(kinds):
        time = first + number
        jump = (jumps or {}).get(number)
        change = (0.01, time, 0.01) if jump is None else (0.4, jump, 0.01)
        log.add(Frame(time, time + 1, picture(kind, number), False, *change))
    return log


def around(rows: list[np.ndarray], noise: float = 0.2, seed: int = 1) -> np.ndarray:
    """Unit vectors near the given ones."""
    rng = np.random.default_rng(seed)
    vectors = np.array(rows) + rng.normal(size=(len(rows), DIM)) * noise / DIM**0.5
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def spans(parts: list[Segment]) -> list[tuple[float, float]]:
    return [(part.start, part.end) for part in parts]


def test_cuts_are_placed_when_the_picture_jumped():
    a, b, c = scenes(3)
    log = logged(["sharp"] * 12, {4: 3.24, 9: 8.92}, first=1.5)
    parts = segments(log, around([a] * 4 + [b] * 5 + [c] * 3))
    assert spans(parts) == [(1.5, 3.24), (3.24, 8.92), (8.92, 13.5)]
    assert [(part.first, part.stop) for part in parts] == [(0, 4), (4, 9), (9, 12)]


def test_a_jump_that_features_do_not_confirm_is_no_border():
    (a,) = scenes(1)
    log = logged(["sharp"] * 10, {5: 4.5})
    assert spans(segments(log, around([a] * 10), keyframes=[0.0, 1.0, 4.5, 9.0])) == [
        (0.0, 10.0)
    ]


def test_small_changes_are_borders_only_where_the_picture_jumped():
    a, b = scenes(2)
    near = 0.9 * a + 0.43 * b
    vectors = around([a] * 6 + [near] * 6, 0.05)
    assert len(segments(logged(["sharp"] * 12), vectors)) == 1
    assert spans(segments(logged(["sharp"] * 12, {6: 5.5}), vectors)) == [(0, 5.5), (5.5, 12)]


def test_keyframes_out_of_turn_make_a_border_cheaper():
    a, b = scenes(2)
    vectors = around([a] * 6 + [0.83 * a + 0.56 * b] * 6, 0.0)
    settings = ShotSettings(border=1.05, keyframe_discount=0.8)
    log = logged(["sharp"] * 12)
    regular = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert len(segments(log, vectors, regular, settings)) == 1
    early = [0.0, 2.0, 4.0, 5.4, 7.4, 9.4, 11.4]
    assert len(segments(log, vectors, early, settings)) == 2


@pytest.mark.parametrize("middle", [5.0, 5.3, 5.8])
@pytest.mark.parametrize("length", [0.6, 1.5, 2.5])
def test_the_border_of_a_fade_is_its_middle(middle: float, length: float):
    a, b = scenes(2)
    share = np.clip((np.arange(12) - middle) / length + 0.5, 0, 1)[:, None]
    vectors = around(list((1 - share) * a + share * b), 0.05)
    first, second = segments(logged(["sharp"] * 12), vectors)
    assert first.end == second.start == pytest.approx(middle, abs=0.6)


def test_a_long_shot_is_divided():
    (a,) = scenes(1)
    parts = segments(
        logged(["sharp"] * 100), around([a] * 100), settings=ShotSettings(longest=30.0)
    )
    assert all(part.end - part.start <= 31.0 for part in parts)
    assert len(parts) == 4
    assert all(one.end == other.start for one, other in pairwise(parts))


def test_black_frames_are_in_no_vector_and_no_key_frame():
    a, b, dark = scenes(3)
    kinds = ["black"] * 2 + ["sharp"] * 4 + ["black"] * 1 + ["sharp"] * 4 + ["white"] * 3
    log = logged(kinds, {2: 1.6})
    vectors = around([dark] * 2 + [a] * 4 + [dark] + [b] * 4 + [dark] * 3, 0.05)
    parts = segments(log, vectors)
    assert spans(parts) == [(1.6, 6.5), (6.5, 11.0)]
    found = pooled(vectors, parts, log)
    assert (found @ np.array([a, b]).T).argmax(1).tolist() == [0, 1]
    assert np.abs(found @ dark).max() < 0.1
    assert all(log.shows_something[log.times.index(part.key)] for part in parts)


def test_long_black_is_part_of_no_segment():
    a, b, dark = scenes(3)
    log = logged(["sharp"] * 4 + ["black"] * 5 + ["sharp"] * 4)
    parts = segments(log, around([a] * 4 + [dark] * 5 + [b] * 4))
    assert spans(parts) == [(0.0, 4.0), (9.0, 13.0)]


def test_a_dark_video_still_has_a_segment():
    (a,) = scenes(1)
    log = logged(["black"] * 5)
    parts = segments(log, around([a] * 5))
    assert spans(parts) == [(0.0, 5.0)]
    assert np.isfinite(pooled(around([a] * 5), parts, log)).all()


def test_a_blurred_frame_is_no_key_frame():
    (a,) = scenes(1)
    log = logged(["blurred", "blurred", "sharp", "blurred", "blurred"])
    vectors = around([a] * 5)
    vectors[2] = around([a], 0.9, seed=5)[0]  # the blurred ones are nearer to the mean
    (part,) = segments(log, vectors)
    assert part.key == 2.0


def test_pooled_vectors_are_means_of_directions_in_every_view():
    a, b = scenes(2)
    rows = np.hstack([around([a, a, b]), around([b, b, b], seed=2)]) / 2**0.5
    part = Segment(0.0, 3.0, 0.0, 0, 3)
    (one,) = pooled(rows.astype(np.float32), [part], views=2)
    halves = one.reshape(2, DIM)
    assert np.linalg.norm(halves, axis=1) == pytest.approx([0.5**0.5] * 2)
    for half, own in zip(halves, np.split(rows, 2, axis=1), strict=True):
        mean = own.mean(0)
        assert half == pytest.approx(mean / np.linalg.norm(mean) / 2**0.5, abs=1e-6)


def test_the_partition_is_the_best_of_all():
    """Against every partition of ten frames."""
    a, b, c = scenes(3)
    vectors = around([a, a, b, a, b, b, c, c, a, a], 0.6).astype(np.float64)
    price = 0.7

    def cost(borders: tuple[int, ...]) -> float:
        parts = pairwise([0, *borders, len(vectors)])
        inside = [vectors[i:j] - vectors[i:j].mean(0) for i, j in parts]
        return sum((part**2).sum() for part in inside) + price * len(borders)

    choices = [tuple(n for n in range(1, 10) if mask >> (n - 1) & 1) for mask in range(2**9)]
    best = min(choices, key=cost)
    parts = segments(logged(["sharp"] * 10), vectors, settings=ShotSettings(border=price))
    assert tuple(part.first for part in parts[1:]) == best
    assert len(best) >= 2


def test_nothing_and_what_does_not_fit():
    assert segments(FrameLog(), np.zeros((0, DIM), np.float32)) == []
    with pytest.raises(ValueError, match="2 vectors of 3 frames; expected one each"):
        segments(logged(["sharp"] * 3), np.ones((2, DIM), np.float32))
