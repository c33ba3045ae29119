"""Trust fitted to an index: from named pairs and from feedback, and then used."""

import csv
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from moving import write_video
from search_samples import ColourEncoder, colours_of, save_pictures, toy_model
from serving import PATIENT
from test_cli import command

from avow.api import create_app
from avow.assembly.identity import search_fingerprint
from avow.core.errors import BadData
from avow.retrieval import labelled_queries
from avow.retrieval import search as searching
from avow.retrieval.answer import HowMany, in_words
from avow.retrieval.calibrate import FEWEST, calibrate
from avow.retrieval.encoders import opening
from avow.retrieval.encoders.run import ModelEncoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.labelled_queries import LabelledQueries, read_known, read_ticks, scored
from avow.retrieval.leaving_out import leave_out
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.store.catalogue import changing, open_catalogue
from avow.trust.fitting import fit_policy
from avow.trust.judgements import Judgements
from avow.trust.risk_control import Promise

__all__ = ["command"]  # the fixture
pytestmark = pytest.mark.usefixtures("one_strength")
PICTURES = 200  # two of every pair of colours
SLIPS = 0.25
CLEAR = "a red thing over green once more"


def asked_for(number: int) -> str:
    main, under = colours_of(number)
    return f"a {main} thing over {under}"


def known_pairs() -> list[tuple[str, str]]:
    """Three in four queries name both colours of their two pictures, the others nothing."""
    rows = []
    for number in range(300):
        place = number % 100
        said = asked_for(place) if number % 4 else "something or other"
        rows += [
            (f"{said} number {number}", f"{colours_of(place)[0]}-{twin:03d}.png")
            for twin in (place, place + 100)
        ]
    return rows


def write_csv(path, rows, heads=("query", "file")):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([heads, *rows] if heads else rows)
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    home = tmp_path_factory.mktemp("calibrate")
    save_pictures(home / "pictures", PICTURES)
    index_folders([home / "pictures"], index=home / "index", encoder=ColourEncoder(slips=SLIPS))
    write_csv(home / "pairs.csv", known_pairs())
    return home


def open_at(place):
    encoder = ColourEncoder(slips=SLIPS)
    return Retriever(Library.open(place / "index", encoder), encoder)


@pytest.fixture(scope="module")
def calibrated(place):
    return calibrate(open_at(place), place / "pairs.csv")


# --- what is known --------------------------------------------------------------------------


def test_a_query_may_have_several_right_files(place):
    known = read_known(open_at(place).library, place / "pairs.csv")
    assert len(known) == 300 and known.lost == []
    assert {len(ids) for ids in known.right.values()} == {2}


@pytest.mark.parametrize("heads", [None, ("query", "file"), ("Caption", "Image")])
def test_a_table_with_and_without_heads(place, tmp_path, heads):
    path = write_csv(tmp_path / "pairs.csv", [("a red one", "red-000.png")], heads)
    assert list(read_known(open_at(place).library, path).right) == ["a red one"]


def test_lines_of_json_and_paths_beside_the_file(place):
    path = place / "pairs.jsonl"
    path.write_text('{"query": "a red one", "file": "pictures/red-000.png"}\n\n')
    library = open_at(place).library
    [[item]] = read_known(library, path).right.values()
    assert library.items([item])[0].path.endswith("red-000.png")


def test_files_that_are_not_in_the_index_are_listed(place, tmp_path):
    path = write_csv(tmp_path / "pairs.csv", [("a red one", "elsewhere.png")])
    assert read_known(open_at(place).library, path).lost == ["elsewhere.png"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", "query,file\na dog,\n"),
        ("p.jsonl", '\n{"query": 3}\n'),
        ("p.csv", "a\nb\n"),
        ("p.csv", f"query,file\n{'a' * 200_000},1.jpg\n"),  # more than a field may have
    ],
    ids=["no file", "no words", "one column", "too long"],
)
def test_a_bad_line_is_named(place, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadData, match=r"Line [12] of .* has no query or no file"):
        read_known(open_at(place).library, tmp_path / name)


