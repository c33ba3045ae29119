"""What a policy for searches is fitted and checked with: hits of queries of all kinds.

One half of each kind's queries fits, the other half is held out; both are seen in galleries of
many sizes, with and without what is relevant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from avow.core.errors import BadData
from avow.trust.calibration_queries import (
    NOTHING_THERE,
    TAKEN_AWAY,
    CalibrationQueries,
    evenly,
    halved_queries,
    hits_without,
    missed_hits,
    see_hits,
    share_without,
)
from avow.trust.gallery_sampling import Hits
from avow.trust.level import Level
from avow.trust.level_fitting import with_levels
from avow.trust.top_k import SHOWN as CANDIDATES

HELD = 4000
"""Queries of all kinds that are kept to check with."""
RARE = "rare name"
"""The style of names that few items fit. They teach that what is rare may be there, and are not
held out: as one kind of several they would count for more there than they are asked for."""


@dataclass(frozen=True)
class DrawnHits:
    """Queries of all kinds in halves, and their hits in galleries of many sizes."""

    halved: list[tuple[CalibrationQueries, CalibrationQueries]]
    level: Level | None
    fitted: Hits
    """Of the first halves, where something is relevant."""
    held: Hits
    """Of the second halves."""
    without: list[Hits]
    """Of the first halves, where nothing is."""
    unseen: list[Hits]
    common: tuple[list[Hits], list[Hits]]
    """Of both halves of what is common, where it was taken away."""
    share: float
    """Of queries that nothing is relevant to."""
    seed: int

    @property
    def learnt(self) -> Hits:
        nothing = share_without(evenly(self.without), self.fitted, self.share)
        return Hits.join([self.fitted, nothing])

    @classmethod
    def of(
        cls,
        askings: Sequence[CalibrationQueries],
        sizes: Sequence[int],
        other_shares: int,
        seed: int,
    ) -> "DrawnHits":
        level, askings = with_levels(askings, seed)
        halved, source = halved_queries(askings, other_shares, seed)
        there = [n for n, (one, _) in enumerate(halved) if one.scored.match.any()]
        if not there:
            raise BadData("No query has a relevant item. Expected some; give right answers.")
        # what is relevant is taken away from all where no query asks for what is absent
        away = [n for n in range(len(halved)) if n not in there] or there

        def see(numbers: Sequence[int], side: int, absent: bool) -> list[Hits]:
            return [
                see_hits(halved[n][side], sizes, seed, 2 * source[n] + side, absent, CANDIDATES)
                for n in numbers
            ]

        fitted = evenly(see(there, 0, False))
        asked = [n for n in there if halved[n][0].style != RARE] or there
        held = evenly(see(asked, 1, False), HELD // len(asked))
        without, unseen = see(away, 0, True), see(away, 1, True)
        share = TAKEN_AWAY if away == there else NOTHING_THERE
        if away != there:
            shared = [n for n in there if not halved[n][0].apart]
            for side, hits in ((0, without), (1, unseen)):
                hits += [
                    missed_hits(halved[n][side], sizes, seed, 2 * n + side, CANDIDATES)
                    for n in shared
                ]
        common = hits_without(halved, seed, CANDIDATES)
        return cls(halved, level, fitted, held, without, unseen, common, share, seed)
