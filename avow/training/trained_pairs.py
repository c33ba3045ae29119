"""Which pairs a run learns from, noted beside it.

By this note a run goes on with the pairs it began with and no others, and an audit knows
which pairs the judge has seen before.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt64

from avow.assembly.pairs import FeaturedSplit
from avow.core import seals
from avow.core.datasets import Split
from avow.core.errors import WrongCheckpoint
from avow.core.files import save_array

NOTE = "learnt.npy"


def note_pairs(run: Path, split: FeaturedSplit | Split, writes: bool = True) -> None:
    """Keep which pairs are learnt from; refuse to go on with others than a run began with.

    A run that has not learnt anything yet may change its mind.
    """
    numbers = pair_numbers(split)
    known = _noted(run)
    if known is not None and (run / "last").is_file() and not np.array_equal(known, numbers):
        raise WrongCheckpoint(
            f"The run in {str(run)!r} has learnt from {len(known)} pairs, and these are "
            f"{len(numbers)} others. Expected the same pairs in the same order, with the same "
            "noise and the same number of folds, to go on with it; choose another --out."
        )
    if writes:
        run.mkdir(parents=True, exist_ok=True)
        if known is None or not np.array_equal(known, numbers):
            (run / seals.LIST).unlink(missing_ok=True)
            save_array(run / NOTE, numbers)
        seals.write_list(run, [NOTE])


def seen_before(
    run: Path, split: FeaturedSplit | Split
) -> Bool[np.ndarray, " captions"] | None:
    """Which pairs the run has learnt from; None where it has no note of them."""
    known = _noted(run)
    return None if known is None else np.isin(pair_numbers(split), known)


def pair_numbers(split: FeaturedSplit | Split) -> UInt64[np.ndarray, " captions"]:
    """A number for every pair that hardly any other has, by its image's name and its words."""
    names = (split.image_ids[image] for image in split.image_of)
    return np.fromiter(_numbers(zip(names, split.captions, strict=True)), np.uint64)


def _numbers(pairs: Iterable[tuple[str, str]]) -> Iterable[int]:
    for image, caption in pairs:
        data = f"{image}\0{caption}".encode("utf-8", "surrogatepass")
        yield int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _noted(run: Path) -> UInt64[np.ndarray, " captions"] | None:
    path = run / NOTE
    try:
        seals.check(path)
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        return None  # from before there were notes
    except (OSError, ValueError, EOFError) as error:
        if not (run / "last").is_file():
            return None  # nothing is learnt yet, so it can be noted anew
        raise WrongCheckpoint(
            f"The note {str(path)!r} of the pairs that were learnt from is damaged ({error}). "
            f"Expected what `avow train` wrote; copy it again together with {seals.LIST!r}, or "
            "train anew with another --out."
        ) from error