@pytest.mark.parametrize(
    ("query", "words"),
    [("a" * 20_000, "has 20000 characters"), ("red \ud800", "half of a character")],
)
def test_a_query_that_is_none_is_named_by_its_line(place, tmp_path, query, words):
    lines = [{"query": "red", "file": "red-000.png"}, {"query": query, "file": "x.png"}]
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(BadData, match=rf"The query on line 2 of .* {words}"):
        read_known(open_at(place).library, tmp_path / "p.jsonl")


def test_pairs_that_are_not_there(place, tmp_path):
    with pytest.raises(BadData, match="cannot be read"):
        read_known(open_at(place).library, tmp_path / "none.csv")


def test_too_few_are_a_sentence(place, tmp_path):
    path = write_csv(tmp_path / "pairs.csv", [("red", "red-000.png"), ("x", "none.png")])
    with pytest.raises(BadData) as caught:
        calibrate(open_at(place), path)
    assert str(caught.value) == (
        "There are 1 queries with a known right picture in this index. 1 files of the pairs "
        f"are not in it. Expected at least {FEWEST}; name more in a file of pairs, or say of "
        "more answers whether they are good."
    )


def test_queries_for_one_picture_calibrate_too(place, tmp_path):
    """They cannot be told apart by their pictures, so each stands for itself."""
    shutil.copytree(place / "index", tmp_path / "index")
    rows = [(f"{asked_for(0)} number {number}", "red-000.png") for number in range(FEWEST)]
    found = calibrate(open_at(tmp_path), write_csv(tmp_path / "pairs.csv", rows))
    assert found.queries == FEWEST and found.after is not None


def test_good_feedback_is_known_and_bad_is_not(tmp_path):
    save_pictures(tmp_path / "pictures", 6)
    index_folders(
        [tmp_path / "pictures"], index=tmp_path / "index", encoder=ColourEncoder(slips=SLIPS)
    )
    retriever = open_at(tmp_path)
    found = retriever.search("red", k=2)
    retriever.feedback(found.query, found.hits[0].id, True)
    retriever.feedback(found.query, found.hits[1].id, False)
    retriever.feedback(retriever.search("red", without="blue").query, found.hits[1].id, True)
    retriever.feedback("green", found.hits[1].id, True)
    retriever.feedback("green", found.hits[1].id, False)  # the last word counts
    retriever.feedback("blue", found.hits[1].id, True)
    retriever.feedback("blue", found.hits[1].id, None)
    assert read_known(retriever.library, None).right == {"red": {found.hits[0].id}}
    gone = found.hits[1]
    assert read_ticks(retriever.library)["red"] == {found.hits[0].id: True, gone.id: False}
    Path(gone.path).unlink()
    index_folders(
        [tmp_path / "pictures"], index=tmp_path / "index", encoder=ColourEncoder(slips=SLIPS)
    )
    retriever.library.refresh()
    assert read_ticks(retriever.library) == {"red": {found.hits[0].id: True}}


def test_files_are_known_by_a_name_that_only_one_has(tmp_path):
    for folder in ("a", "b"):
        save_pictures(tmp_path / "files" / folder, 1)
    write_video(tmp_path / "files" / "short.mp4", [("blue", 1)])
    encoder = ColourEncoder(slips=SLIPS)
    index_folders([tmp_path / "files"], index=tmp_path / "index", encoder=encoder)
    names = ("red-000.png", "files/b/red-000.png", "short.mp4", "files/short.mp4")
    path = write_csv(tmp_path / "pairs.csv", [(f"number {name}", name) for name in names])
    with closing(open_at(tmp_path).library) as library:
        known = read_known(library, path)
        found = {
            query: Path(item.path).relative_to(tmp_path)
            for query, ids in known.right.items()
            for item in library.items(sorted(ids))
        }
    assert known.lost == ["red-000.png"]  # which of the two?
    assert found == {
        "number files/b/red-000.png": Path("files/b/red-000.png"),
        "number short.mp4": Path("files/short.mp4"),
        "number files/short.mp4": Path("files/short.mp4"),
    }


def test_of_many_pictures_a_sample_is_scored_with_all_right_ones(place, monkeypatch):
    monkeypatch.setattr(labelled_queries, "MOST", 30)
    retriever = open_at(place)
    known = LabelledQueries()
    for number in (3, 150, 199):
        known.add(f"number {number}", int(retriever.library.find()[number]))
    asking = scored(retriever.library, retriever.encoder, known)
    assert asking.scored.similarity.shape == (2, 3, 30)
    assert asking.scored.match.sum(1).tolist() == [1, 1, 1]


