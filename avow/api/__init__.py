"""The server: one index, its searches and its page over HTTP, for one person or a few."""

from avow.api.app import create_app
from avow.api.limits import Limits

__all__ = ["Limits", "create_app"]
