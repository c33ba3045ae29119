"""Corruption changes what it says, as often as it says, and nothing that is stored."""

import pytest
import torch
from torch import Tensor

from avow.core.contracts import Regions, Tokeniser
from avow.core.errors import BadRecipe
from avow.core.seeds import generator
from avow.data.captions import TokenTable
from avow.data.corruption import corrupt_words, drop_regions, mask_regions

MASK = 99


class Spelled(Tokeniser):
    """Words are written as numbers: "5 7-8" is a word 5 and a word of pieces 7, 8."""

    mask = MASK
    size = 100

    def __init__(self, fixed_ends: bool):
        self._fixed_ends = fixed_ends

    @property
    def fixed_ends(self) -> bool:
        return self._fixed_ends

    def words(self, caption: str) -> list[list[int]]:
        return [[int(piece) for piece in word.split("-")] for word in caption.split()]

    def save(self, folder) -> None:
        raise NotImplementedError


def table(*captions: str, fixed_ends: bool = False) -> TokenTable:
    return TokenTable.from_captions(Spelled(fixed_ends), captions)


def every(chosen: TokenTable) -> Tensor:
    return torch.arange(len(chosen.lengths))


def many(words: int = 10, captions: int = 4000, fixed_ends: bool = False) -> TokenTable:
    """Equal captions 1-2 1-2 ...: two pieces per word."""
    return table(*[" ".join(["1-2"] * words)] * captions, fixed_ends=fixed_ends)


def captions_of(tokens) -> list[list[int]]:
    pairs = zip(tokens.ids.tolist(), tokens.lengths.tolist(), strict=True)
    return [ids[:length] for ids, length in pairs]


MIXED = ("1 2-3 4 5-6-7 8", "1 2", "9-10", "3 4 5 6-7")


def test_ratio_0_gives_the_clean_tokens():
    chosen = table(*MIXED)
    rows = torch.tensor([3, 0])
    clean, same = chosen.tokens(rows), corrupt_words(chosen, rows, 0.0, generator(1))
    assert torch.equal(clean.ids, same.ids)
    assert torch.equal(clean.present, same.present)
    assert torch.equal(clean.lengths, same.lengths)


