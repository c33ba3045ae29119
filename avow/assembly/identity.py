"""The name under which an index, and a policy for its searches, know a trained model."""

import json

from avow.assembly.model import Model
from avow.core.fingerprint import of_text


def search_fingerprint(model: Model) -> str:
    """Changes with any weight, with the recipe, and with the network that reads pixels."""
    identity = json.dumps(model.visual.get("identity"), sort_keys=True)
    return of_text([model.fingerprint, identity])
