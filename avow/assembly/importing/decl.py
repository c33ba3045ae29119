"""DECL: one network of SGRAF, SAF or SGR, that gives evidence.

Paper: Qin et al., "Deep Evidential Learning with Noisy Correspondence for Cross-modal
Retrieval", ACM MM 2022. The checkpoint holds `model` = [image encoder, text encoder,
similarity encoder]; evidence is exp(tanh(score) / tau). Its options come from a command line
that leaves some numbers as text.
"""

from typing import Any

from avow.assembly import importing
from avow.assembly.translated import Translated
from avow.core import folder

NUMBERS = {"lambda1": "hinge", "lambda2": "kl", "eta": "easing", "margin": "margin"}
COUNTS = {"mu": "fewest", "warmup_epoch": "warm_up"}


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    sgraf: Any = folder.find(importing, "sgraf")
    translated = sgraf.translate(published, options)
    return Translated(translated.method, _loss(options), translated.views)


def _loss(options: dict[str, Any]) -> dict[str, Any]:
    loss: dict[str, Any] = {"name": "decl", "tau": float(options["tau"])}
    loss |= {ours: float(options[key]) for key, ours in NUMBERS.items() if key in options}
    return loss | {ours: int(options[key]) for key, ours in COUNTS.items() if key in options}
