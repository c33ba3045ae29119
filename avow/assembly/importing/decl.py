"""DECL: one network of SGRAF, SAF or SGR, that gives evidence.

Paper: Qin et al., "Deep Evidential Learning with Noisy Correspondence for Cross-modal
Retrieval", ACM MM 2022. The checkpoint holds `model` = [image encoder, text encoder,
similarity encoder]; evidence is exp(tanh(score) / tau).
"""

from typing import Any

from avow import losses
from avow.assembly import importing
from avow.assembly.importing._translated import Translated
from avow.core import folder


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    sgraf: Any = folder.find(importing, "sgraf")
    found = sgraf.translate(published, options)
    return Translated(found.method, _loss(float(options["tau"])), found.views)


def _loss(tau: float) -> dict[str, Any]:
    """A loss that forms opinions as DECL does: its own, or one view of TCL."""
    if "decl" in folder.names(losses):
        return {"name": "decl", "tau": tau}
    return {"name": "tcl", "learn": "image", "tau": tau}
