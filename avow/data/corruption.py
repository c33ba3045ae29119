"""Captions and images made worse on purpose: for augmentation, and to test trust.

Everything is drawn from the generator that is passed in, on the processor, and returned
as new values: what is stored is never written to. Published systems mask regions inside
their stored features, so that after three epochs almost all of them are gone.

Papers: Chen et al., "Learning the Best Pooling Strategy", CVPR 2021 (words, regions);
Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025 (masked regions);
"Trust-consistent Visual Semantic Embedding for Image-Text Matching", 2022 (swapped words).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from avow.core.contracts import Regions, Tokens
from avow.core.errors import BadRecipe
from avow.data.captions import TokenTable

KINDS = ("mask", "replace", "delete", "swap")
SHARES = {"mask": 0.5, "replace": 0.1, "delete": 0.4}
"""How often a changed word meets each fate in training, as published."""
USUAL = tuple(SHARES)

KEEP = -1
MASK, REPLACE, DELETE, SWAP = range(len(KINDS))


def corrupt_words(
    table: TokenTable,
    rows: Int[Tensor, " rows"],
    ratio: float,
    generator: Generator,
    kinds: Sequence[str] = USUAL,
    shares: Sequence[float] | None = None,
) -> Tokens:
    """The captions `rows`, each of their words changed with probability `ratio`.

    A changed word is hidden, replaced by random numbers, deleted or moved to the place of
    another one, all its sub-words alike, as often as `shares` say for each of `kinds` (as
    published, or equally often where "swap" is among them). A caption keeps its first word
    where all would go, and both its ends where the tokeniser needs them.
    """
    _check_ratio(ratio)
    shared = _shares(kinds, shares)
    clean = table.tokens(rows)
    if ratio == 0 or not clean.ids.numel():
        return clean
    word = table.word[rows, : clean.ids.shape[1]].long()
    fates = _fates(word.amax(1) + 1, ratio, shared, table.fixed_ends, generator)
    fate = fates.gather(1, word.clamp(min=0))
    if shared[SWAP] > 0:
        counts = word.amax(1) + 1
        place = _swapped(fates == SWAP, counts, table.fixed_ends, generator)
        order = _in_order(place.gather(1, word.clamp(min=0)), clean.present)
        clean = Tokens(clean.ids.gather(1, order), clean.present)
        fate = fate.gather(1, order)
    # number 0 is padding, so it is no replacement
    random = torch.randint(1, table.size, clean.ids.shape, generator=generator)
    ids = clean.ids.masked_fill(fate == MASK, table.mask)
    ids = torch.where(fate == REPLACE, random, ids)
    return _compacted(ids, clean.present & (fate != DELETE))


def corrupt_captions(
    table: TokenTable, ratio: float, generator: Generator, kinds: Sequence[str] = USUAL
) -> TokenTable:
    """All captions of a table changed as `corrupt_words` does; every part is then a word."""
    changed = corrupt_words(table, torch.arange(len(table.lengths)), ratio, generator, kinds)
    place = torch.arange(changed.ids.shape[1]).expand_as(changed.ids)
    return replace(
        table,
        ids=changed.ids.to(table.ids.dtype),
        word=place.masked_fill(~changed.present, -1).to(table.word.dtype),
        lengths=changed.lengths,
    )


def drop_regions(regions: Regions, ratio: float, generator: Generator) -> Regions:
    """Each region absent with probability `ratio`; at least one of an image stays."""
    _check_ratio(ratio)
    chance = _chance(regions, generator)
    present = regions.present & (chance >= ratio)
    luckiest = chance.masked_fill(~regions.present, -1).argmax(1, keepdim=True)
    saved = torch.zeros_like(present).scatter(1, luckiest, True) & regions.present
    emptied = ~present.any(1, keepdim=True)
    return replace(regions, present=torch.where(emptied, saved, present))


def mask_regions(
    regions: Regions, ratio: float, generator: Generator, value: float = 1e-8
) -> Regions:
    """Each region's features set to `value` with probability `ratio`, in a copy."""
    _check_ratio(ratio)
    hidden = regions.present & (_chance(regions, generator) < ratio)
    features = regions.features.masked_fill(hidden[..., None], value)
    return replace(regions, features=features)


def compact_regions(regions: Regions) -> Regions:
    """The regions that are present moved to the front in their order, the rest cut off."""
    longest = int(regions.present.sum(1).max())
    order = (~regions.present).to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]

    def moved(values: Tensor) -> Tensor:
        return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))

    return Regions(
        moved(regions.features),
        regions.present.gather(1, order),
        None if regions.boxes is None else moved(regions.boxes),
    )


