"""The verdicts of a search, and what they are called; imports nothing that is slow."""

from typing import Literal

Verdict = Literal["answer", "check", "nothing_found", "not_understood", "unjudged"]
EMPTY: tuple[Verdict, ...] = ("nothing_found", "not_understood")
"""Those without hits."""
HEADS: dict[Verdict, str] = {
    "answer": "Answer",
    "check": "Check",
    "nothing_found": "Nothing found",
    "not_understood": "Not understood",
    "unjudged": "Not judged",
}
"""As headings."""
