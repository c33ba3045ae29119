"""Lines of the log, for people or for programs; each knows the request it belongs to.

    text   trouble alone, one line for each
    json   one object per line, and one line for every request that has ended

The words of a search are in no line: they are somebody's own.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Literal

from avow.api.requests import current_id
from avow.core.tracing import current_trace

Format = Literal["text", "json"]
LOG = logging.getLogger("avow.api")
_OURS = ("avow", "uvicorn")
_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def set_up(form: Format = "text") -> None:
    """Write the log of this process to stderr, in place of an earlier form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    if form == "json":
        LOG.setLevel(logging.INFO)


def log_request(method: str, route: str, status: int, seconds: float) -> None:
    """One line for a request that has ended; a log of trouble alone leaves it out."""
    if LOG.isEnabledFor(logging.INFO):
        facts = {"method": method, "route": route, "status": status}
        LOG.info("request", extra={**facts, "seconds": round(seconds, 6)})


class Lines(logging.Formatter):
    """A line for people, with the id of the request at its end."""

    def __init__(self) -> None:
        super().__init__("avow: %(levelname)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line, request_id = super().formatMessage(record), current_id()
        return f"{line} [request {request_id}]" if request_id else line


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, message, request id, and what else is known."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": os.getpid(),
            "message": record.getMessage(),
        }
        if request_id := current_id():
            line["request_id"] = request_id
        if trace_id := current_trace():
            line["trace_id"] = trace_id
        line |= {name: value for name, value in vars(record).items() if name not in _KNOWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
