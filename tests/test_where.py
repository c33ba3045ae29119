"""The filter language, against a plain evaluation in Python."""

import datetime
import fnmatch
import operator
import sqlite3
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from avow.core.camera import place_of
from avow.core.errors import BadQuery
from avow.retrieval.patterns import listed, matches
from avow.retrieval.store.catalogue import open_catalogue
from avow.retrieval.where import Where

SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MOMENTS = [
    datetime.datetime(2019, 12, 31, 23, 30).timestamp(),
    datetime.datetime(2024, 2, 29, 12).timestamp(),
    datetime.datetime(2024, 3, 1, 0, 30).timestamp(),
]
VIENNA = ("geo:lat=48.2082", "geo:lon=16.3738")
ITEMS = [
    {
        "path": f"{folder}/{name}",
        "folder": folder,
        "name": name,
        "kind": kind,
        "size": size,
        "width": width,
        "height": None if width is None else 2 * width,
        "taken": taken,
        "modified": MOMENTS[(size + len(name)) % 3],
        "tags": tags,
    }
    for folder in ("/photos/Holiday 2024", "/photos/work")
    for name in ("a.jpg", "Straße.PNG", "e\u0301te*.jpg")
    for kind, width in (("image", 640), ("image", 10), ("text", None))
    for size, taken, tags in (
        (0, "2024-02-29T10:00:00", ("dog",)),
        (2_000_000, None, ()),
        (1024, "2023-01-01T00:00:00", ("Dog", "cat and dog", *VIENNA)),
    )
]


@pytest.fixture(scope="module")
def link(tmp_path_factory):
    made = open_catalogue(tmp_path_factory.mktemp("catalogue"), make=True)
    Where.teach(made)
    for number, item in enumerate(ITEMS, 1):
        place = (number, f"{item['path']}", item["folder"], item["name"], item["size"])
        made.execute(
            "INSERT INTO files (id, path, folder, name, size, mtime_ns, inode, content, gone) "
            "VALUES (?, ?, ?, ?, ?, ?, 0, '', 1)",  # gone: paths repeat
            [*place, int(item["modified"] * 1e9)],
        )
        made.execute(
            "INSERT INTO items (id, file, kind, content, width, height, taken) "
            "VALUES (?, ?, ?, '', ?, ?, ?)",
            [number, number, item["kind"], item["width"], item["height"], item["taken"]],
        )
        for tag in item["tags"]:
            made.execute("INSERT INTO tags VALUES (?, ?)", [number, tag])
    yield made
    made.close()


def found(link: sqlite3.Connection, text: str) -> list[int]:
    condition, values = Where.parse(text).sql()
    question = "SELECT items.id FROM items JOIN files ON files.id = file WHERE "
    return [row[0] for row in link.execute(f"{question}{condition} ORDER BY 1", values)]


# --- the same language, evaluated item by item ------------------------------------------


def day(item, which):
    if which == "taken":
        return item["taken"] and item["taken"][:10]
    return time.strftime("%Y-%m-%d", time.localtime(item["modified"]))


def folded(text):
    return unicodedata.normalize("NFC", text).casefold()


def alike(text, pattern):
    text, pattern = folded(text), folded(pattern)
    if "*" in pattern or "?" in pattern:
        return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))
    return pattern in text


def passes(item, tree):
    kind, *rest = tree
    if kind == "not":
        return not passes(item, rest[0])
    if kind in ("and", "or"):
        return (all if kind == "and" else any)(passes(item, one) for one in rest)
    sign, value = rest
    if kind == "tag":
        if sign == "~":
            return any(alike(tag, value) for tag in item["tags"])
        return (value in item["tags"]) == (sign == "=")
    if kind in ("latitude", "longitude"):
        at = place_of(item["tags"])
        if at is None:
            return sign == "!="
        return SIGNS[sign](at[kind == "longitude"], value)
    if kind in ("taken", "modified"):
        when = day(item, kind)
        if when is None or value == "unknown":
            return (when is None) == (value == "unknown") if sign == "=" else sign == "!="
        # a span as long as what was written: compare that much of the day
        return SIGNS[sign](when[: len(value)], value)
    if sign == "~":
        return alike(item[kind], value)
    if item[kind] is None:
        return sign == "!="
    return SIGNS[sign](item[kind], value)


def written(tree):
    kind, *rest = tree
    if kind == "not":
        return f"not ({written(rest[0])})"
    if kind in ("and", "or"):
        return "(" + f" {kind} ".join(written(one) for one in rest) + ")"
    sign, value = rest
    if isinstance(value, str) and kind not in ("taken", "modified", "kind"):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{kind} {sign} "{escaped}"'
    return f"{kind}{sign}{value}"


