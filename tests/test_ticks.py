"""Ticks adjust the model's policy: the line against an optimiser, what searches say then."""

import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote_plus

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from samples import examples
from scipy.optimize import minimize
from search_samples import ColourEncoder, colours_of, save_pictures
from serving import PATIENT, Server
from test_calibrate import PICTURES, SLIPS, asked_for, known_pairs, write_csv
from test_expected_number import tail, world
from tiers import long

from avow.api import create_app
from avow.core.logistic import expit, logit
from avow.retrieval import calibrate as module_of_fits
from avow.retrieval import ticks as module
from avow.retrieval.calibrate import FEWEST, calibrate, use_ticks
from avow.retrieval.indexing import index_folders
from avow.retrieval.labelled_queries import read_known, scored
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.ticks import ALIKE, PRIOR, SPREAD, Adjustment, Ticks, adjustment, fit_line
from avow.trust.calibration_queries import CalibrationQueries
from avow.trust.coherence import number
from avow.trust.fitting import fit_search_policy
from avow.trust.judgements import Judgements
from avow.trust.policy import Policy
from avow.trust.probability import Line
from avow.trust.top_k import summarise
from avow.trust.transfer import SHORT, whole_probabilities

__all__ = ["tail"]  # the fixture


def drawn(count: int, line: Line, seed: int = 0, each: int = 1) -> Ticks:
    """Ticks of people who see the log-odds of the policy by a line; half of them of names."""
    rng = np.random.default_rng(seed)
    query = np.arange(count) // each
    words = np.where(query % 2, 2, 9)
    stated = expit(rng.normal(-1, 1.5, count))
    good = rng.random(count) < line(stated, words)
    return Ticks(stated, good, query, words)


# --- the line -------------------------------------------------------------------------------


def plain_loss(numbers: np.ndarray, ticks: Ticks) -> float:
    """Minus the logarithm of the posterior, tick by tick."""
    slope, offset, names, phrases = numbers
    total = sum(
        (a - b) ** 2 / (2 * c**2) for a, b, c in zip(numbers, PRIOR, SPREAD, strict=True)
    )
    for p, good, query, words in zip(
        ticks.stated, ticks.good, ticks.query, ticks.words, strict=True
    ):
        odds = slope * np.log(p / (1 - p)) + offset + (names if words <= 3 else phrases)
        count = (ticks.query == query).sum()
        total += np.logaddexp(0, -odds if good else odds) / (1 + ALIKE * (count - 1))
    return total


def second_differences(function, at: np.ndarray, by: float = 1e-3) -> np.ndarray:
    """The matrix of second derivatives."""
    steps = by * np.eye(len(at))
    corners = [
        [(a, b, function(at + a * one + b * two)) for a in (-1, 1) for b in (-1, 1)]
        for one in steps
        for two in steps
    ]
    found = [sum(a * b * value for a, b, value in four) for four in corners]
    return np.reshape(found, (len(at), len(at))) / (4 * by**2)


@pytest.mark.parametrize("seed", [0, long(1), 2])
@pytest.mark.parametrize("offset", [-3.0, long(0.0), 3.0])
def test_the_line_is_the_optimum_of_a_plain_optimiser(seed, offset):
    ticks = drawn(60, Line(0.8, offset, 0.5, -0.5), seed, each=1 + seed)
    found, covariance = fit_line(ticks)
    best = minimize(plain_loss, PRIOR, (ticks,), method="BFGS", options={"gtol": 1e-7})
    numbers = [found.slope, found.offset, found.names, found.phrases]
    np.testing.assert_allclose(numbers, best.x, atol=2e-4)
    curve = second_differences(lambda at: plain_loss(at, ticks), best.x)
    np.testing.assert_allclose(covariance, np.linalg.inv(curve), rtol=0.01, atol=1e-3)


