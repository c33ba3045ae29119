"""IMRAM: one network whose queries remember what they have seen.

Paper: Chen et al., "IMRAM: Iterative Matching with Recurrent Attention Memory for
Cross-Modal Image-Text Retrieval", CVPR 2020. The checkpoint holds `model` = one state with
image encoder, text encoder and four layers of memory, of which a network that looks in one
direction uses two.
"""

from typing import Any

from avow.assembly.importing._attention import encoders, settings
from avow.assembly.importing._names import multiplied_out, under
from avow.assembly.importing._options import choice, hinge
from avow.assembly.translated import Translated

MODES = {"full_IMRAM": "full", "text_IMRAM": "text", "image_IMRAM": "image"}
MEMORIES = {"t2i": "words", "i2t": "regions"}
USED = {"full": ("t2i", "i2t"), "text": ("t2i",), "image": ("i2t",)}
LAYERS = {"linear": "fresh", "gate": "gate"}
LINEAR = "fc_local"


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    state = published["model"]
    mode = choice(options, "model_mode", MODES)
    steps = int(options["iteration_step"])
    image = multiplied_out(under(state, "img_enc."), LINEAR)
    text = under(state, "txt_enc.")
    view = encoders(image, text, LINEAR)
    for direction in USED[mode] if steps > 1 else ():
        for old, new in LAYERS.items():
            for kind in ("weight", "bias"):
                name = f"pairing.{MEMORIES[direction]}.{new}.{kind}"
                view[name] = state[f"{old}_{direction}.{kind}"]
    method = {
        "name": "imram",
        **settings(image, text, LINEAR, options),
        "mode": mode,
        "steps": steps,
        "memory_norm": not options["no_IMRAM_norm"],
    }
    return Translated(method, hinge(options), [view])
