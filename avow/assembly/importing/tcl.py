"""TCL: two networks of one kind, the first for image queries, the second for texts.

Paper: Qin et al., "Trustworthy Visual-Textual Retrieval", IEEE TIP 2025. The checkpoint
holds one list of states per network. Its option `method` names the kind: VSE (which pools
by mean), VSE_infty, SAF or SGR, with _glove or _bert after it for other text encoders.
"""

from typing import Any

from avow.assembly import importing
from avow.assembly.importing._joint import joint_view
from avow.assembly.importing._names import sizes
from avow.assembly.importing._options import refuse_lengths
from avow.assembly.translated import Translated
from avow.core import folder
from avow.core.errors import WrongCheckpoint

VECTORS = {"VSE": "vsepp", "VSE_infty": "vse_infty"}
LOCAL = ("SAF", "SGR")


def translate(published: dict[str, Any], options: dict[str, Any]) -> Translated:
    refuse_lengths(options)
    named = str(options["method"])
    kind = named.removesuffix("_glove").removesuffix("_bert")
    if kind not in (*VECTORS, *LOCAL):
        raise WrongCheckpoint(
            f"The checkpoint has the method {named!r}. Expected one of: "
            f"{', '.join((*VECTORS, *LOCAL))}, with or without _glove or _bert. Import one "
            "of those."
        )
    models = networks(published)
    loss = _loss(options, len(models), named.endswith("_bert"))
    if kind in LOCAL:
        return _local(kind, models, options, loss)
    learnt = kind == "VSE_infty"
    image, text, *_ = models[0]
    method = {"name": VECTORS[kind], **sizes(image, text)}
    return Translated(method, loss, [joint_view(parts, learnt) for parts in models])


def networks(published: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The list of states of each network; published files wrap each in one more list."""
    models = published["models"] if "models" in published else published["model"]
    return [parts[0] if isinstance(parts[0], list) else parts for parts in models]


def _loss(options: dict[str, Any], views: int, bert: bool) -> dict[str, Any]:
    if views == 1:  # trained with its option `dual` off, which is no TCL
        return {"name": "hinge"}
    return {
        "name": "tcl",
        "tau": float(options["tau"]),
        "evidence": str(options["active"]).lower(),
        "agreement_steps": int(options["dis_k"]),
        "kl_rate": 0.001 if bert else 0.005,
    }


def _local(
    kind: str, models: list[list[Any]], options: dict[str, Any], loss: dict[str, Any]
) -> Translated:
    """SAF and SGR are SGRAF's networks; evidence reads the tanh of their score."""
    sgraf: Any = folder.find(importing, "sgraf")
    each = [
        sgraf.translate({"model": parts}, {**options, "module_name": kind}) for parts in models
    ]
    return Translated(each[0].method, loss, [view for one in each for view in one.views])
