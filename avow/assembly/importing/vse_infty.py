"""VSE-infinity on region features, with its GRU or its BERT.

Paper: Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding",
CVPR 2021. The checkpoint holds `model` = [image encoder, text encoder]. Those with a
convolutional network inside (its grid features) take pixels and are not imported.
"""

from typing import Any

from avow.assembly.importing._joint import joint_view
from avow.assembly.importing._names import sizes
from avow.assembly.importing._options import refuse_lengths
from avow.assembly.translated import Translated
from avow.core.errors import WrongCheckpoint


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    refuse_lengths(options)
    if options.get("precomp_enc_type", "basic") != "basic":
        raise WrongCheckpoint(
            f"The checkpoint has the image encoder {options['precomp_enc_type']!r}, which "
            "takes pixels. Expected 'basic', which takes region features. Import one of "
            "those."
        )
    parts = published["model"]
    method = {"name": "vse_infty", **sizes(*parts)}
    # whatever `max_violation` says: after the warm-up the hardest negative is used
    loss = {
        "name": "hinge",
        "margin": float(options.get("margin", 0.2)),
        "warm_up": int(options.get("vse_mean_warmup_epochs", 1)),
    }
    return Translated(method, loss, [joint_view(parts, learnt=True)])