# --- what is fitted, and what it says of searches ---------------------------------------------


def test_the_policy_is_kept_in_the_index(place, calibrated):
    assert calibrated.path == open_at(place).model_folder / "trust-text.json"
    assert calibrated.path.is_file() and calibrated.queries == 300
    assert 0 <= calibrated.after.ece < 0.2 and calibrated.after.brier < 0.15


def test_a_first_calibration_has_no_before(calibrated):
    assert calibrated.before is None and calibrated.after.queries == 300


def test_a_clear_query_is_answered(place, calibrated):
    found = open_at(place).search(CLEAR, k=3)
    assert found.verdict == "answer" and found.trust > 0.8
    names = {hit.path.rpartition("/")[2] for hit in found.hits[:2]}
    assert names == {"red-010.png", "red-110.png"}
    assert found.hits[1].p_relevant > 0.5 > found.hits[2].p_relevant
    most, least = (100 * hit.p_relevant for hit in found.hits[:2])
    many = found.how_many
    assert found.why == (
        f"Two pictures are about equally likely to fit, with {least:.0f} to {most:.0f} %. "
        + many.in_words("picture")
    )
    assert 0 < many.low <= 2 <= many.high < 20 and many.low < many.expected < many.high
    assert found.near_misses == ()


def test_a_query_for_nothing_is_not_answered(place, calibrated):
    found = open_at(place).search("something or other once more", k=10)
    assert found.verdict in ("check", "nothing_found") and found.trust < 0.7
    assert max(hit.p_relevant for hit in (*found.hits, *found.near_misses)) < 0.5


def test_what_is_not_there_is_a_near_miss(place, calibrated):
    """A red thing among pictures of other colours only."""
    found = open_at(place).search(CLEAR, where='not name~"red*"', k=5)
    assert found.verdict == "nothing_found" and found.hits == ()
    assert found.uncertainty.K == 180 and len(found.near_misses) == 5
    assert found.why == (
        "Probably no picture here fits: the chance that one of the best ten does is "
        f"{100 * found.trust:.0f} %."
    )
    assert found.trust < 0.5 and found.how_many.expected < 0.5


def test_a_filter_is_judged_anew(place, calibrated):
    """The same picture, first among 200, then among 21, has another probability."""
    retriever = open_at(place)
    many = retriever.search(CLEAR)
    few = retriever.search(CLEAR, where='name="red-110.png" or name~"blue*"')
    one, other = (
        {hit.path.rpartition("/")[2]: hit for hit in found.hits or found.near_misses}
        for found in (few, many)
    )
    assert few.uncertainty.K == 21
    name = "red-110.png"
    assert one[name].p_relevant != pytest.approx(other[name].p_relevant, abs=1e-3)


def test_a_filter_that_every_answer_passes_leaves_them_all(place, calibrated):
    retriever = open_at(place)
    found = retriever.search(CLEAR, k=3)
    least = min(hit.p_relevant for hit in found.hits)
    assert retriever.search(CLEAR, k=3, where=f"p>={least / 2:.6f}").hits == found.hits


def test_a_stricter_risk_answers_less(place, calibrated):
    retriever = open_at(place)
    texts = sorted(read_known(retriever.library, place / "pairs.csv").right)[::6]
    counts = [
        sum(retriever.search(text, k=3, risk=risk).verdict == "answer" for text in texts)
        for risk in (0.5, 0.01)
    ]
    assert counts[0] > counts[1]


def test_a_risk_next_to_nothing_is_not_answered(place, calibrated):
    """The smallest numbers of floating point, over the server as over Python."""
    retriever = open_at(place)
    with TestClient(
        create_app(retriever, limits=PATIENT), base_url="http://127.0.0.1"
    ) as client:
        for risk in ("1e-320", "5e-324"):
            found = client.get("/api/search", params={"text": "red", "k": 3, "risk": risk})
            assert found.status_code == 200
            assert found.json()["verdict"] in ("check", "nothing_found")