def test_a_fit_that_is_cut_off_is_better_than_where_it_began(monkeypatch):
    ticks = drawn(60, Line(0.8, 1.0, 0.5, -0.5))
    monkeypatch.setattr(module, "_STEPS", 1)
    monkeypatch.setattr(module, "_HALVINGS", 0)
    line, covariance = fit_line(ticks)
    found = np.array([line.slope, line.offset, line.names, line.phrases])
    assert plain_loss(found, ticks) < plain_loss(PRIOR, ticks)
    assert (np.diag(covariance) > 0).all()


def test_good_hits_that_were_hardly_believed():
    """A whole Newton step leaps over the optimum here, further with every step."""
    rng = np.random.default_rng(0)
    stated = expit(rng.normal(-3, 1.5, 100))
    ticks = Ticks(stated, rng.random(100) < 0.6, np.arange(100), np.full(100, 2))
    line, _ = fit_line(ticks)
    best = minimize(plain_loss, PRIOR, (ticks,), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(
        [line.slope, line.offset, line.names, line.phrases], best.x, atol=2e-4
    )
    assert line(stated, ticks.words).mean() == pytest.approx(0.6, abs=0.1)


def test_no_ticks_change_nothing():
    line, covariance = fit_line(drawn(0, Line()))
    assert line == Line()
    np.testing.assert_allclose(covariance, np.diag(SPREAD**2))


def test_few_ticks_move_less_than_many():
    truth = Line(1.0, -1.5)
    mean = {
        count: np.mean([fit_line(drawn(count, truth, seed))[0].offset for seed in range(20)])
        for count in (3, 30, 300)
    }
    assert 0 > mean[3] > mean[30] > mean[300] > -1.5


def test_many_ticks_find_the_truth():
    truth = Line(1.2, -1.0, 0.4, -0.4)
    ticks = drawn(20_000, truth)
    found, covariance = fit_line(ticks)
    np.testing.assert_allclose(
        found(ticks.stated, ticks.words), truth(ticks.stated, ticks.words), atol=0.02
    )
    assert covariance[0, 0] < 0.03**2


def test_ten_ticks_of_one_query_tell_less_than_of_ten():
    one = drawn(10, Line())
    good = replace(one, good=np.ones(10, bool))
    together = replace(good, query=np.zeros(10, int))
    assert 0 < fit_line(together)[0].offset < fit_line(good)[0].offset


def test_names_and_phrases_differ_where_their_ticks_do():
    ticks = drawn(60, Line())
    ticks = replace(ticks, good=ticks.words == 2)
    line, _ = fit_line(ticks)
    assert line.names > 0.3 and line.phrases < -0.3
    alone, _ = fit_line(ticks.only(ticks.words == 2))
    assert alone.phrases == 0 and alone.offset > 2 * alone.names > 0  # the other kind learns


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 3), st.integers(0, 12)),
        max_size=30,
    )
)
@examples(30, 100)
def test_whatever_is_ticked_the_order_stays(rows):
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    types = (float, bool, int, int)
    ticks = Ticks(*(np.array(one, kind) for one, kind in zip(columns, types, strict=True)))
    line, covariance = fit_line(ticks)
    stated = np.linspace(0.001, 0.999, 50)
    for words in (1, 12):
        moved = line(stated, np.full(50, words))
        assert np.isfinite(moved).all() and (np.diff(moved) > 0).all()
    assert np.isfinite(covariance).all() and line.slope >= module.LOWEST_SLOPE - 1e-6


def test_ticks_against_the_order_do_not_turn_it_round():
    stated = np.linspace(0.01, 0.99, 200)
    ticks = Ticks(stated, stated < 0.5, np.arange(200), np.full(200, 5))
    line, _ = fit_line(ticks)
    assert line.slope == pytest.approx(module.LOWEST_SLOPE, abs=1e-6)


@pytest.mark.parametrize("numbers", [(0.0, 0.0), (-1.0, 0.0), (1.0, np.nan), (np.inf, 0.0)])
def test_a_line_that_is_none_is_refused(numbers):
    with pytest.raises(ValueError, match="finite numbers and a positive slope"):
        Line(*numbers)


# --- what is told ---------------------------------------------------------------------------