words = st.one_of(
    st.text(max_size=4).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
    st.sampled_from(["a.jpg", "holiday", "STRASSE", "été", "*.jpg", "?.jpg", "dog", "Dog"]),
    st.sampled_from(["/photos/work", "*2024*", "cat*", "[a]", "' OR 1=1 --", 'a"b\\']),
)
ordered = st.sampled_from(sorted(SIGNS))
comparisons = st.one_of(
    st.tuples(
        st.sampled_from(["path", "name", "folder", "tag"]),
        st.sampled_from(["=", "!=", "~"]),
        words,
    ).filter(lambda one: one[:2] != ("tag", "!~")),
    st.tuples(
        st.just("kind"), st.sampled_from(["=", "!="]), st.sampled_from(["image", "text"])
    ),
    st.tuples(st.just("taken"), st.just("="), st.just("unknown")),
    st.tuples(
        st.sampled_from(["latitude", "longitude"]),
        ordered,
        st.sampled_from([-33.8688, 0, 16, 48.2082]),
    ),
    st.tuples(
        st.sampled_from(["taken", "modified"]),
        ordered,
        st.sampled_from(
            ["2024", "2024-02", "2024-02-29", "2024-03-01", "2019-12-31", "2023-01"]
        ),
    ),
    st.tuples(
        st.sampled_from(["size", "width", "height"]),
        ordered,
        st.sampled_from([0, 10, 20, 640, 1024, 1280, 2_000_000]),
    ),
)
trees = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner, inner),
    ),
    max_leaves=6,
)


@examples(75, 300)
@given(tree=trees)
def test_sql_and_python_choose_the_same_items(link, tree):
    wanted = [number for number, item in enumerate(ITEMS, 1) if passes(item, tree)]
    assert found(link, written(tree)) == wanted


@examples(75, 300)
@given(text=st.text(max_size=30) | st.text("()=<>!~\"'\\ andortgye2", max_size=30))
def test_whatever_is_written_is_a_filter_or_a_sentence(link, text):
    try:
        chosen = found(link, text)
    except BadQuery as error:
        assert "character" in str(error)
    else:
        assert set(chosen) <= set(range(1, len(ITEMS) + 1))


# --- by hand --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("size<2MB", "size < 2000000"),
        ("size >= 1KiB", "size>=1024"),
        ("size=1.024kb", "size=1024"),
        ("NOT kind=text AND taken=2024", "(not kind=text) and (taken=2024)"),
        ("kind=text or kind=image and size=0", "kind=text or (kind=image and size=0)"),
        ("tag='dog'", 'tag="dog"'),
        ('name~"*.png"', "name~.png"),
        ("name ~ STRASSE", "name~Straße"),
        ("name~\u00e9", "name~e\u0301"),
        ("taken<2024-03", "taken<=2024-02-29"),
        ("taken=2024 and p>=50%", "(p>=0.5 and taken=2024) and taken=2024"),
        ("not not not tag=dog", "tag!=dog"),
    ],
)
def test_two_ways_to_say_the_same(link, text, same):
    assert found(link, text) == found(link, same) != []


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("", 1, "expected a field"),
        ("taken>=", 8, "expected a value after taken>="),
        ("taaken=2024", 1, "expected a field"),
        ("year>=2024", 1, "'year' could be either of two times; write taken>=2024 or modified"),
        ("date<2024-05", 1, "write taken<2024-05-31 or modified<2024-05-31"),
        ("tag=a or p>=0.5", 16, "expected p once, and 'and' between it and the rest"),
        ("not p>=0.5", 8, "expected p once"),
        ("p>=2", 4, "expected a probability such as 0.5 or 50%"),
        ("p<0.5", 2, "expected one of >= after 'p'"),
        ("size<-1", 6, "expected a number"),
        ("path<3", 5, "expected one of = != ~ after 'path'"),
        ("(taken=2024", 12, "expected ')'"),
        ("taken=2024)", 11, "expected 'and', 'or' or the end"),
        ("taken=20x4", 7, "expected 2024, 2024-05 or 2024-05-31"),
        ("taken=2023-02-29", 7, "expected 2024, 2024-05 or 2024-05-31"),
        ("taken=2024-13", 7, "expected 2024, 2024-05 or 2024-05-31"),
        ("width<2MB", 7, "expected a number"),
        ("size<lots", 6, "expected a number such as 800, 20KB or 2MB"),
        ("kind=film", 6, "expected picture, video or text"),
        ('path~"abc', 6, "this quotation mark is never closed"),
        ("tag=a tag=b", 7, "expected 'and', 'or' or the end"),
        ("tag=a !", 7, "what is this?"),
        ("(" * 60 + "tag=a" + ")" * 60, 51, "more than 50 brackets deep"),
        (" or ".join(["tag=a"] * 300), 1801, "more than 200 comparisons"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, place, told):
    with pytest.raises(BadQuery) as caught:
        Where.parse(text)
    assert f"not understood at character {place}" in str(caught.value)
    assert told in str(caught.value)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(BadQuery, match="character 6"):
        Where.parse("name=\udcff")


def test_a_pattern_of_many_stars_goes_over_the_text_once():
    """With stars that may go back, this would not end."""
    assert not matches("a" * 4000, "*a" * 40 + "b")
    assert matches("a" * 4000 + "b", "*a" * 40 + "b")
    assert not matches("a" * 100_000, "?*" * 200 + "b")


def test_stars_and_question_marks():
    for text, fits in {"Cat": True, "cart": False, "ca": False}.items():
        assert matches(text, "c?t") is fits
    for text, fits in {"a house by the sea": True, "the sea, a house": False}.items():
        assert matches(text, "*house*sea*") is fits


def test_what_is_not_known_matches_no_pattern(link):
    Where.teach(link)
    assert link.execute("SELECT alike(NULL, ?)", [listed("*", "a")]).fetchone() == (0,)