def test_the_most_probable_comes_first(place, calibrated):
    """Each probability goes with the picture it was stated of."""
    retriever = open_at(place)
    found = retriever.search(CLEAR, k=32)
    hits = found.hits or found.near_misses
    stated = [hit.p_relevant for hit in hits]
    assert stated == sorted(stated, reverse=True)
    query = retriever.encoder.encode_texts([CLEAR])[0]
    dots = retriever.library.vectors([hit.id for hit in hits]) @ query
    np.testing.assert_allclose([hit.similarity for hit in hits], dots, atol=1e-5)


def test_a_damaged_calibration_is_told(place, calibrated):
    before = calibrated.path.read_text()
    try:
        calibrated.path.write_text(before[:100])
        found = open_at(place).search(CLEAR)
    finally:
        calibrated.path.write_text(before)
    assert found.verdict == "unjudged" and "trust-text.json' cannot be read" in found.why


def test_other_kinds_of_search_stay_unjudged(place, calibrated):
    retriever = open_at(place)
    path = place / "pictures" / "red-000.png"
    for found in (
        retriever.search(image=path),
        retriever.search("red", image=path),
        retriever.similar(int(retriever.library.find()[0])),
    ):
        assert (found.verdict, found.trust) == ("unjudged", None)


def test_what_is_left_out_is_judged_and_never_promised(place, calibrated):
    retriever = open_at(place)
    plain = retriever.search("red", k=10)
    without = retriever.search("red", without="blue", k=10)
    assert without.verdict in ("check", "nothing_found")
    assert "not sure enough" not in without.why
    assert (without.verdict == "check") == ("leaves something out" in without.why)
    stated = {hit.id: hit.p_relevant for hit in (plain.hits or plain.near_misses)}
    for hit in without.hits or without.near_misses:
        assert hit.id not in stated or hit.p_relevant <= stated[hit.id] + 1e-9


def test_that_one_of_ten_fits_follows_from_what_is_left_of_each(calibrated):
    """Of hits that all show what is to be left out, nothing is left."""
    policy = calibrated.policy
    hits, present = np.array([[0.9, 0.8, 0.6, 0.3]]), np.array([0.97])
    judged = stated(hits[0].tolist(), float(present[0]))
    about = np.array([200]), np.array([3])
    left = [leave_out(judged, np.full(4, q), policy, about, 4) for q in (0.0, 0.5, 0.99)]
    np.testing.assert_allclose(left[0].present, present, atol=1e-6)
    np.testing.assert_allclose(left[1].probability[0], hits[0] / 2)
    sums = [one.probability[0].sum() for one in left]
    for one, total in zip(left, sums, strict=True):
        assert one.present[0] <= min(1, total) + 1e-9
    assert left[0].present[0] > left[1].present[0] > left[2].present[0] < 0.05


def test_hits_beyond_those_looked_at_state_nothing(place, calibrated):
    found = open_at(place).search(CLEAR, k=40)
    stated = [hit.p_relevant is not None for hit in found.hits]
    assert stated == [True] * 32 + [False] * 8


def test_a_policy_of_another_model_is_not_used(place, calibrated):
    content = json.loads(calibrated.path.read_text())
    content["conditions"]["model"] = "0" * 16
    before = calibrated.path.read_text()
    try:
        calibrated.path.write_text(json.dumps(content))
        found = open_at(place).search("a red thing")
    finally:
        calibrated.path.write_text(before)
    assert found.verdict == "unjudged" and found.trust is None
    assert "`avow calibrate`" in found.why


def stated(shares: list[float], ten: float | None = None, **more: Any) -> Judgements:
    """Judgements of one query."""
    each = np.array([shares])
    anything = np.array([each.max() if ten is None else ten])
    kept = None if ten is None else np.full((1, 10), ten)
    promise = Promise(0.5, 0.1, 0.1, "none of 10 hits is relevant", 100, 100, 50, 2)
    order = np.arange(len(shares))[None]
    return Judgements(
        order, each, anything, anything, ["check"], [promise], one_of_first=kept, **more
    )


@pytest.mark.parametrize(
    ("verdict", "shares", "why"),
    [
        ("answer", [0.9, 0.2], "The first picture fits with a probability of 90 %."),
        (
            "answer",
            [0.9, 0.88, 0.86, 0.8, 0.77, 0.3],
            "Five pictures are about equally likely to fit, with 77 to 90 %.",
        ),
        (
            "answer",
            [0.9, 0.899, 0.3],
            "Two pictures are equally likely to fit, each with about 90 %.",
        ),
        (
            "check",
            [0.4, 0.2],
            "The first picture fits with a probability of 40 %. That is not sure enough "
            "to promise, so look before you rely on it.",
        ),
    ],
)
def test_the_verdict_in_words(verdict, shares, why):
    assert in_words(verdict, stated(shares), "picture") == why