def test_no_query_is_stated_by_its_own_ticks():
    """The ticks of one query turned round change what all others are stated, not its own."""
    ticks = drawn(40, Line(1.0, -1.0), each=4)
    own = ticks.query == 3
    before = module.crossed(ticks)
    after = module.crossed(replace(ticks, good=np.where(own, ~ticks.good, ticks.good)))
    np.testing.assert_array_equal(after[own], before[own])
    assert (np.abs(after[~own] - before[~own]) > 1e-4).all()


def test_before_and_after_are_the_errors_of_ticks():
    ticks = drawn(80, Line(1.0, -2.0))
    found = adjustment(ticks)
    assert found.before == pytest.approx(((ticks.stated - ticks.good) ** 2).mean())
    assert found.after == pytest.approx(((module.crossed(ticks) - ticks.good) ** 2).mean())
    assert found.after < found.before and found.change < 0.7
    assert found.ticks == 80 and found.agree == ((ticks.stated > 0.5) == ticks.good).sum()


def test_what_is_left_unknown_is_that_of_redrawn_ticks():
    """The stated deviation of the mean P beside that over many users with the same truth."""
    truths = np.random.default_rng(1).normal(0, 1, (150, 4)) * SPREAD
    off, stated = [], []
    for seed, (slope, *offsets) in enumerate(truths):
        truth = Line(max(1 + slope, 0.1), *offsets)
        ticks = drawn(30, truth, seed)
        line, covariance = fit_line(ticks)
        now, true = (one(ticks.stated, ticks.words) for one in (line, truth))
        off.append((now - true).mean())
        stated.append(module.known_to(ticks, line, covariance))
    assert np.std(off) == pytest.approx(np.mean(stated), rel=0.2)


def test_more_ticks_are_asked_for_until_p_is_known_well():
    few, many = (adjustment(drawn(count, Line())) for count in (10, 2000))
    assert few.known_to > module.KNOWN_WELL > many.known_to and many.more == 0
    # as many as are asked for are about enough
    then = adjustment(drawn(10 + few.more, Line()))
    assert then.known_to == pytest.approx(module.KNOWN_WELL, rel=0.25)


def test_no_ticks_are_asked_for_to_make_points_what_they_are_already():
    """± 5 points that more ticks would make ± 5 is no sentence."""
    known = module.KNOWN_WELL
    assert module._more(3, 0.2, known + 0.004) == 0 < module._more(3, 0.2, known + 0.006)


def told(**changes) -> Adjustment:
    return replace(Adjustment(14, 11, Line(), 0.2, 0.15, 0.74, 0.08, 23), **changes)


def test_an_adjustment_in_words():
    assert told().in_words() == (
        "Of your 14 ticks, 11 agree with what was stated; P is now lower by about a quarter. "
        "It is known to about ± 8 points here; about 30 more ticks would make that ± 5. On "
        "ticks that were kept back it is better (mean squared error 0.200 before, 0.150 after)."
    )
    assert told(more=0, known_to=0.04).outlook() == (
        "It is known to about ± 4 points here; more ticks would change little."
    )
    assert told(after=0.2).tried() == (
        "On ticks that were kept back it is no better yet (mean squared error 0.200 before, "
        "0.200 after)."
    )


@pytest.mark.parametrize(
    ("changes", "agree", "moved"),
    [
        ({"change": 1.04}, "Of your 14 ticks, 11 agree", "about as it was"),
        ({"ticks": 1, "agree": 1, "change": 1.1}, "Your tick agrees",
         "higher by about a tenth"),
        ({"ticks": 1, "agree": 0, "change": 0.52}, "Your tick does not agree",
         "lower by about a half"),
        ({"ticks": 3, "agree": 0, "change": 2.9}, "Of your 3 ticks, none agrees",
         "3 times as high"),
        ({"ticks": 3, "agree": 1, "change": 0.01}, "Of your 3 ticks, 1 agrees",
         "lower by about nine tenths"),
    ],
)  # fmt: skip
def test_what_changed_in_words(changes, agree, moved):
    assert told(**changes).changed() == f"{agree} with what was stated; P is now {moved}."


# --- the policy -----------------------------------------------------------------------------


