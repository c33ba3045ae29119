"""A small language to choose items, turned into parameterised SQL.

    taken>=2024 and path~"holiday" and not (tag=dog or size<2MB)

    field     of                                     compared with
    path      the whole path                         = != ~
    name      the file's name                        = != ~
    folder    the path of the folder it lies in      = != ~
    tag       any of its tags                        = != ~
    kind      picture, video or text; image is picture  = !=
    taken     when the camera says so: 2024, 2024-05, 2024-05-31  = != < <= > >=
    modified  when the file last changed, likewise   = != < <= > >=
    latitude, longitude  where the camera says so, in degrees  = != < <= > >=
    size      of the file: 800, 20KB, 2MB, 1GiB      = != < <= > >=
    width, height  in pixels                         = != < <= > >=
    duration  of the whole video: 90, 90s, 2min, 1:30  = != < <= > >=
    p         the probability that an answer fits: 0.5 or 50%  >=

`field:value` is `field=value`. `taken=unknown` and `latitude=unknown` ask for what no camera
noted.
`=` is exact; `~` ignores case and means "contains", or matches as a whole where * or ? is
in it. What an item does not have (a text's width) compares with nothing, so `=` fails and
`!=` passes. `p` is no property of an item: it is compared after the search, so it is joined
to the rest by `and`.
"""

import calendar
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

from avow.core.camera import PLACE_TAGS
from avow.core.errors import BadQuery
from avow.core.moments import duration_of, seconds_of
from avow.retrieval.patterns import listed, matches_any
from avow.retrieval.where_tree import EVERYTHING, Comparison, Joined, Negated, Sign, Tree

Value = str | int | float


class Piece(NamedTuple):
    """A condition in SQLite's language, its values, and the same as a tree."""

    condition: str
    values: tuple[Value, ...]
    tree: Tree


_ORDER = ("=", "!=", "<", "<=", ">", ">=")
_WORDS = ("=", "!=", "~")
_DAYS = {
    "taken": "substr(items.taken, 1, 10)",
    "modified": "date(files.mtime_ns / 1000000000, 'unixepoch', 'localtime')",
}
_OLD = {"year": "2024", "date": "2024-05-31"}
"""What was one of two times, whichever there was; both are asked for by name now."""
_PLACE = (
    "(SELECT CAST(substr(tag, {length}) AS REAL) FROM tags "
    "WHERE item = items.id AND tag GLOB '{start}*')"
)
_COLUMNS = {
    "path": "files.path",
    "name": "files.name",
    "folder": "files.folder",
    "kind": "items.kind",
    "size": "files.size",
    "width": "items.width",
    "height": "items.height",
    "duration": "CASE items.kind WHEN 'video' THEN duration_of(items.part) END",
    **{
        name: _PLACE.format(length=len(start) + 1, start=start)
        for name, start in PLACE_TAGS.items()
    },
}
_KINDS = {"picture": "image", "image": "image", "video": "video", "text": "text"}
_OPERATORS = {
    **dict.fromkeys(("path", "name", "folder", "tag"), _WORDS),
    "kind": ("=", "!="),
    **dict.fromkeys((*_DAYS, "size", "width", "height", "duration", *PLACE_TAGS), _ORDER),
    "p": (">=",),
}
_TAGGED = "EXISTS (SELECT 1 FROM tags WHERE item = items.id AND tag = ?)"
_TAG_LIKE = "EXISTS (SELECT 1 FROM tags WHERE item = items.id AND alike(tag, ?))"
_MERGED = {
    f"coalesce({condition}, 0)"
    for condition in (_TAG_LIKE, *(f"alike({column}, ?)" for column in _COLUMNS.values()))
}
"""Conditions that take several patterns as well as one."""
_UNITS = {"": 1, "b": 1}
_UNITS |= {unit: 1000**n for n, unit in enumerate(("kb", "mb", "gb", "tb"), 1)}
_UNITS |= {unit: 1024**n for n, unit in enumerate(("kib", "mib", "gib", "tib"), 1)}
_UNITS |= {unit[0]: size for unit, size in _UNITS.items() if len(unit) == 2}
_TOKEN = re.compile(
    r"\s*(?:(?P<op><=|>=|!=|=|<|>|~)|(?P<bracket>[()])|(?P<quoted>\"(?:[^\"\\]|\\.)*\"|"
    r"'(?:[^'\\]|\\.)*')|(?P<word>[^\s()<>=!~\"']+))",
    re.DOTALL,
)
_MOST = 200
"""Comparisons in one filter; SQLite itself refuses very deep ones."""
_DEEPEST = 50
_ALONE = "expected p once, and 'and' between it and the rest"