def test_the_same_seed_gives_the_same_and_another_does_not():
    chosen = many(captions=50)
    first, again, other = (
        corrupt_words(chosen, every(chosen), 0.5, generator(seed)).ids for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert first.shape != other.shape or not torch.equal(first, other)


def test_deleting_equals_a_plain_loop():
    """What is left of each caption is its words in order, whole, or its first word."""
    chosen = table(*MIXED * 50)
    words = [Spelled(False).words(caption) for caption in MIXED * 50]
    tokens = corrupt_words(chosen, every(chosen), 0.5, generator(3), ("delete",))
    for left, caption in zip(captions_of(tokens), words, strict=True):
        expected = []
        for word in caption:
            if left[len(expected) : len(expected) + len(word)] == word:
                expected += word
        assert left == expected and left


def test_masking_equals_a_plain_loop():
    """Every word is either untouched or hidden as a whole."""
    chosen = table(*MIXED * 50)
    words = [Spelled(False).words(caption) for caption in MIXED * 50]
    tokens = corrupt_words(chosen, every(chosen), 0.5, generator(3), ("mask",))
    for found, caption in zip(captions_of(tokens), words, strict=True):
        place = 0
        for word in caption:
            pieces = found[place : place + len(word)]
            assert pieces in (word, [MASK] * len(word))
            place += len(word)
        assert place == len(found)


def test_padding_is_zero_and_marked_absent():
    chosen = table(*MIXED * 50)
    tokens = corrupt_words(chosen, every(chosen), 0.5, generator(4))
    assert torch.equal(tokens.present, tokens.ids != 0)
    assert torch.equal(tokens.present.sum(1), tokens.lengths)
    assert tokens.ids.shape[1] == int(tokens.lengths.max())


def test_words_change_as_often_as_the_ratio_says():
    chosen = many()
    tokens = corrupt_words(chosen, every(chosen), 0.2, generator(5))
    pieces = chosen.ids.numel()
    hidden = (tokens.ids == MASK).sum() / pieces
    deleted = 1 - tokens.lengths.sum() / pieces
    replaced = (tokens.ids[tokens.present] > 2).sum() / pieces - hidden
    assert float(hidden) == pytest.approx(0.2 * 0.5, abs=0.005)
    assert float(deleted) == pytest.approx(0.2 * 0.4, abs=0.005)
    assert float(replaced) == pytest.approx(0.2 * 0.1, abs=0.003)


def test_shares_may_be_chosen():
    chosen = many()
    tokens = corrupt_words(
        chosen, every(chosen), 1.0, generator(5), ("delete", "mask"), (1.0, 3.0)
    )
    deleted = 1 - float(tokens.lengths.sum()) / chosen.ids.numel()
    assert deleted == pytest.approx(0.25, abs=0.01)


def test_shares_of_fewer_kinds_keep_their_proportion():
    chosen = many(words=40, captions=1000)  # too many words for all to be deleted
    kinds = ("mask", "delete")
    tokens = corrupt_words(chosen, every(chosen), 1.0, generator(5), kinds)
    deleted = 1 - float(tokens.lengths.sum()) / chosen.ids.numel()
    assert deleted == pytest.approx(4 / 9, abs=0.01)
    assert set(tokens.ids[tokens.present].tolist()) == {MASK}


def test_ratio_1_hides_everything():
    chosen = table(*MIXED)
    tokens = corrupt_words(chosen, every(chosen), 1.0, generator(1), ("mask",))
    assert tokens.lengths.tolist() == chosen.lengths.tolist()
    assert set(tokens.ids[tokens.present].tolist()) == {MASK}


def test_ratio_1_deletes_all_but_the_first_word():
    chosen = table(*MIXED)
    tokens = corrupt_words(chosen, every(chosen), 1.0, generator(1), ("delete",))
    assert captions_of(tokens) == [[1], [1], [9, 10], [3]]


def test_fixed_ends_stay():
    chosen = table(*MIXED, fixed_ends=True)
    tokens = corrupt_words(chosen, every(chosen), 1.0, generator(1), ("delete",))
    assert captions_of(tokens) == [[1, 8], [1, 2], [9, 10], [3, 6, 7]]


def words_of(tokens, chosen: TokenTable) -> list[list[tuple[int, ...]]]:
    """Captions of MIXED as words again; no two words of one caption begin alike."""
    found = []
    for row, ids in enumerate(captions_of(tokens)):
        known = {word[0]: word for word in Spelled(False).words(MIXED[row % len(MIXED)])}
        words, place = [], 0
        while place < len(ids):
            word = known[ids[place]]
            assert ids[place : place + len(word)] == word  # sub-words stay together
            words.append(tuple(word))
            place += len(word)
        found.append(words)
    return found


def test_swapped_words_change_places_and_nothing_else():
    chosen = table(*MIXED * 200)
    tokens = corrupt_words(chosen, every(chosen), 0.5, generator(3), ("swap",))
    assert torch.equal(tokens.present, tokens.ids != 0)
    orders = {kind: set() for kind in range(len(MIXED))}
    for row, words in enumerate(words_of(tokens, chosen)):
        whole = [tuple(word) for word in Spelled(False).words(MIXED[row % len(MIXED)])]
        assert sorted(words) == sorted(whole)
        orders[row % len(MIXED)].add(tuple(words))
    assert [len(orders[kind]) for kind in (1, 2)] == [2, 1]  # two words, one word
    assert len(orders[0]) > 20


def test_at_ratio_1_every_word_is_swapped_away_from_its_place():
    chosen = table(*MIXED * 100)
    tokens = corrupt_words(chosen, every(chosen), 1.0, generator(4), ("swap",))
    for row, words in enumerate(words_of(tokens, chosen)):
        whole = [tuple(word) for word in Spelled(False).words(MIXED[row % len(MIXED)])]
        stayed = [one for one, other in zip(words, whole, strict=True) if one == other]
        assert stayed == (whole if len(whole) == 1 else [])


def test_words_are_swapped_as_often_as_the_ratio_says():
    """A lone word takes its neighbour along, so short captions move a little more."""
    chosen = table(*[" ".join(map(str, range(1, 41)))] * 500)
    tokens = corrupt_words(chosen, every(chosen), 0.3, generator(5), ("swap",))
    moved = (tokens.ids != torch.arange(1, 41)).float().mean()
    assert float(moved) == pytest.approx(0.3, abs=0.01)


def test_a_lone_word_changes_places_with_its_neighbour():
    """Of two words one is chosen half of the time, both a quarter: three quarters move."""
    chosen = table(*["1 2-3"] * 4000)
    tokens = corrupt_words(chosen, every(chosen), 0.5, generator(7), ("swap",))
    moved = sum(caption == [2, 3, 1] for caption in captions_of(tokens)) / 4000
    assert moved == pytest.approx(0.75, abs=0.02)


def test_ends_that_are_fixed_are_not_swapped():
    chosen = table(*["1 2 3 4"] * 300, *["1 2 3"] * 300, *["1 2"] * 300, fixed_ends=True)
    tokens = corrupt_words(chosen, every(chosen), 0.7, generator(6), ("swap",))
    found = {tuple(caption) for caption in captions_of(tokens)}
    assert found == {(1, 2, 3, 4), (1, 3, 2, 4), (1, 2, 3), (1, 2)}


def test_swapping_goes_with_the_other_kinds_equally_often():
    chosen = many(words=40, captions=1000)
    kinds = ("mask", "swap", "delete")
    tokens = corrupt_words(chosen, every(chosen), 0.9, generator(5), kinds)
    pieces = chosen.ids.numel()
    assert float((tokens.ids == MASK).sum() / pieces) == pytest.approx(0.3, abs=0.01)
    assert 1 - float(tokens.lengths.sum()) / pieces == pytest.approx(0.3, abs=0.01)


def test_replacements_are_never_padding_and_reach_every_number():
    chosen = many()
    tokens = corrupt_words(chosen, every(chosen), 1.0, generator(1), ("replace",))
    assert set(tokens.ids.flatten().tolist()) == set(range(1, 100))
    same = (tokens.ids[:, 0::2] == tokens.ids[:, 1::2]).float().mean()
    assert float(same) == pytest.approx(1 / 99, abs=0.005)


def test_the_table_is_not_written_to():
    chosen = table(*MIXED)
    before = chosen.ids.clone(), chosen.word.clone(), chosen.lengths.clone()
    corrupt_words(chosen, every(chosen), 1.0, generator(1))
    after = chosen.ids, chosen.word, chosen.lengths
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_unknown_kind_is_refused():
    with pytest.raises(BadRecipe) as caught:
        corrupt_words(table("1"), torch.tensor([0]), 0.5, generator(1), ("shuffle",))
    assert str(caught.value) == (
        "There is no way to change words called 'shuffle'. Expected some of: mask, "
        "replace, delete, swap."
    )


def test_shares_must_fit_the_kinds():
    with pytest.raises(BadRecipe) as caught:
        corrupt_words(table("1"), torch.tensor([0]), 0.5, generator(1), ("mask",), (0.5, 0.5))
    assert str(caught.value) == (
        "The shares [0.5, 0.5] do not fit the kinds ['mask']. Expected one for each, "
        "none below 0 and not all 0. Change shares or kinds."
    )


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_ratio_outside_0_to_1_is_refused(ratio):
    sentence = (
        f"The share of changed words or regions is '{ratio}'. Expected 0 to 1. "
        "Change the ratio."
    )
    with pytest.raises(BadRecipe) as caught:
        corrupt_words(table("1"), torch.tensor([0]), ratio, generator(1))
    assert str(caught.value) == sentence
    for corrupt in (drop_regions, mask_regions):
        with pytest.raises(BadRecipe) as caught:
            corrupt(regions(2), ratio, generator(1))
        assert str(caught.value) == sentence


def regions(items: int, parts: int = 6, dim: int = 3) -> Regions:
    """Item i has 1 + i % parts regions present."""
    features = torch.rand(items, parts, dim, generator=generator("features"))
    count = 1 + torch.arange(items) % parts
    return Regions(features, torch.arange(parts) < count[:, None])


def test_dropped_regions_equal_a_plain_loop():
    given, ratio = regions(60), 0.6
    found = drop_regions(given, ratio, generator(7)).present
    chance = torch.rand(given.present.shape, generator=generator(7))
    for item in range(60):
        there = [part for part in range(6) if given.present[item, part]]
        kept = [part for part in there if chance[item, part] >= ratio]
        if not kept:
            kept = [max(there, key=lambda part: float(chance[item, part]))]
        assert found[item].nonzero().flatten().tolist() == kept


def test_regions_drop_as_often_as_the_ratio_says():
    given = Regions(torch.zeros(2000, 36, 1), torch.ones(2000, 36, dtype=torch.bool))
    kept = drop_regions(given, 0.2, generator(1)).present.float().mean()
    assert float(kept) == pytest.approx(0.8, abs=0.01)


def test_one_region_stays_when_all_would_go():
    given = regions(60)
    kept = drop_regions(given, 1.0, generator(1)).present
    assert kept.sum(1).tolist() == [1] * 60
    assert not (kept & ~given.present).any()


def test_an_image_without_regions_gets_none():
    given = Regions(torch.zeros(1, 4, 2), torch.zeros(1, 4, dtype=torch.bool))
    assert not drop_regions(given, 0.5, generator(1)).present.any()


def test_dropping_leaves_features_boxes_and_input_alone():
    given = Regions(
        torch.rand(5, 6, 3), torch.ones(5, 6, dtype=torch.bool), torch.rand(5, 6, 4)
    )
    found = drop_regions(given, 1.0, generator(1))
    assert found.features is given.features and found.boxes is given.boxes
    assert given.present.all()


def test_masked_regions_hold_the_value_in_a_copy():
    given = regions(200)
    before = given.features.clone()
    found = mask_regions(given, 0.5, generator(2))
    chance = torch.rand(given.present.shape, generator=generator(2))
    hidden = given.present & (chance < 0.5)
    assert torch.equal(given.features, before)
    assert (found.features[hidden] == 1e-8).all()
    assert torch.equal(found.features[~hidden], before[~hidden])
    assert torch.equal(found.present, given.present)


@pytest.mark.parametrize("corrupt", [drop_regions, mask_regions])
def test_regions_at_ratio_0_are_the_same(corrupt):
    given = regions(20)
    found = corrupt(given, 0.0, generator(1))
    assert torch.equal(found.features, given.features)
    assert torch.equal(found.present, given.present)


def test_regions_at_ratio_1_are_all_masked():
    given = regions(20)
    found = mask_regions(given, 1.0, generator(1), value=7.0)
    assert (found.features[given.present] == 7).all()
    assert torch.equal(found.features[~given.present], given.features[~given.present])


@pytest.mark.gpu
@pytest.mark.parametrize("corrupt", [drop_regions, mask_regions])
def test_draws_are_the_same_on_every_device(corrupt):
    given = regions(50)
    here = corrupt(given, 0.5, generator(1))
    there = corrupt(given.to("cuda"), 0.5, generator(1)).to("cpu")
    assert torch.equal(here.present, there.present)
    assert torch.equal(here.features, there.features)