class Shipped(ColourEncoder):
    """A model that brings a policy."""

    def __init__(self, home: Path):
        super().__init__(slips=SLIPS)
        self.home = home


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A model with its policy, pictures and an index of them that nobody has calibrated."""
    home = tmp_path_factory.mktemp("ticks")
    save_pictures(home / "pictures", PICTURES)
    index_folders([home / "pictures"], index=home / "index", encoder=Shipped(home))
    write_csv(home / "pairs.csv", known_pairs())
    return home


def opened(place: Path, index: Path) -> Retriever:
    encoder = Shipped(place)
    return Retriever(Library.open(index, encoder), encoder)


@pytest.fixture(scope="module")
def asking(place) -> CalibrationQueries:
    retriever = opened(place, place / "index")
    known = read_known(retriever.library, place / "pairs.csv")
    return scored(retriever.library, retriever.encoder, known)


@pytest.fixture(scope="module")
def policy(place, asking) -> Policy:
    model = Shipped(place).fingerprint
    made = fit_search_policy([asking], model=model, sizes=(100,))
    made.save(place / "trust-text.json")
    return made


def judged(policy: Policy, asking: CalibrationQueries) -> Judgements:
    summary, _ = summarise(asking.scored.asked())
    return policy.judge(summary, asking.words, common=asking.common, shown=32)


@pytest.mark.parametrize("offset", [-1.5, 1.5])
def test_every_number_moves_as_the_hits_do(policy, asking, offset):
    """Hits, one of the first k, and anything: all one way, and in agreement."""
    before = judged(policy, asking)
    after = judged(replace(policy, line=Line(1.0, offset)), asking)
    assert before.one_of_first is not None and after.one_of_first is not None
    way = np.sign(offset)
    np.testing.assert_array_equal(after.order, before.order)
    np.testing.assert_allclose(
        after.probability, expit(logit(before.probability) + offset), rtol=1e-9
    )
    assert (way * (after.present - before.present) > 0).mean() > 0.99
    assert (way * (after.one_of_first - before.one_of_first) > -1e-9).all()
    assert (after.probability <= after.present[:, None] + 1e-9).all()
    assert (after.present <= after.probability[:, :10].sum(1) + 1e-9).all()
    assert (np.diff(after.one_of_first, axis=1) >= -1e-9).all()
    np.testing.assert_allclose(after.one_of_first[:, -1], after.present, atol=2e-6)
    answers, refusals = (
        [sum(verdict == word for verdict in one.verdicts) for one in (before, after)]
        for word in ("answer", "nothing found")
    )
    assert way * (answers[1] - answers[0]) > 0 and way * (refusals[1] - refusals[0]) < 0


@pytest.mark.parametrize("offset", [-1.5, 1.5])
def test_how_many_fit_moves_by_the_line_once(tail, offset):
    """The tail reads the last hit: a line on both would move what is behind twice."""
    hits, behind, true, words = world(200, seed=3)
    found = number(hits, behind, tail, 1.0, words, Line(1.0, offset))
    exact = expit(logit(hits) + offset).sum(1) + expit(logit(true) + offset).sum(1)
    assert found.expected.mean() == pytest.approx(exact.mean(), rel=0.05)


def test_a_line_is_kept_in_the_file(policy, tmp_path):
    replace(policy, line=Line(1.1, -0.4, 0.1, -0.2)).save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json").line == Line(1.1, -0.4, 0.1, -0.2)
    policy.save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json").line is None


# --- an index -------------------------------------------------------------------------------


def tick(retriever: Retriever, numbers: range, good: bool | None) -> int:
    """Judge the first three hits of some queries; None: as the colours of the pictures are."""
    count = 0
    for place in numbers:
        main, under = colours_of(place)
        found = retriever.search(asked_for(place), k=3)
        for hit in (*found.hits, *found.near_misses):
            name = hit.path.rpartition("/")[2]
            here = int(name[-7:-4])
            fits = name.startswith(main) and colours_of(here)[1] == under
            retriever.feedback(found.query, hit.id, fits if good is None else good)
            count += 1
    return count


@pytest.mark.parametrize("good", [True, False])
def test_ticks_change_what_searches_say(place, policy, tmp_path, good):
    shutil.copytree(place / "index", tmp_path / "index")
    retriever = opened(place, tmp_path / "index")
    before = retriever.search("a green thing over blue", k=10)
    count = tick(retriever, range(10), good)
    found = calibrate(retriever)
    assert found.ticks is not None and found.ticks.ticks == count == 30
    after = retriever.search("a green thing over blue", k=10)
    hits = [one.hits or one.near_misses for one in (before, after)]
    moved = np.array([[hit.p_relevant for hit in some] for some in hits])
    way = 1 if good else -1
    assert (way * np.diff(moved, axis=0) > 0).all()
    assert way * (after.how_many.expected - before.how_many.expected) > 0
    assert way * (found.ticks.change - 1) > 0
    assert retriever.policy("text", own=False).line is None  # the model's own is untouched
    again = calibrate(retriever)
    assert again.ticks == found.ticks  # not adjusted twice


def test_ticks_that_are_taken_back_leave_the_policy_as_it_was(place, policy, tmp_path):
    shutil.copytree(place / "index", tmp_path / "index")
    retriever = opened(place, tmp_path / "index")
    tick(retriever, range(2), None)
    assert module.adjusted(retriever, retriever.policy("text", own=False)) is not None
    for said in retriever.library.feedback():
        retriever.feedback(said.query, said.item_id, None)
    assert module.adjusted(retriever, retriever.policy("text", own=False)) is None


def test_what_ticks_adjusted_stays_where_the_model_has_lost_its_policy(place, policy, tmp_path):
    shutil.copytree(place / "index", tmp_path / "index")
    policy.save(tmp_path / "trust-text.json")
    retriever = opened(tmp_path, tmp_path / "index")
    tick(retriever, range(2), None)
    assert use_ticks(retriever) is not None
    kept = (retriever.model_folder / "trust-text.json").read_bytes()
    for said in retriever.library.feedback():
        retriever.feedback(said.query, said.item_id, None)
    (tmp_path / "trust-text.json").unlink()
    assert use_ticks(retriever) is None
    assert (retriever.model_folder / "trust-text.json").read_bytes() == kept


def test_a_fit_of_its_own_is_left_to_the_command(place, policy, tmp_path):
    shutil.copytree(place / "index", tmp_path / "index")
    retriever = opened(place, tmp_path / "index")
    policy.save(retriever.model_folder / "trust-text.json")
    tick(retriever, range(3), good=False)
    assert use_ticks(retriever) is None
    assert retriever.policy("text").line is None


# --- the server -----------------------------------------------------------------------------


@pytest.fixture
def served(place, policy, tmp_path) -> Retriever:
    shutil.copytree(place / "index", tmp_path / "index")
    return opened(place, tmp_path / "index")


def test_the_server_learns_from_ticks_and_forgets_them(served):
    app = create_app(served, limits=PATIENT)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        nothing = client.post("/api/ticks").json()
        assert nothing["used"] is False and nothing["change"] is None
        assert nothing["says"] == "No ticks of text searches here that trust could learn from."
        assert not (served.model_folder / "trust-text.json").exists()

        def search() -> dict:
            return client.get("/api/search", params={"text": asked_for(10), "k": 5}).json()

        before = search()
        shown = before["hits"] or before["near_misses"]
        for hit in shown:
            told = {"query": before["query"], "item_id": hit["id"], "good": False}
            assert client.post("/api/feedback", json=told).status_code == 200
        used = client.post("/api/ticks").json()
        assert used["used"] and used["ticks"] == len(shown) and 0 < used["change"] < 1
        assert used["says"].startswith(f"Of your {len(shown)} ticks, ")
        assert "P is now lower by about" in used["says"]
        assert "more ticks would make that ± 5" in used["outlook"] and used["more"] > 0
        after = search()
        stated = {hit["id"]: hit["p_relevant"] for hit in shown}
        for hit in after["hits"] or after["near_misses"]:
            assert hit["id"] not in stated or hit["p_relevant"] < stated[hit["id"]]
        assert "adjusted by ticks" in client.get("/api/calibration").json()["why"]
        for hit in shown:
            told = {"query": before["query"], "item_id": hit["id"], "good": None}
            client.post("/api/feedback", json=told)
        assert client.post("/api/ticks").json()["used"] is False
        again = search()
        assert [hit["p_relevant"] for hit in again["hits"] or again["near_misses"]] == (
            pytest.approx(list(stated.values()))
        )


def test_the_server_leaves_a_fit_of_its_own_alone(served, policy):
    policy.save(served.model_folder / "trust-text.json")
    served.feedback(asked_for(3), int(served.library.find()[0]), False)
    with TestClient(create_app(served, limits=PATIENT), base_url="http://127.0.0.1") as client:
        told = client.post("/api/ticks").json()
    assert told["used"] is False and told["says"] == (
        "Trust was fitted to this index. Ticks are kept, and the next `avow calibrate` learns "
        "from them."
    )


@pytest.mark.browser
def test_the_page_tells_what_a_tick_changed(served, visit):
    with Server(create_app(served, limits=PATIENT)) as address:
        seen = visit(f"{address}/?q={quote_plus(asked_for(10))}")
        page = seen.page
        page.wait_for_selector("#shown .grid .trust b")
        before = page.locator("#shown > .grid .trust b").first.inner_text()
        page.locator("#shown > .grid .fits button[data-says=no]").first.click()
        page.wait_for_selector("#ticks:has-text('Your tick does not agree')")
        line = page.inner_text("#ticks")
        assert "P is now lower by about" in line and "more ticks would make that" in line
        progress = page.locator("#ticks progress")
        assert progress.get_attribute("value") == "1"
        assert progress.get_attribute("aria-label").startswith("1 of about ")
        page.click("#ticks button")
        page.wait_for_function(
            """(old) => { const now = document.querySelector("#shown > .grid .trust b");
            return now && now.textContent !== old }""",
            arg=before,
        )
        after = page.locator("#shown > .grid .trust b").first.inner_text()
        assert int(after.split()[0]) < int(before.split()[0])
        assert page.inner_text("#ticks") == "" and seen.complaints == []
        said = page.locator("#shown .fits [aria-pressed=true]").all()
        assert [one.get_attribute("data-says") for one in said] == ["no"]  # as it was told


def test_names_are_taught_to_a_fit_by_what_the_model_says_of_them(place, policy):
    """Pairs are captions: of "a red wall" they say nothing."""
    kinds = module_of_fits._short_as_before(opened(place, place / "index"), policy)
    assert len(kinds) == 2 and all((kind.words <= SHORT).all() for kind in kinds)
    fits = np.concatenate([whole_probabilities(policy, kind)[0] for kind in kinds])
    drawn = np.concatenate([kind.scored.match for kind in kinds])
    assert drawn.sum() == pytest.approx(fits.sum(), rel=0.5)  # those of a query hang together
    assert fits[drawn].mean() > 5 * fits[~drawn].mean()


def test_a_fit_that_is_worse_than_the_models_trust_changes_nothing(place, policy, tmp_path):
    """Eighty captions, each with its right pictures: the model's policy learnt from all."""
    shutil.copytree(place / "index", tmp_path / "index")
    retriever = opened(place, tmp_path / "index")
    before = retriever.search(asked_for(3), k=5).to_dict()["hits"]
    few = write_csv(tmp_path / "pairs.csv", known_pairs()[: 2 * FEWEST])
    found = calibrate(retriever, few)
    assert found.before is not None and found.after is not None
    assert found.after.brier > found.before.brier
    assert not found.used and not found.path.is_file()
    assert retriever.search(asked_for(3), k=5).to_dict()["hits"] == before
    forced = calibrate(retriever, few, force=True)
    assert forced.used and forced.path.is_file() and forced.after == found.after
    assert retriever.search(asked_for(3), k=5).to_dict()["hits"] != before
    # what there is now has seen these queries, and is no measure of what may replace it
    assert calibrate(retriever, few).before == found.before