def _chance(regions: Regions, generator: Generator) -> Float[Tensor, "items parts"]:
    """One draw in [0, 1) per region; the same whatever device the regions are on."""
    drawn = torch.rand(regions.present.shape, generator=generator)
    return drawn.to(regions.present.device)


def _fates(
    counts: Int[Tensor, " captions"],
    ratio: float,
    shares: Float[Tensor, " kinds"],
    fixed_ends: bool,
    generator: Generator,
) -> Int[Tensor, "captions words"]:
    """What becomes of each word: the place of its kind in `KINDS`, or `KEEP`."""
    shape = (len(counts), int(counts.max()))
    place, last = torch.arange(shape[1]), counts[:, None] - 1
    changed = torch.rand(shape, generator=generator) < ratio
    drawn = torch.rand(shape, generator=generator)
    if fixed_ends:
        changed &= (place > 0) & (place < last)
    bounds = shares.cumsum(0)
    bounds = bounds.masked_fill(bounds > 1 - 1e-6, 1)  # rounding leaves no gap below 1
    kind = torch.searchsorted(bounds, drawn, right=True)
    fate = torch.where(changed, kind, KEEP)
    emptied = ((fate == DELETE) | (place > last)).all(1)
    fate[:, 0] = torch.where(emptied, KEEP, fate[:, 0])
    return fate


def _swapped(
    chosen: Bool[Tensor, "captions words"],
    counts: Int[Tensor, " captions"],
    fixed_ends: bool,
    generator: Generator,
) -> Int[Tensor, "captions words"]:
    """Where each word goes: the chosen ones of a caption change places in a random circle.

    A lone one changes places with the word after it, or with the one before it at the end.
    """
    place = torch.arange(chosen.shape[1]).expand_as(chosen)
    chosen = chosen & (place < counts[:, None])  # beyond the last word fates are drawn too
    number = chosen.sum(1, keepdim=True)
    drawn = torch.rand(chosen.shape, generator=generator)
    circle = drawn.masked_fill(~chosen, 2).argsort(1)  # the chosen ones come first
    following = circle.gather(1, (place + 1) % number.clamp(min=1))
    goes = place.scatter(1, circle, torch.where(place < number, following, circle))

    first = int(fixed_ends)
    last = counts[:, None] - 1 - first
    alone = chosen.to(torch.uint8).argmax(1, keepdim=True)
    beside = torch.where(alone < last, alone + 1, alone - 1)
    lone = (number == 1) & (beside >= first) & (beside <= last)
    beside = torch.where(lone, beside, alone)
    goes = goes.scatter(1, alone, torch.where(lone, beside, goes.gather(1, alone)))
    return goes.scatter(1, beside, torch.where(lone, alone, goes.gather(1, beside)))


def _in_order(
    place: Int[Tensor, "captions parts"], present: Bool[Tensor, "captions parts"]
) -> Int[Tensor, "captions parts"]:
    """Parts by the places of their words, sub-words in their order, padding last."""
    return place.masked_fill(~present, place.shape[1] + 1).argsort(dim=1, stable=True)


def _compacted(
    ids: Int[Tensor, "captions parts"], kept: Bool[Tensor, "captions parts"]
) -> Tokens:
    """What is kept, moved to the left in its order; zeros after it."""
    lengths = kept.sum(1)
    width = int(lengths.max())
    order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    present = torch.arange(width) < lengths[:, None]
    return Tokens(ids.gather(1, order).masked_fill(~present, 0), present)


def _shares(kinds: Sequence[str], shares: Sequence[float] | None) -> Float[Tensor, " kinds"]:
    """The share of each of `KINDS`, summing to one."""
    for kind in kinds:
        if kind not in KINDS:
            raise BadRecipe(
                f"There is no way to change words called {kind!r}. Expected some of: "
                f"{', '.join(KINDS)}."
            )
    known = all(kind in SHARES for kind in kinds)
    usual = [SHARES[kind] if known else 1.0 for kind in kinds]
    given = usual if shares is None else list(shares)
    if len(given) != len(kinds) or min(given, default=0) < 0 or sum(given) <= 0:
        raise BadRecipe(
            f"The shares {given} do not fit the kinds {list(kinds)}. Expected one for "
            "each, none below 0 and not all 0. Change shares or kinds."
        )
    of = dict(zip(kinds, given, strict=True))
    every = torch.tensor([of.get(kind, 0.0) for kind in KINDS], dtype=torch.float64)
    return (every / every.sum()).float()


def _check_ratio(ratio: float) -> None:
    if not 0 <= ratio <= 1:
        raise BadRecipe(
            f"The share of changed words or regions is '{ratio}'. Expected 0 to 1. "
            "Change the ratio."
        )
