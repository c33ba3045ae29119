"""Compare many images with many texts in tiles, so that no intermediate grows too large.

Items are sorted by their number of parts before they are cut, and each tile leaves out the
padding that none of its items needs: long captions are padded with one another alone.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from operator import neg

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from avow.core.contracts import Encoded

Compare = Callable[[Encoded, Encoded], Float[Tensor, "*kinds images texts"]]
Prepare = Callable[[Encoded], Encoded]
MB = 2**20
_ON_A_DEVICE = 512 * MB
_FEW = 16  # items of a tile, below which padding is cheaper than one more tile


def in_tiles(
    compare: Compare,
    visual: Encoded,
    text: Encoded,
    pair_bytes: int,
    most: int,
    recompute: bool = False,
    prepare: tuple[Prepare, Prepare] | None = None,
) -> Float[Tensor, "*kinds images texts"]:
    """What `compare` gives for all pairs at once, from tiles of at most `most` bytes.

    pair_bytes: the largest intermediate of one pair, with all its padding.
    recompute: keep nothing of a tile for the gradient, and compute it a second time then.
    prepare: what to make of the images and of the texts of a tile, once for all it meets.
    """
    run = _forgetful(compare) if recompute and torch.is_grad_enabled() else compare
    images, texts = len(visual.parts), len(text.parts)
    pairs = max(1, most // pair_bytes)
    if images * texts <= pairs:
        return run(visual, text)
    # near squares: what is prepared per item is then shared by the most pairs
    rows = min(images, max(1, math.isqrt(pairs), pairs // texts))
    visuals, row_places = _cut(visual, rows)
    captions, column_places = _cut(text, max(1, pairs // rows))
    if prepare is not None:
        visuals, captions = map(prepare[0], visuals), [prepare[1](tile) for tile in captions]
    strips = [torch.cat([run(tile, other) for other in captions], -1) for tile in visuals]
    return torch.cat(strips, -2).index_select(-2, row_places).index_select(-1, column_places)


def usual(device: torch.device, on_processor_mb: int) -> int:
    """Bytes of a tile where nobody chose: caches want small ones, a device large products."""
    return on_processor_mb * MB if device.type == "cpu" else _ON_A_DEVICE


def _cut(encoded: Encoded, size: int) -> tuple[list[Encoded], Int[Tensor, " items"]]:
    """Tiles of `size` items of similar length, and where each item has gone."""
    present = encoded.present
    if present.is_cuda and torch.cuda.is_current_stream_capturing():
        # a recording may not ask how long items are: tiles in order, with all padding
        steps = torch.arange(len(present), device=present.device)
        starts = range(0, len(present), size)
        return [encoded.rows(slice(start, start + size)) for start in starts], steps
    place = torch.arange(1, present.shape[1] + 1, device=present.device)
    lengths = (present * place).amax(1)  # up to the last part: there may be gaps before
    lengths, order = lengths.sort(descending=True)
    descending, tiles, start = lengths.tolist(), [], 0
    while start < len(descending):
        stop = _end(descending, start, size, alike=present.device.type == "cpu")
        tiles.append(encoded.rows(order[start:stop]).resized(descending[start]))
        start = stop
    return tiles, order.argsort()


def _end(lengths: list[int], start: int, size: int, alike: bool) -> int:
    """Where the tile ends that begins at `start`: there are `size` items, or shorter ones.

    alike: a processor rather takes a smaller tile than padding, a device does not.
    """
    stop, least = min(start + size, len(lengths)), start + _FEW
    if not alike or least >= stop:
        return stop
    # longest first: the first place with a shorter one
    return bisect_right(lengths, -lengths[start], least, stop, key=neg)


def _forgetful(compare: Compare) -> Compare:
    def run(visual: Encoded, text: Encoded) -> Float[Tensor, "*kinds images texts"]:
        return checkpoint(compare, visual, text, use_reentrant=False, preserve_rng_state=False)  # type: ignore[return-value]

    return run
