"""How much one request may ask for, so that no request can hold up the others."""

from dataclasses import dataclass

from avow.core.photographs import LARGEST

LETTERS = 1000
"""Longest question or filter."""
ANSWERS = 200
"""Most answers of one search, and most items of one page."""
LARGEST_ID = 2**53 - 1
"""Numbers of items stay exact in every JSON reader."""


@dataclass(frozen=True)
class Limits:
    """Bounds of what the server accepts, keeps and waits for."""

    upload_bytes: int = 20_000_000
    """Largest body of a request; the rest of a larger one is not read."""
    pixels: int = LARGEST
    """Largest picture that is decoded at once: as many pixels as indexing decodes."""
    clip_seconds: float = 60.0
    """Longest clip to search with: one frame a second of it is encoded."""
    seconds: float = 30.0
    """How long a search may take before it is given up with a sentence."""
    at_once: int = 1
    """Searches that run at the same time. One uses all cores by itself, and tokenisers of the
    hub cannot be shared between threads; pictures have threads of their own."""
    together: int = 16
    """Searches by text that wait and are then answered in one pass; 1: each by itself."""
    waiting: int = 16
    """Searches that may wait for their turn; more are refused for now."""
    thumbnail_bytes: int = 64_000_000
    """Memory for thumbnails; the least recently used go first."""
    json_bytes: int = 100_000
    """Largest body that is no form with a picture: it is parsed in one go."""
    header_seconds: float = 10.0
    """How long the head of a request may take to arrive."""
    body_seconds: float = 10.0
    """How long the body of a request may stop."""
    request_seconds: float = 300.0
    """How long the whole body may take."""
    answer_seconds: float = 30.0
    """How long an answer may wait for somebody to read it."""
    ready_seconds: float = 2.0
    """How long the store may take to answer before the server calls itself not ready."""
    drain_seconds: float = 0.0
    """How long a server that is told to end goes on while it already says so: proxies that
    ask whether it is ready stop sending requests meanwhile."""
    rate: float = 0.0
    """Requests per second of one client, in the long run; 0: as many as it likes."""
    burst: int = 200
    """Requests that one client may send at once: a page asks for many pictures."""
    connections: int = 256
    """Open connections; for one more, the one that was silent longest is closed."""
    connections_per_client: int = 64
    """The same for one address; this machine itself may have all of them."""
