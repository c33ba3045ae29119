"""What several networks compute of one batch in small steps, computed for all at once.

The networks of TCL and DECL are built alike and see the same batch. Their word GRUs and the
GRUs of their learnt pools are chains of small kernels; chains of equal shape are gone through
together (`joint_gru`). The results wait inside the modules until these are asked for them, so
that a method need not know. Everything else is left to the methods, one after the other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from avow.blocks import joint_gru
from avow.blocks.pooling import LearntPool
from avow.blocks.recurrent import TwoWayGru, mean_of_ways, ways_together
from avow.blocks.text import WordGru
from avow.core.contracts import Regions, Tokens


@contextmanager
def computed_together(
    views: Sequence[nn.Module], visual: Regions, text: Tokens
) -> Iterator[None]:
    """Inside, modules of `views` that can work together have done so; else nothing changes."""
    readers = [one for view in views for one in view.modules() if isinstance(one, WordGru)]
    pools = [one for view in views for one in view.modules() if isinstance(one, LearntPool)]
    try:
        with torch.autocast(text.ids.device.type, enabled=False):
            _read(readers, text)
            _weigh(pools, max(visual.features.shape[1], text.ids.shape[1]), text.ids.device)
        yield
    finally:
        for reader in readers:
            reader.read_ahead = None
        for pool in pools:
            pool.made_ahead = None


def _read(readers: Sequence[WordGru], text: Tokens) -> None:
    grus = _alike([reader.gru for reader in readers])
    if not grus or not joint_gru.is_possible(readers[0].words.weight):
        return
    vectors = [reader.vectors(text) for reader in readers]
    for reader, ways in zip(readers, ways_together(grus, vectors, text.present), strict=True):
        reader.read_ahead = (text, ways)


def _weigh(pools: Sequence[LearntPool], longest: int, device: torch.device) -> None:
    grus = _alike([pool.gru for pool in pools])
    if not grus or not joint_gru.is_possible(pools[0].weigh.weight):
        return
    position, inside = pools[0].positions(longest, device)
    for pool, ways in zip(
        pools, ways_together(grus, [position] * len(pools), inside), strict=True
    ):
        pool.made_ahead = pool.shares(mean_of_ways(ways, inside), inside)


def _alike(grus: Sequence[object]) -> list[TwoWayGru]:
    """All of them, if they can be gone through together; else none."""
    both = [gru for gru in grus if isinstance(gru, TwoWayGru)]
    single = [way for gru in both for way in (gru.ahead, gru.back)]
    together = len(both) == len(grus) > 0 and joint_gru.are_alike(single)
    return both if together and _on_one_device(single) else []


def _on_one_device(grus: Sequence[nn.GRU]) -> bool:
    return len({next(gru.parameters()).device for gru in grus}) == 1
