"""What people said of pairs: is this caption true of that photograph?

    [{"image": "a.jpg", "caption_of": "b.jpg", "caption_idx": 2, "scores": [1, 1, 2]}, ...]

`caption_of` and `caption_idx` (from 0) name the caption; every pair has as many scores as
there were people. Models are never trained on them. One curve is fitted on half of the judged
images, which turns the agreement of captions into labels (`study.relevance_labels`); what
rests on those labels is checked on the other half.

Paper: Hodosh, Young, Hockenmaier, "Framing Image Description as a Ranking Task", JAIR 2013
(Flickr8k: three experts, from 1, unrelated, to 4, describes the image without any errors).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from avow.core.errors import BadData
from avow.data.gather import entry_of, read_list

FILE = "expert_judgements.json"
WORST, BEST = 1, 4


@dataclass(frozen=True)
class Judgements:
    """Pairs as they are written down: by names."""

    images: tuple[str, ...]
    captions: tuple[tuple[str, int], ...]
    """For each pair, the image its caption was written for, and which of its captions."""
    scores: Int[np.ndarray, "pairs people"]

    def __len__(self) -> int:
        return len(self.images)

    def within(
        self, image_ids: Sequence[str], image_of: Int[np.ndarray, " texts"]
    ) -> "JudgedPairs":
        """The pairs whose image and caption are in a split, by their positions there."""
        place = {name: number for number, name in enumerate(image_ids)}
        starts = np.searchsorted(np.sort(image_of), np.arange(len(image_ids) + 1))
        by_image = np.argsort(image_of, kind="stable")
        rows = []
        for row, (image, (owner, number)) in enumerate(
            zip(self.images, self.captions, strict=True)
        ):
            if image not in place or owner not in place:
                continue
            first, last = starts[place[owner]], starts[place[owner] + 1]
            if first + number < last:
                rows.append((row, place[image], by_image[first + number], place[owner]))
        if not rows:
            raise BadData(
                f"None of the {len(self)} judged pairs is in this split, which has "
                f"{len(image_ids)} images. Expected judgements of the same dataset and "
                "split. Check which split was judged."
            )
        chosen, images, texts, owners = np.array(rows, np.int64).T
        return JudgedPairs(images, texts, images == owners, self.scores[chosen])


@dataclass(frozen=True)
class JudgedPairs:
    """Judged pairs of a split: by positions."""

    image: Int[np.ndarray, " pairs"]
    text: Int[np.ndarray, " pairs"]
    own: Bool[np.ndarray, " pairs"]
    """Whether the caption was written for this very image."""
    scores: Int[np.ndarray, "pairs people"]

    def __len__(self) -> int:
        return len(self.image)

    def called(self, at_least: int) -> Bool[np.ndarray, " pairs"]:
        """Whether more than half of the people gave `at_least` this score."""
        return (self.scores >= at_least).mean(1) > 0.5


def read_judgements(path: Path) -> Judgements:
    """Read a file of judged pairs; what is wrong with it is named."""
    listed = read_list(path)
    if not listed:
        raise BadData(
            f"There are no judged pairs in '{path}'. Expected at least one. Download or "
            "write it again."
        )
    images, captions, scores = [], [], []
    for position, entry in enumerate(listed):
        place = f"[{position}]"
        images.append(entry_of(entry, "image", str, path, place))
        owner = entry_of(entry, "caption_of", str, path, place)
        number = entry_of(entry, "caption_idx", int, path, place)
        captions.append((owner, number))
        scores.append(_scores(entry, path, place))
        _check(number, scores, path, place)
    return Judgements(tuple(images), tuple(captions), np.array(scores, np.int64))


def _scores(entry: Any, path: Path, place: str) -> list[int]:
    scores = entry_of(entry, "scores", list, path, place)
    good = scores and all(type(score) is int and WORST <= score <= BEST for score in scores)
    if not good:
        raise BadData(
            f"The scores at {place} of '{path}' are {scores!r}. Expected whole numbers "
            f"from {WORST} to {BEST}, one per person. Correct the file."
        )
    return scores


def _check(number: int, scores: list[list[int]], path: Path, place: str) -> None:
    if number < 0:
        raise BadData(
            f"The caption at {place} of '{path}' has number '{number}'. Expected 0 or more. "
            "Correct the file."
        )
    if len(scores[-1]) != len(scores[0]):
        raise BadData(
            f"There are {len(scores[-1])} scores at {place} of '{path}' and "
            f"{len(scores[0])} at the first pair. Expected as many for every pair. Correct "
            "the file."
        )
