"""Clients that search and tick all the time, and what they saw."""

import http.client
import json
import statistics
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any

from benchmarks.serving._threads import Running

CLIENTS = 3
SECONDS = 60.0
"""How long a client waits for an answer."""
Answer = tuple[str, list[tuple[int, float | None]]]


@dataclass(frozen=True)
class Seen:
    """One request: when it ended, how, and whether its answer was the right one."""

    when: float
    kind: str
    status: int
    seconds: float
    right: bool = True


class Load(Running):
    """Searches with known answers and ticks, from several threads, until it is stopped."""

    def __init__(self, address: str, known: Mapping[str, Answer], item: int, mark: str):
        self.address, self.known, self.item, self.mark = address, dict(known), item, mark
        self.seen: list[Seen] = []
        self.kept: set[str] = set()
        """Ticks that the server said it had kept."""
        self._lock, self._ended = Lock(), Event()
        self._threads = [Thread(target=self._work, args=[one]) for one in range(CLIENTS)]

    def _work(self, client: int) -> None:
        texts, number = list(self.known), client
        while not self._ended.is_set():
            if number % 3 == 0:
                self._tick(f"{self.mark} {client} {number}")
            else:
                self._search(texts[number % len(texts)])
            number += 1
            self._ended.wait(0.02)

    def _search(self, text: str) -> None:
        began = time.monotonic()
        status, content = asked(self.address, search_path(text))
        right = status != 200 or is_same(answer_of(content), self.known[text])
        self._note("search", status, began, right)

    def _tick(self, text: str) -> None:
        began = time.monotonic()
        body = {"query": {"text": text}, "item_id": self.item, "good": True}
        status, _ = asked(self.address, "/api/feedback", body)
        self._note("tick", status, began)
        if status == 200:
            with self._lock:
                self.kept.add(text)

    def _note(self, kind: str, status: int, began: float, right: bool = True) -> None:
        now = time.monotonic()
        with self._lock:
            self.seen.append(Seen(now, kind, status, now - began, right))


def search_path(text: str) -> str:
    return f"/api/search?k=5&text={urllib.parse.quote(text)}"


def asked(address: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and content of an answer; 0 where there was none."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", content, headers)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None


def answer_of(content: Mapping[str, Any]) -> Answer:
    """What has to be the same in every right answer: verdict, items, probabilities."""
    hits = content["hits"] or content["near_misses"]
    told = [(hit["id"], hit.get("p_relevant")) for hit in hits]
    return content["verdict"], told


def is_same(one: Answer, other: Answer) -> bool:
    """Whether two answers say the same: P up to the rounding of sums, which differs with how
    many searches a server answers in one pass."""
    pairs = list(zip(one[1], other[1], strict=False))
    return (
        one[0] == other[0]
        and [item for item, _ in one[1]] == [item for item, _ in other[1]]
        and all((p is None) == (q is None) for (_, p), (_, q) in pairs)
        and all(
            abs(p - q) < 1e-4 for (_, p), (_, q) in pairs if p is not None and q is not None
        )
    )


def figures_of(seen: Sequence[Seen], began: float, ended: float) -> dict[str, Any]:
    """began, ended: when the fault was made, and when it was mended."""
    failed = sorted(one.when for one in seen if one.status != 200)
    slow = sorted(one.seconds for one in seen if one.status == 200)
    statuses = sorted({one.status for one in seen})
    return {
        "requests": len(seen),
        "statuses": {str(one): sum(s.status == one for s in seen) for one in statuses},
        "wrong_answers": sum(not one.right for one in seen),
        "fault_seconds": round(ended - began, 2),
        "first_error_after": round(failed[0] - began, 2) if failed else None,
        "error_seconds": round(failed[-1] - failed[0], 2) if failed else 0.0,
        "errors_after_mending": round(max(0.0, failed[-1] - ended), 2) if failed else 0.0,
        "median_seconds": round(statistics.median(slow), 4) if slow else None,
        "worst_seconds": round(slow[-1], 3) if slow else None,
    }