@dataclass(frozen=True)
class Where:
    """A filter over the items of an index."""

    text: str
    condition: str
    values: tuple[Value, ...]
    comparisons: int = 1
    """How many there are, for each item."""
    least: float | None = None
    """The least probability of an answer, where one is asked for."""
    tree: Tree = EVERYTHING

    @classmethod
    def parse(cls, text: str) -> "Where":
        """Read a filter; an error names the place of the mistake."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadQuery(
                f"The filter {text[:200]!r} holds bytes that are no text at character "
                f"{error.start + 1}. Expected UTF-8; write that character again."
            ) from error
        parser = _Parser(text)
        condition, values, tree = parser.whole()
        return cls(text, condition, values, parser.comparisons, parser.least, tree)

    def sql(self) -> tuple[str, tuple[Value, ...]]:
        """A condition over `items` and `files`, and the values of its question marks."""
        return self.condition, self.values

    @staticmethod
    def teach(link: sqlite3.Connection) -> None:
        """Give a connection what SQLite lacks: `~` beyond ASCII, and lengths of videos."""
        link.create_function("alike", 2, matches_any, deterministic=True)
        link.create_function("duration_of", 1, duration_of, deterministic=True)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: int


class _Parser:
    """Reads from left to right; each rule of the grammar is one method."""

    least: float | None = None

    def __init__(self, text: str):
        self.text, self.at, self.comparisons, self.depth = text, 0, 0, 0
        self.negated = 0
        self.tokens = self._tokens()

    def whole(self) -> Piece:
        piece = self._either()
        if self._next().kind != "end":
            raise self._wrong("expected 'and', 'or' or the end", self._next())
        return piece

    def _tokens(self) -> list[_Token]:
        tokens, place, end = [], 0, len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if not match:
                start = place + len(self.text[place:]) - len(self.text[place:].lstrip())
                unclosed = self.text[start] in "\"'"
                problem = "this quotation mark is never closed" if unclosed else "what is this?"
                raise self._wrong(problem, _Token("", "", start))
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            place = match.end()
        return [*tokens, _Token("end", "", end)]

    def _either(self) -> Piece:
        return self._joined("or", self._all)

    def _all(self) -> Piece:
        return self._joined("and", self._not)

    def _joined(self, word: str, part: Callable[[], Piece]) -> Piece:
        likely_before = self.least
        pieces = [part()]
        while self._is(word):
            self.at += 1
            pieces.append(part())
        if len(pieces) == 1:
            return pieces[0]
        tree = Joined("or" if word == "or" else "and", tuple(piece.tree for piece in pieces))
        if word == "or":
            pieces = _merged(pieces)
        if len(pieces) == 1:
            return pieces[0]._replace(tree=tree)
        if word == "or" and self.least != likely_before:
            raise self._wrong(_ALONE, self._next())
        conditions = f" {word.upper()} ".join(piece.condition for piece in pieces)
        values = tuple(value for piece in pieces for value in piece.values)
        return Piece(f"({conditions})", values, tree)

    def _not(self) -> Piece:
        token = self._next()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._wrong(f"more than {_DEEPEST} brackets deep", token)
        if self._is("not"):
            self.at += 1
            self.negated += 1
            condition, values, tree = self._not()
            self.negated -= 1
            piece = Piece(f"(NOT {condition})", values, Negated(tree))
        elif token.text == "(" and token.kind == "bracket":
            self.at += 1
            piece = self._either()
            if self._next().text != ")":
                raise self._wrong("expected ')'", self._next())
            self.at += 1
        else:
            piece = self._comparison()
        self.depth -= 1
        return piece

    def _comparison(self) -> Piece:
        field, operator, value = self._operands()
        name, sign = field.text.lower(), operator.text
        if field.kind == "word" and name in _OLD:
            ways = " or ".join(f"{one}{sign}{_OLD[name]}" for one in _DAYS)
            raise self._wrong(f"{name!r} could be either of two times; write {ways}", field)
        if field.kind != "word" or name not in _OPERATORS:
            raise self._wrong(f"expected a field, one of {', '.join(_OPERATORS)}", field)
        if operator.kind != "op" or sign not in _OPERATORS[name]:
            listed = " ".join(_OPERATORS[name])
            raise self._wrong(f"expected one of {listed} after {name!r}", operator)
        if value.kind not in ("word", "quoted"):
            raise self._wrong(f"expected a value after {name}{sign}", value)
        self.comparisons += 1
        if self.comparisons > _MOST:
            raise self._wrong(f"more than {_MOST} comparisons", field)
        condition, values, tree = self._compare(name, sign.replace("!=", "="), value)
        condition = f"coalesce({condition}, 0)"
        if sign == "!=":
            return Piece(f"(NOT {condition})", values, Negated(tree))
        return Piece(condition, values, tree)

    def _operands(self) -> tuple[_Token, _Token, _Token]:
        """Field, operator and value; `kind:video` is one word or two."""
        field = self._take()
        name, colon, rest = field.text.partition(":")
        if field.kind != "word" or not colon or name.lower() not in _OPERATORS:
            return field, self._take(), self._take()
        place = field.place + len(name)
        named, equal = _Token("word", name, field.place), _Token("op", "=", place)
        return named, equal, _Token("word", rest, place + 1) if rest else self._take()

    def _compare(self, name: str, sign: str, value: _Token) -> Piece:
        text = _unquoted(value)
        if name == "p":
            return self._likely(text, value)
        if text == "unknown" and sign == "=" and name in ("taken", *PLACE_TAGS):
            condition = f"{_DAYS.get(name) or _COLUMNS[name]} IS NULL"
            return Piece(condition, (), Comparison(name, "unknown"))
        if sign == "~":
            condition = _TAG_LIKE if name == "tag" else f"alike({_COLUMNS[name]}, ?)"
            return Piece(condition, (listed(text),), Comparison(name, "~", (text,)))
        if name == "tag":
            return Piece(_TAGGED, (text,), Comparison(name, "=", (text,)))
        if name in _DAYS:
            return self._on_days(name, sign, text, value)
        if name == "kind":
            if text not in _KINDS:
                raise self._wrong("expected picture, video or text", value)
            text = _KINDS[text]
        if name == "duration":
            return self._lasting(sign, text, value)
        if name in ("path", "name", "folder", "kind"):
            return _plain(name, sign, text)
        return _plain(name, sign, self._number(name, text, value))

    def _number(self, name: str, text: str, token: _Token) -> Value:
        sign = r"-?" if name in PLACE_TAGS else ""
        match = re.fullmatch(rf"({sign}\d{{1,15}}(?:\.\d{{1,15}})?)\s*([a-zA-Z]*)", text)
        unit = match[2].lower() if match else ""
        if not match or unit not in _UNITS or (unit and name != "size"):
            example = " such as 800, 20KB or 2MB" if name == "size" else ""
            raise self._wrong(f"expected a number{example}", token)
        number = float(match[1]) * _UNITS[unit]
        return int(number) if number == int(number) and number < 2**53 else number

    def _lasting(self, sign: str, text: str, token: _Token) -> Piece:
        seconds = seconds_of(text)
        if seconds is None:
            raise self._wrong("expected a length such as 90, 90s, 2min or 1:30", token)
        return _plain("duration", sign, seconds)

    def _on_days(self, name: str, sign: str, text: str, token: _Token) -> Piece:
        """A year, month or day is a span: before it, in it, after it."""
        span, column = _span(text), _DAYS[name]
        if span is None:
            raise self._wrong("expected 2024, 2024-05 or 2024-05-31", token)
        first, last = span
        if sign == "=":
            tree = Comparison(name, "between", span)
            return Piece(f"{column} BETWEEN ? AND ?", (first, last), tree)
        return _plain(name, sign, first if sign in ("<", ">=") else last, column)

    def _likely(self, text: str, token: _Token) -> Piece:
        """Nothing to compare in the catalogue: the answers themselves are compared later."""
        match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)\s*(%?)", text)
        share = float(match[1]) / (100 if match[2] else 1) if match else 2.0
        if share > 1:
            raise self._wrong("expected a probability such as 0.5 or 50%", token)
        if self.negated or self.least is not None:
            raise self._wrong(_ALONE, token)
        self.least = share
        return Piece("1", (), EVERYTHING)

    def _next(self) -> _Token:
        return self.tokens[min(self.at, len(self.tokens) - 1)]

    def _take(self) -> _Token:
        token = self._next()
        self.at += 1
        return token

    def _is(self, word: str) -> bool:
        return self._next().kind == "word" and self._next().text.lower() == word

    def _wrong(self, problem: str, token: _Token) -> BadQuery:
        near = f" at {token.text!r}" if token.text else ""
        return BadQuery(
            f"The filter {self.text[:200]!r} is not understood at character "
            f"{token.place + 1}{near}: {problem}. Write it like 'taken>=2024 and tag=dog'."
        )


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Alternatives of one field in one comparison, which reads the field only once."""
    patterns: dict[str, list[str]] = {}
    for condition, values, _ in pieces:
        if condition in _MERGED:
            patterns.setdefault(condition, []).extend(json.loads(str(values[0])))
    rest = [piece for piece in pieces if piece.condition not in _MERGED]
    joined = [
        Piece(condition, (listed(*texts),), EVERYTHING) for condition, texts in patterns.items()
    ]  # the tree is joined by the caller, from the pieces as they were
    return list({piece[:2]: piece for piece in [*joined, *rest]}.values())


def _plain(name: str, sign: str, value: Value, column: str = "") -> Piece:
    tree = Comparison(name, cast(Sign, sign), (value,))
    return Piece(f"{column or _COLUMNS[name]} {sign} ?", (value,), tree)


def _unquoted(token: _Token) -> str:
    if token.kind == "word":
        return token.text
    return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)


def _span(text: str) -> tuple[str, str] | None:
    """First and last day of a year, a month or a day."""
    match = re.fullmatch(r"([0-9]{4})(?:-([0-9]{2}))?(?:-([0-9]{2}))?", text)
    if not match or text.startswith("0000"):
        return None
    year, month, day = match[1], match[2], match[3]
    if month is None:
        return f"{year}-01-01", f"{year}-12-31"
    if not 1 <= int(month) <= 12:
        return None
    length = calendar.monthrange(int(year), int(month))[1]
    if day is None:
        return f"{year}-{month}-01", f"{year}-{month}-{length:02}"
    return (text, text) if 1 <= int(day) <= length else None
