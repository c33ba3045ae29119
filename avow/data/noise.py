"""Wrong pairs put into a training split on purpose, and the truth about them kept.

    by "image"      images are exchanged among each other, all captions of one move
                    together (DECL); an index has one entry per image
    by "caption"    captions are exchanged one by one (NCR); one entry per caption

Either index is what the published files `noise_inx_*.npy` hold: for each image the one whose
features stand in its place, or for each caption the image it is said to belong to.

Papers: Qin et al., "Deep Evidential Learning with Noisy Correspondence for Cross-modal
Retrieval", ACM MM 2022; Huang et al., "Learning with Noisy Correspondence for Cross-modal
Matching", NeurIPS 2021.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadData, BadRecipe
from avow.core.files import save_array
from avow.core.seeds import mix

By = Literal["image", "caption"]
Kind = Literal["permutation", "derangement"]


@dataclass(frozen=True)
class Noise:
    """Which image every caption of a split is said to belong to."""

    by: By
    index: Int[np.ndarray, " items"]
    """By image: for each image, the one in its place; by caption: each caption's image."""

    def apply(self, split: Split) -> Split:
        """The same images and captions, paired as the noise says."""
        return replace(split, image_of=self.image_of(split))

    def left_out(self, split: Split) -> Split:
        """The same images, with the captions that the noise leaves beside their own."""
        right = ~self.wrong(split)
        captions = tuple(compress(split.captions, right))
        return replace(split, captions=captions, image_of=split.image_of[right])

    def image_of(self, split: Split) -> Int[np.ndarray, " captions"]:
        self._check(split)
        return self.index[split.image_of] if self.by == "image" else self.index

    def wrong(self, split: Split) -> Bool[np.ndarray, " captions"]:
        """The truth: which captions no longer stand beside their own image."""
        return self.image_of(split) != split.image_of

    def save(self, path: Path) -> None:
        """Write the index as the published systems do."""
        save_array(path, self.index)

    def _check(self, split: Split) -> None:
        images = len(split.image_ids)
        wanted = images if self.by == "image" else len(split.captions)
        if len(self.index) != wanted:
            other = len(split.captions) if self.by == "image" else images
            hint = "caption" if self.by == "image" else "image"
            more = f' Set noise.by = "{hint}".' if len(self.index) == other else ""
            raise BadData(
                f"The noise has {len(self.index)} entries. Expected {wanted}, one per "
                f"{self.by} of the split.{more or ' Use an index of the same dataset.'}"
            )
        outside = self.index[(self.index < 0) | (self.index >= images)]
        if len(outside):
            raise BadData(
                f"The noise names image {int(outside[0])}. Expected numbers from 0 to "
                f"{images - 1}. Use an index of the same dataset."
            )


def draw_noise(
    split: Split,
    ratio: float,
    by: By = "image",
    kind: Kind = "permutation",
    seed: int = 0,
) -> Noise:
    """Exchange a share `ratio` of the images, or captions, among each other.

    kind: a permutation may leave a chosen one where it was, as published (it counts as
    right); a derangement pairs every chosen one wrongly. The same seed gives the same noise.
    """
    if not 0 <= ratio <= 1:
        raise BadRecipe(f"The noise ratio is {ratio!r}. Expected a share from 0 to 1.")
    owner = np.arange(len(split.image_ids)) if by == "image" else split.image_of
    rng = np.random.default_rng(mix(seed, "noise", by, kind))
    chosen = rng.permutation(len(owner))[: int(ratio * len(owner))]
    given = rng.permutation(owner[chosen])
    if kind == "derangement":
        given = _deranged(owner[chosen], given, rng)
    index = owner.astype(np.int64, copy=True)
    index[chosen] = given
    return Noise(by, index)


def read_noise(path: Path, by: By) -> Noise:
    """An index that was saved here, or published."""
    try:
        # numpy.load would take an archive of arrays as well, and end badly on an empty file
        with path.open("rb") as stream:
            index = np.lib.format.read_array(stream, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadData(
            f"The noise {str(path)!r} cannot be read ({error}). Expected an array of whole "
            "numbers saved by numpy. Download or write it again."
        ) from error
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise BadData(
            f"The noise {str(path)!r} holds {index.dtype} of the shape {index.shape}. "
            "Expected one row of whole numbers. Check that it is the right file."
        )
    return Noise(by, index.astype(np.int64))


def with_noise(
    dataset: PairedDataset,
    noise: Noise,
    splits: Iterable[str] = ("train",),
    left_out: bool = False,
) -> PairedDataset:
    """The dataset with noise in its training split; dev and test stay as they are.

    left_out: without the pairs that the noise made wrong, as if a judge had known them.
    """
    change = noise.left_out if left_out else noise.apply
    changed = {name: change(dataset.splits[name]) for name in splits}
    return PairedDataset(dataset.name, {**dataset.splits, **changed})


def _deranged(
    own: Int[np.ndarray, " chosen"], given: Int[np.ndarray, " chosen"], rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """`given` rearranged until nobody has its own."""
    if not len(own):
        return given
    largest = int(np.unique(own, return_counts=True)[1].max())
    if 2 * largest > len(own):
        raise BadRecipe(
            f"Noise among {len(own)} items cannot pair each wrongly: {largest} of them "
            'belong to one image. Expected at most half. Choose kind = "permutation", or '
            "another ratio."
        )
    given = given.copy()
    for _ in range(100):
        same = np.flatnonzero(given == own)
        if not len(same):
            return given
        for place in same:
            other = int(rng.integers(len(own)))
            given[place], given[other] = given[other], given[place]
    # sorted by owner, a shift by the largest family meets no item of one's own family
    order = np.argsort(own, kind="stable")
    given[order] = np.roll(own[order], largest)
    return given