def test_a_search_that_leaves_something_out_says_why_it_promises_nothing():
    """Nine in ten is sure enough where a promise was fitted."""
    assert in_words("check", stated([0.95]), "picture", leaves_out=True) == (
        "The first picture fits with a probability of 95 %. Nothing is promised of a search "
        "that leaves something out, so look before you rely on it."
    )


def test_nothing_found_in_words():
    assert in_words("nothing_found", stated([0.1], 0.134), "picture") == (
        "Probably no picture here fits: the chance that one of the best ten does is 13 %."
    )
    # a policy of an earlier version judges no ten hits together
    assert in_words("nothing_found", stated([0.1]), "text") == "Probably no text here fits."


@pytest.mark.parametrize(
    ("many", "why"),
    [
        (HowMany(0.3, 0.0, 1.2), "At most one picture fits."),
        (HowMany(1.2, 0.6, 2.1), "One picture fits, or two."),
        (HowMany(0.6, 0.0, 2.1), "At most two pictures fit."),
        (HowMany(1.2, 0.4, 2.9), "About 1 picture fits (0 to 3)."),
        (HowMany(43.4, 21.0, 87.8), "About 43 pictures fit (21 to 88)."),
        (HowMany(1234.0, 617.0, 2468.0), "About 1200 pictures fit (620 to 2500)."),
    ],
)
def test_how_many_in_words(many, why):
    assert many.in_words("picture") == why
    assert in_words("answer", stated([0.9, 0.1]), "picture", many) == (
        f"The first picture fits with a probability of 90 %. {why}"
    )


def test_a_number_does_not_contradict_that_probably_nothing_fits():
    """Seven is the mean of none in two of three galleries, and of many in the third."""
    many = HowMany(7.2, 0.0, 15.1)
    assert "Probably none fits, and at most 15 pictures." in in_words(
        "check", stated([0.13, 0.05], 0.34), "picture", many
    )
    assert "About 7 pictures fit (0 to 15)." in in_words(
        "check", stated([0.13, 0.05], 0.51), "picture", many
    )


def test_doubts_are_told():
    unlike = stated([0.9], doubts=["fitted on 5, used on 50"])
    assert in_words("answer", unlike, "text", odd=True) == (
        "The first text fits with a probability of 90 %. Unlike anything this model was "
        "calibrated on. Careful: fitted on 5, used on 50."
    )


# --- the command ------------------------------------------------------------------------------


@pytest.fixture
def colours(monkeypatch):
    """The model of these indexes can be opened by name."""
    for name in ("open_encoder", "open_recorded"):
        for module in (searching, opening):
            monkeypatch.setattr(module, name, lambda *_, **__: ColourEncoder(slips=SLIPS))


@pytest.fixture(scope="module")
def again(place, calibrated, tmp_path_factory):
    """Words of a second calibration, of an index whose feedback has a row without a query.

    By as few pairs as there may be: what comes out is told in the same words.
    """
    index = shutil.copytree(place / "index", tmp_path_factory.mktemp("again") / "index")
    with closing(open_catalogue(index)) as link, changing(link):
        link.execute(
            "INSERT INTO feedback (query, item, good, happened) VALUES (?, 1, 1, 0)",
            [r'{"text": "\ud800"}'],
        )
    few = write_csv(place / "few.csv", known_pairs()[: 2 * FEWEST])
    return "calibrate", few, "--index", index


def test_calibrate_on_the_command_line(command, colours, again):
    code, out, _ = command(*again)
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith(f"{FEWEST} queries with known pictures -> ")
    assert lines[1] == "1 row of feedback held no usable query: left out"
    assert lines[2].startswith("before  ECE 0.") and lines[3].startswith("after   ECE 0.")


def test_calibrate_tells_programs(command, colours, again):
    found = json.loads(command(*again, "--json")[1])
    assert set(found["after"]) == {"queries", "ece", "brier", "answered", "wrong"}
    assert found["before"].keys() == found["after"].keys()
    assert found["before"]["queries"] == found["after"]["queries"] == FEWEST
    assert found["feedback_passed_over"] == 1


