"""Which Ray cluster encodes, and how."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Where units are encoded, and with which model."""

    address: str
    """As for `ray.init`: "auto", "host:6379", "ray://host:10001"; "local": start one here."""
    model: str
    """By the name that workers open it by."""
    device: str = ""
    """Of the name "cuda": every worker has a GPU of its own; empty: the processor."""
    allow_code: bool = False
    cores: int = 1
    """Of one worker."""
