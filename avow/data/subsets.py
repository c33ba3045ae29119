"""Parts of a split that are chosen by what its captions say.

`human` is the human-behaviour subset of ACMNet, section 4.3: images with a caption that
names a person. The paper finds them by key words "like" nine that it lists; these are the
nine and their plurals, "people" among them. One caption of an image is enough, and all its
captions come along. Of the test split of MS-COCO the paper keeps 2,334 of 5,000 images,
46.7 %; this rule keeps 45.8 % of the 4,407 that are here.

Paper: Chen et al., "ACMNet: Adaptive Confidence Matching Network for Human Behavior
Analysis via Cross-modal Retrieval", ACM TOMM 2020.
"""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from avow.core.errors import BadData, UnknownName

SUBSETS = {
    "human": frozenset(
        "person persons people man men woman women kid kids child children boy boys girl "
        "girls".split()
    )
}
"""For each subset, the words of which a caption must have one."""


def images_in(
    subset: str, captions: Sequence[str], image_of: Int[np.ndarray, " captions"]
) -> Int[np.ndarray, " images"]:
    """The images of which at least one caption belongs to the subset, in order."""
    if subset not in SUBSETS:
        raise UnknownName("subsets", subset, sorted(SUBSETS))
    words = SUBSETS[subset]
    named = [not words.isdisjoint(re.findall("[a-z]+", text.lower())) for text in captions]
    images = np.unique(image_of[np.asarray(named, bool)])
    if not len(images):
        raise BadData(
            f"No caption belongs to the subset {subset!r}. Expected a word such as "
            f"{min(words)!r} in at least one; leave --subset out for the whole split."
        )
    return images