def test_calibrate_shows_what_there_is(command, colours, place, calibrated, tmp_path):
    code, out, _ = command("calibrate", "--show", "--index", place / "index")
    assert code == 0 and out.startswith("Text searches were calibrated for this index, for ")
    save_pictures(tmp_path / "pictures", 3)
    index_folders(
        [tmp_path / "pictures"], index=tmp_path / "index", encoder=ColourEncoder(slips=SLIPS)
    )
    code, out, _ = command("calibrate", "--show", "--index", tmp_path / "index")
    assert out.splitlines() == [
        "Text searches of this index are not calibrated.",
        f"Queries known from feedback: 0; a calibration needs {FEWEST}.",
    ]


def test_a_calibration_is_forgotten_on_purpose(command, colours, place, calibrated, tmp_path):
    """A file that is only deleted was lost; one that is forgotten is not missed."""
    index = shutil.copytree(place / "index", tmp_path / "index")
    kept = calibrated.path.relative_to(place / "index")
    (index / kept).unlink()
    _, out, _ = command("search", CLEAR, "--index", index)
    assert "is missing" in out
    code, out, _ = command("calibrate", "--forget", "--index", index)
    assert code == 0 and out.startswith("Text searches of this index are not calibrated.")
    _, out, _ = command("search", CLEAR, "--index", index)
    assert "is missing" not in out


def test_a_judged_search_on_the_command_line(command, colours, place, calibrated):
    code, out, _ = command("search", CLEAR, "-k", "3", "--index", place / "index")
    lines = out.splitlines()
    assert code == 0 and lines[0].startswith("Answer; that one of these 3 fits: ")
    assert " %. Two pictures are about equally likely to fit, with 8" in lines[0]
    assert " pictures fit (" in lines[0]
    assert lines[1].split() == ["P(relevant)", "similarity", "path"] and " %" in lines[2]


def test_a_risk_next_to_nothing_on_the_command_line(command, colours, place, calibrated):
    asked = ("search", CLEAR, "--risk", "1e-320", "--index", place / "index")
    code, out, said = command(*asked)
    assert code in (0, 3) and "Traceback" not in said and not out.startswith("Answer")


def test_near_misses_on_the_command_line(command, colours, place, calibrated):
    asked = ("search", CLEAR, "--where", 'not name~"red*"')
    code, out, _ = command(*asked, "--index", place / "index")
    assert code == 3
    assert out.startswith("Nothing found. Probably no picture here fits: the chance that one ")
    assert "What came nearest:" in out and ".png" in out
    code, out, _ = command(*asked, "--index", place / "index", "--json")
    found = json.loads(out)
    assert code == 3 and found["hits"] == [] and len(found["near_misses"]) == 10


# --- policies of elsewhere ------------------------------------------------------------------


def test_a_search_loads_what_avow_trust_writes(place, tmp_path):
    """A policy of `fit`, for the annotated match: the same class, the same file."""
    shutil.copytree(place / "index", tmp_path / "index")
    shutil.copytree(place / "pictures", tmp_path / "pictures")
    retriever = open_at(tmp_path)
    queries = scored(
        retriever.library, retriever.encoder, read_known(retriever.library, place / "pairs.csv")
    ).scored
    for model, verdicts in (
        (retriever.encoder.fingerprint, {"answer", "check"}),
        ("another", {"unjudged"}),
    ):
        policy = fit_policy(
            queries.similarity,
            queries.match,
            bank=queries.background,
            model=model,
            tau=queries.tau,
            risk=0.4,
            among=10,
            sizes=(50, 100),
        )
        retriever.model_folder.mkdir(parents=True, exist_ok=True)
        policy.save(retriever.model_folder / "trust-text.json")
        result = open_at(tmp_path).search(CLEAR)
        assert result.verdict in verdicts
        if model != "another":
            chances = [hit.p_relevant for hit in result.hits]
            assert None not in chances and chances[0] > 0.3
            assert result.trust is not None and result.trust > chances[0]


def test_an_encoder_is_known_by_the_name_that_a_study_writes():
    model = toy_model()
    assert ModelEncoder(model, "toy").fingerprint == search_fingerprint(model)
