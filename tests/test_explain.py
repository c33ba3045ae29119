"""What carried a match: hiding a part and measuring again, against a plain loop."""

import numpy as np
import pytest
import torch
from PIL import Image
from search_samples import picture, save_toy, save_two_towers

from avow.core.contracts import Regions
from avow.core.errors import BadData
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.explain import (
    BLOCKS,
    MOST_IN_PAIRS,
    cell_weights,
    content_places,
    explain,
    heat_map,
    shares,
    squares,
    ways_to_hide,
    with_blocks,
    word_weights,
)

TEXT = "a red dog runs"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return open_encoder(str(save_toy(tmp_path_factory.mktemp("models") / "toy")))


@pytest.fixture(scope="module")
def towers(tmp_path_factory):
    place = tmp_path_factory.mktemp("models") / "siglip"
    save_two_towers("siglip", place)
    return open_encoder(str(place))


def quarters() -> Image.Image:
    """Four quarters that look quite different."""
    rng = np.random.default_rng(0)
    whole = np.zeros((64, 64, 3), np.uint8)
    whole[:32, 32:] = rng.integers(0, 256, (32, 32, 3))
    whole[32:, :32] = (230, 30, 30)
    whole[32:, 32:, 2] = np.arange(32) * 8
    return Image.fromarray(whole)


def test_cells_are_hidden_one_by_one_where_there_are_few(ours):
    """The same with one picture at a time, each time without one row of features."""
    query = ours.encode_texts([TEXT])[0]
    seen = ours.regions(ours.prepare(quarters())[None])
    whole = ours.encode_regions(seen)[0] @ query
    expected = []
    for cell in range(4):
        kept = [other for other in range(4) if other != cell]
        part = Regions(seen.features[:, kept], torch.ones(1, 3, dtype=torch.bool))
        expected.append(whole - ours.encode_regions(part)[0] @ query)
    found = explain(ours, TEXT, quarters())
    np.testing.assert_allclose(found.cells.ravel(), expected, atol=1e-5)
    assert found.similarity == pytest.approx(whole, abs=1e-5)


def test_a_cell_weighs_what_falls_without_the_squares_it_is_in(towers):
    """A corner is in four squares: of one cell, of two twice, of four."""
    query = towers.encode_texts([TEXT])[0]
    pixels = towers.prepare(quarters())
    present = np.ones((5, BLOCKS, BLOCKS), bool)
    present[1, 0, 0] = present[2, 0, :2] = present[3, :2, 0] = present[4, :2, :2] = False
    similarity = towers.encode_prepared(with_blocks(pixels, present.reshape(5, -1))) @ query
    shares = 1 / np.array([1, 2, 2, 4])
    expected = (similarity[0] - similarity[1:]) @ shares / shares.sum()
    _, cells = cell_weights(towers, quarters(), query)
    assert cells[0, 0] == pytest.approx(expected, abs=1e-5)
    hidden = ~squares(BLOCKS)
    assert len(hidden) == (BLOCKS + 1) ** 2 and set(hidden.sum(1)) == {1, 2, 4}
    assert (hidden.sum(0) == 4).all()


@pytest.mark.parametrize("cell", range(4))
def test_the_cell_that_was_asked_for_weighs_most(ours, cell):
    """A query that is one cell's own vector is carried by that cell."""
    seen = ours.regions(ours.prepare(quarters())[None])
    only = torch.arange(4)[None] == cell
    query = ours.encode_regions(Regions(seen.features, only))[0]
    _, cells = cell_weights(ours, quarters(), query)
    assert int(cells.argmax()) == cell and cells.max() > 0


def test_blocks_of_pixels_are_greyed(towers):
    """What a block adds is what the picture gains by it, where the others do not matter."""
    pixels = towers.prepare(quarters())
    edges = [round(place * 32 / BLOCKS) for place in range(BLOCKS + 1)]
    present = np.ones((1, BLOCKS**2), bool)
    present[0, [9, 48]] = False
    [shown] = with_blocks(pixels, present)
    hidden = pixels.copy()
    for row, column in ((1, 2), (6, 6)):
        hidden[edges[row] : edges[row + 1], edges[column] : edges[column + 1]] = 127
    np.testing.assert_array_equal(shown, hidden)


def test_a_block_that_is_grey_already_weighs_nothing(towers):
    grey = quarters()
    grey.paste((127, 127, 127), (0, 0, 64, 32))
    pixels = towers.prepare(grey)
    present = np.ones((2, BLOCKS**2), bool)
    present[1, : 3 * BLOCKS] = False
    one, other = with_blocks(pixels, present)
    assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["ours", "towers"])
