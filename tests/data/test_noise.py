"""Noise: drawn the same on every machine, never outside the training split, truth kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avow.core.contracts import PairedDataset, Split
from avow.core.errors import BadData, BadRecipe
from avow.data.noise import Noise, draw_noise, read_noise, with_noise


def split(images: int, captions: int = 5) -> Split:
    return Split(
        tuple(f"i{n}" for n in range(images)),
        tuple(f"c{n}" for n in range(images * captions)),
        np.repeat(np.arange(images), captions),
    )


many = settings(max_examples=60, deadline=None)
sizes = {
    "images": st.integers(2, 40),
    "captions": st.integers(1, 6),
    "ratio": st.floats(0, 1),
    "by": st.sampled_from(["image", "caption"]),
    "seed": st.integers(0, 5),
}


@many
@given(**sizes)
def test_a_permutation_moves_at_most_what_was_chosen(images, captions, ratio, by, seed):
    clean = split(images, captions)
    noise = draw_noise(clean, ratio, by, "permutation", seed)
    own = np.arange(images) if by == "image" else clean.image_of
    assert sorted(noise.index) == sorted(own)  # nobody is lost, nobody comes twice
    assert (noise.index != own).sum() <= int(ratio * len(own))
    assert np.array_equal(noise.index, draw_noise(clean, ratio, by, seed=seed).index)


@many
@given(**sizes)
def test_a_derangement_pairs_exactly_the_chosen_wrongly(images, captions, ratio, by, seed):
    clean = split(images, captions)
    own = np.arange(images) if by == "image" else clean.image_of
    try:
        noise = draw_noise(clean, ratio, by, "derangement", seed)
    except BadRecipe:
        # impossible only where more than half of the chosen belong to one image
        assert int(ratio * len(own)) < 2 * captions
        return
    assert sorted(noise.index) == sorted(own)
    assert (noise.index != own).sum() == int(ratio * len(own))


@many
@given(**sizes)
def test_captions_of_an_image_move_together_by_image(images, captions, ratio, by, seed):
    clean = split(images, captions)
    noise = draw_noise(clean, ratio, by, seed=seed)
    said = noise.image_of(clean).reshape(images, captions)
    if by == "image":
        assert (said == said[:, :1]).all()
    assert np.array_equal(noise.wrong(clean), said.ravel() != clean.image_of)


def test_published_files_are_read_and_written(tmp_path):
    clean = split(6)
    for by in ("image", "caption"):
        noise = draw_noise(clean, 0.5, by)
        noise.save(tmp_path / "noise_inx_0.5.npy")
        again = read_noise(tmp_path / "noise_inx_0.5.npy", by)
        assert np.array_equal(again.image_of(clean), noise.image_of(clean))
    swapped = np.array([1, 0, 2, 3, 4, 5])
    np.save(tmp_path / "decl.npy", swapped)
    said = read_noise(tmp_path / "decl.npy", "image").image_of(clean)
    assert said.tolist() == np.repeat(swapped, 5).tolist()


def test_only_the_training_split_is_touched():
    whole = PairedDataset("toy", {name: split(6) for name in ("train", "dev", "test")})
    noisy = with_noise(whole, draw_noise(whole.splits["train"], 1.0, kind="derangement"))
    assert (noisy.splits["train"].image_of != whole.splits["train"].image_of).all()
    assert noisy.splits["dev"] is whole.splits["dev"]
    assert noisy.splits["test"] is whole.splits["test"]
    assert noisy.splits["train"].image_ids == whole.splits["train"].image_ids


def test_mistakes_are_told(tmp_path):
    clean = split(6)
    with pytest.raises(BadRecipe, match=r"The noise ratio is 1.5. Expected a share"):
        draw_noise(clean, 1.5)
    with pytest.raises(BadData, match=r"30 entries. Expected 6.* Set noise.by = \"caption\""):
        Noise("image", np.zeros(30, np.int64)).apply(clean)
    with pytest.raises(BadData, match=r"names image 6\. Expected numbers from 0 to 5"):
        Noise("image", np.arange(1, 7)).apply(clean)
    with pytest.raises(BadData, match=r"names image -2\. Expected numbers from 0 to 5"):
        Noise("image", np.array([0, 1, -2, 3, 4, 5])).apply(clean)
    with pytest.raises(BadRecipe, match="4 of them belong to one image"):
        draw_noise(split(1, 4), 1.0, "caption", "derangement")
    (tmp_path / "x.npy").write_text("no array")
    with pytest.raises(BadData, match="cannot be read"):
        read_noise(tmp_path / "x.npy", "image")
    np.savez(tmp_path / "archive.npz", index=np.arange(6))
    (tmp_path / "empty.npy").touch()
    for name in ("archive.npz", "empty.npy", "absent.npy"):
        with pytest.raises(BadData) as caught:
            read_noise(tmp_path / name, "image")
        told = str(caught.value)
        assert told.startswith(f"The noise '{tmp_path / name}' cannot be read (")
        assert told.endswith(
            "). Expected an array of whole numbers saved by numpy. Download or write it again."
        )
    np.save(tmp_path / "y.npy", np.zeros((2, 2)))
    with pytest.raises(BadData, match=r"holds float64 of the shape \(2, 2\)"):
        read_noise(tmp_path / "y.npy", "image")
