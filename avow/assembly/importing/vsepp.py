"""VSE++: one linear map of the image features, and the last state of a one-way GRU.

Paper: Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives",
BMVC 2018. The checkpoint holds `model` = [image encoder, text encoder]. Those with a
convolutional network inside take pixels and are not imported.
"""

from typing import Any

from avow.assembly.importing._names import TEXT, renamed, sizes, two_way
from avow.assembly.importing._options import hinge, refuse_lengths
from avow.assembly.translated import Translated
from avow.core.errors import WrongCheckpoint


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    refuse_lengths(options)
    image, text = published["model"]
    if any(name.startswith("cnn.") for name in image):
        raise WrongCheckpoint(
            f"The checkpoint has the image encoder {options.get('cnn_type')!r}, which takes "
            "pixels. Expected one trained on precomputed features (a *_precomp dataset). "
            "Import one of those."
        )
    if options.get("measure", "cosine") != "cosine":
        raise WrongCheckpoint(
            f"The checkpoint compares by {options['measure']!r}. Expected 'cosine'. Import a "
            "checkpoint trained with it."
        )
    method = {
        "name": "vsepp",
        "bend": False,
        "text_way": "ahead",
        "text_pool": "last",
        **sizes(image, text),
    }
    view = renamed(image, {"fc.": "visual.straight."}, "img_enc")
    view = two_way(view | renamed(text, TEXT, "txt_enc"))
    return Translated(method, hinge(options, hardest=False), [view])