def test_words_are_hidden_two_at_a_time(kind, request):
    """Three falls, each the sum of two weights, solved by hand."""
    encoder = request.getfixturevalue(kind)
    image = encoder.encode_images([picture(0)])[0]

    def fall(without):
        return (encoder.encode_texts([TEXT])[0] - encoder.encode_texts([without])[0]) @ image

    red_dog, red_runs, dog_runs = fall("a runs"), fall("a dog"), fall("a red")
    expected = {
        "red": (red_dog + red_runs - dog_runs) / 2,
        "dog": (red_dog + dog_runs - red_runs) / 2,
        "runs": (red_runs + dog_runs - red_dog) / 2,
    }
    found = word_weights(encoder, TEXT, image)
    assert [word for word, _ in found] == TEXT.split()
    weights = dict(found)
    assert weights.pop("a") is None
    assert weights == pytest.approx(expected, abs=1e-5)


def test_two_words_are_hidden_alone_too(ours):
    """The smallest errors: what both fall by is shared by how far it is from their sum."""
    image = ours.encode_images([picture(0)])[0]
    texts = ["a red dog", "a dog", "a red", "a picture"]
    whole, *left = (ours.encode_texts(texts) @ image).tolist()
    red, dog, both = (whole - one for one in left)
    rest = (both - red - dog) / 3
    weights = dict(word_weights(ours, "a red dog", image))
    assert weights["red"] == pytest.approx(red + rest, abs=1e-5)
    assert weights["dog"] == pytest.approx(dog + rest, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "places"),
    [("a cup of coffee", [1, 3]), ("Two dogs, on it", [1]), ("of the", [0, 1])],
)
def test_function_words_are_not_scored(text, places):
    assert content_places(text.split()) == places


@pytest.mark.parametrize("parts", [1, 2, 3, 9, MOST_IN_PAIRS, MOST_IN_PAIRS + 1, 400])
def test_falls_that_are_sums_give_their_weights(parts):
    """However many words there are; and the number of texts stays bounded."""
    weights = np.linspace(-1, 1, parts)
    hidden = ways_to_hide(parts)
    assert len(hidden) <= max(parts, MOST_IN_PAIRS * (MOST_IN_PAIRS - 1) // 2)
    np.testing.assert_allclose(shares(hidden @ weights, hidden), weights, atol=1e-9)


def test_the_word_that_was_meant_weighs_most(ours):
    """An image vector that is the direction a word adds is carried by that word."""
    with_word, without = ours.encode_texts(["a red dog", "a dog"])
    found = dict(word_weights(ours, "a red dog", with_word - without))
    assert found["red"] > found["dog"] and found["a"] is None


def test_a_query_of_one_word_has_a_weight(ours):
    [(word, weight)] = explain(ours, "dog", picture(1)).words
    assert word == "dog" and np.isfinite(weight)


def test_the_heat_map_is_warm_where_the_weight_is():
    dark = Image.new("RGB", (90, 60))
    cells = np.array([[0.0, 0.3], [-0.2, 0.0]])
    shown = np.asarray(heat_map(dark, cells)).astype(int)
    assert shown.shape == (60, 90, 3)
    assert shown[5, -5, 0] > 100 and shown[-5, 5].max() == 0 and shown[5, 5].max() < 20


def test_the_heat_map_of_nothing_is_the_photograph():
    photograph = picture(3)
    same = heat_map(photograph, np.full((2, 2), -0.1))
    assert np.array_equal(np.asarray(same), np.asarray(photograph))


def test_the_heat_map_stands_as_the_photograph_does(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side
    Image.new("RGB", (40, 20)).save(tmp_path / "turned.jpg", exif=exif)
    with Image.open(tmp_path / "turned.jpg") as photograph:
        assert heat_map(photograph, np.ones((2, 2))).size == (20, 40)


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(BadData, match="Expected numbers"):
        heat_map(picture(0), np.array([[np.nan]]))


def test_a_cup_of_coffee():
    """The shipped model: "cup" once had -.009, "coffee" -.002 and "of" +.003."""
    from skimage import data

    encoder = open_encoder()
    image = encoder.encode_images([Image.fromarray(data.coffee())])[0]
    weights = dict(word_weights(encoder, "a cup of coffee", image))
    assert weights["cup"] > 0.02 < weights["coffee"]
    assert weights["a"] is None and weights["of"] is None
    other = dict(word_weights(encoder, "a dog and a cup", image))
    assert other["dog"] < 0 < other["cup"]
