"""Which pairs of a batch fit besides the matches, read from the captions of the images.

    text, captions of an image --largest cosine of sentence vectors--> agreement
    agreement --curve fitted on experts' judgements--> P(a person says it fits)

A dataset names one image for each text, and most texts fit others as well. `SLOPE` and
`OFFSET` are what `study.relevance_labels` fits on half of the experts' images of Flickr8k;
the other half checks them (`benchmarks/quality/labels.py`).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.blocks.sentences import sentence_vectors

SLOPE, OFFSET = 12.28, -9.30


class CaptionAgreement:
    """The sentence vectors of a split, and which captions each of its images has."""

    def __init__(
        self,
        vectors: Float[np.ndarray, "captions dim"],
        image_of: Int[np.ndarray, " captions"],
        device: torch.device | str = "cpu",
    ):
        self.vectors = torch.from_numpy(vectors).to(device)
        self.image_of = torch.from_numpy(image_of).to(device)
        self.captions = torch.from_numpy(_captions_of(image_of)).to(device)

    @classmethod
    def of(
        cls,
        captions: Sequence[str],
        image_of: Int[np.ndarray, " captions"],
        device: torch.device | str,
    ) -> "CaptionAgreement":
        return cls(sentence_vectors(captions, device), image_of, device)

    def fits(self, pairs: Int[Tensor, " pairs"]) -> Float[Tensor, "pairs pairs"]:
        """P that the image of each row fits the text of each column; 1 for its own image."""
        pairs = pairs.to(self.vectors.device)
        images = self.image_of[pairs]
        said = self.vectors[self.captions[images]]
        agreed = torch.einsum("icd,td->itc", said, self.vectors[pairs]).amax(-1)
        own = images[:, None] == images[None]
        return (SLOPE * agreed + OFFSET).sigmoid().masked_fill(own, 1)


def _captions_of(image_of: Int[np.ndarray, " captions"]) -> Int[np.ndarray, "images most"]:
    """The captions of every image; where one has fewer than others, its first again."""
    order = np.argsort(image_of, kind="stable")
    counts = np.bincount(image_of)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    place = np.arange(counts.max())[None]
    return order[first[:, None] + np.where(place < counts[:, None], place, 0)]
