"""Policies for models without labels: another model's probabilities stand for them."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from search_samples import ColourEncoder, save_pictures, save_two_towers
from serving import wait_until
from test_cli import command

import avow
from avow.api import create_app
from avow.core.errors import BadData
from avow.core.logistic import expit
from avow.core.photographs import open_photograph
from avow.core.places import packaged_folder
from avow.data.readers import sample
from avow.retrieval import transfer
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.trust.calibration_queries import CalibrationQueries, drawn_labels, two_halves
from avow.trust.coherence import one_of_first
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import summarise
from avow.trust.transfer import corrected, transferred, whole_probabilities

__all__ = ["command"]  # the fixture
pytestmark = pytest.mark.usefixtures("one_strength")
QUERIES, ITEMS = 400, 150


class World:
    """Queries and items whose probabilities to fit are known, and models that see them dimly.

    A model without noise sees the probabilities themselves; with much noise, nothing.
    """

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        asks, shows = rng.standard_normal((QUERIES, 6)), rng.standard_normal((ITEMS, 6))
        asks /= np.linalg.norm(asks, axis=1, keepdims=True)
        shows /= np.linalg.norm(shows, axis=1, keepdims=True)
        self.closeness = asks @ shows.T
        self.fits = expit(14 * (self.closeness - 0.85))
        self.truth = rng.random(self.fits.shape) < self.fits
        self.words = rng.integers(1, 12, QUERIES)
        self.rng = rng

    def seen(self, noise: float) -> CalibrationQueries:
        dim = self.closeness + noise * self.rng.standard_normal(self.closeness.shape)
        similarity = (0.3 * dim / np.abs(dim).max()).astype(np.float32)[None]
        nothing = np.zeros(self.fits.shape, bool)
        return CalibrationQueries("text", ScoredQueries(similarity, nothing), self.words)

    def hits(self, policy: Policy, seen: CalibrationQueries):
        summary, order = summarise(seen.scored.asked())
        judged = policy.judge(summary, seen.words)
        shown = np.take_along_axis(order, judged.order, 1)
        return judged, np.take_along_axis(self.truth, shown, 1)


@pytest.fixture(scope="module")
def world() -> World:
    return World(0)


@pytest.fixture(scope="module")
def dependence() -> np.ndarray:
    return np.full(QUERIES, 0.5)


@pytest.fixture(scope="module")
def learnt(world, dependence) -> tuple[Policy, CalibrationQueries]:
    seen = world.seen(0.1)
    return transferred(seen, world.fits, dependence, source="default", damping=0.0), seen


def test_labels_are_drawn_as_often_as_they_are_probable():
    rng = np.random.default_rng(1)
    fits, rho = rng.random((3, 25)) ** 3, np.array([0.0, 0.6, 1.7])
    many = np.repeat(fits, 4000, 0)
    drawn = drawn_labels(many, np.repeat(rho, 4000), seed=2).reshape(3, 4000, 25)
    np.testing.assert_allclose(drawn.mean(1), fits, atol=0.03)
    order = np.argsort(-fits, axis=1)
    best = np.take_along_axis(fits, order, 1)
    first = np.take_along_axis(drawn, np.repeat(order[:, None], 4000, 1), 2)
    some = np.logical_or.accumulate(first[..., :10], axis=2).mean(1)
    np.testing.assert_allclose(some, one_of_first(best, rho), atol=0.03)


def test_draws_of_one_query_are_never_on_both_sides():
    fits = np.random.default_rng(0).random((60, 30)) / 10
    drawn = np.concatenate([drawn_labels(fits, np.full(60, 0.5), seed) for seed in range(3)])
    row = np.tile(np.arange(60), 3)
    scored = ScoredQueries(np.zeros((1, 180, 30), np.float32), drawn, same=row)
    one, other = two_halves(CalibrationQueries("text", scored, np.full(180, 5)), 0)
    assert one.scored.same is not None and other.scored.same is not None
    assert not set(one.scored.same) & set(other.scored.same)
    assert len(one.words) + len(other.words) == 180


def test_whole_probabilities_have_the_hits_as_a_search_states_them(learnt):
    policy, seen = learnt
    fits, rho = whole_probabilities(policy, seen)
    summary, order = summarise(seen.scored.asked())
    judged = policy.judge(summary, seen.words)
    shown = np.take_along_axis(order, judged.order, 1)
    np.testing.assert_allclose(np.take_along_axis(fits, shown, 1), judged.probability)
    behind = np.ones(fits.shape, bool)
    np.put_along_axis(behind, order, False, 1)
    last = np.take_along_axis(fits, order, 1).min(1, keepdims=True)
    assert (fits <= last + 1e-12)[behind].all() and (fits > 0).all()
    assert ((rho >= 0) & (rho <= 2)).all()


def test_of_a_gallery_that_is_shown_whole_every_item_is_a_hit(learnt):
    policy, seen = learnt
    scored = ScoredQueries(seen.scored.similarity[..., :20], seen.scored.match[:, :20])
    fits, _ = whole_probabilities(policy, replace(seen, scored=scored))
    summary, order = summarise(scored.asked())
    judged = policy.judge(summary, seen.words, shown=20)
    shown = np.take_along_axis(order, judged.order, 1)
    assert shown.shape == fits.shape
    np.testing.assert_allclose(np.take_along_axis(fits, shown, 1), judged.probability)


def test_transferred_probabilities_come_true(world, learnt):
    """No label was read, and the stated probabilities are those of the truth."""
    policy, seen = learnt
    judged, right = world.hits(policy, seen)
    stated = judged.probability
    assert right.mean() > 0.15
    for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1)):
        inside = (stated >= low) & (stated < high)
        if inside.sum() > 50:
            assert abs(stated[inside].mean() - right[inside].mean()) < 0.1, (low, high)
    assert abs(stated.mean() - right.mean()) < 0.05


def test_a_stranger_without_skill_is_not_trusted(world, dependence, learnt):
    """Its hits are stated to fit no more often than any item does."""
    seen = world.seen(100.0)
    policy = transferred(seen, world.fits, dependence)
    judged, right = world.hits(policy, seen)
    skilled, _ = world.hits(*learnt)
    assert judged.probability.mean() < 0.5 * skilled.probability.mean()
    assert abs(judged.probability.mean() - right.mean()) < 0.05


def test_own_scores_move_the_labels_as_far_as_damping_lets_them():
    teacher, own = np.array([[0.3, 0.3, 0.9]]), np.array([[0.6, 0.01, 0.2]])
    np.testing.assert_allclose(corrected(teacher, own, 0.0), teacher, atol=1e-9)
    some, full = corrected(teacher, own, 0.2), corrected(teacher, own, 1.0)
    assert 0.3 < some[0, 0] < full[0, 0] and full[0, 1] < some[0, 1] < 0.3
    prior = own.mean()
    odds = (0.3 / 0.7) * (0.6 / 0.4) * ((1 - prior) / prior)
    assert full[0, 0] == pytest.approx(odds / (1 + odds))


def test_the_file_says_where_it_comes_from(learnt, tmp_path):
    policy, _ = learnt
    policy.save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json").conditions.transferred == "default"
    content = json.loads((tmp_path / "policy.json").read_text())
    assert content["conditions"]["transferred"] == "default"


def test_a_matrix_of_a_user_is_fitted_with_probabilities(world):
    seen = world.seen(0.02)
    policy = avow.fit_policy(seen.scored.similarity[0], world.fits, risk=0.4)
    judged = policy.judge(seen.scored.similarity[0])
    assert judged.candidates is not None
    right = np.take_along_axis(world.truth, judged.candidates, 1)
    assert (policy.event, policy.conditions.transferred) == ("relevant", "given probabilities")
    assert abs(judged.probability.mean() - right.mean()) < 0.05


@pytest.mark.parametrize("wrong", [np.full((3, 4), 1.5), np.full((3, 5), 0.5)])
def test_probabilities_are_checked(wrong):
    with pytest.raises(BadData) as refused:
        avow.fit_policy(np.zeros((3, 4)), wrong)
    assert str(refused.value) == (
        f"The probabilities have shape {wrong.shape} and go from {wrong.min():.3g} to "
        f"{wrong.max():.3g}. Expected shape (3, 4) and numbers from 0 to 1: that each "
        "candidate fits each query."
    )


# --- an index made with a model of the hub ---------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """52 pieces of real photographs, and a small CLIP saved as the hub has it."""
    place = tmp_path_factory.mktemp("stranger")
    (place / "pictures").mkdir()
    photographs = [*(sample.build().splits["train"].files or ())]
    for number in range(52):
        file = photographs[number % len(photographs)]
        _piece(open_photograph(file), number).save(place / "pictures" / f"{number:02}.jpg")
    save_two_towers("clip", place / "clip")
    return place


def _piece(photograph: Image.Image, number: int) -> Image.Image:
    """The photograph, or a corner of it."""
    whole = photograph.convert("RGB")
    whole.thumbnail((320, 320))
    left, top = (number // 18) % 2 * whole.width // 4, (number // 36) % 2 * whole.height // 4
    return whole.crop((left, top, left + whole.width * 3 // 4, top + whole.height * 3 // 4))


@pytest.fixture(scope="module")
def encoded_once() -> Iterator[None]:
    """What the default model sees in a picture is computed once, wherever its copies lie.

    And a policy is fitted once for the same scores.
    """
    kept: dict[str, np.ndarray] = {}
    policies: dict[bytes, Policy] = {}
    encode, fit = transfer._encoded, transfer.transferred

    def remembered(teacher, library, ids, progress):
        if isinstance(teacher, ColourEncoder):  # another one
            return encode(teacher, library, ids, progress)
        content = {int(item.id): item.content for item in library.items(ids)}
        new = np.array([one for one in ids if content[int(one)] not in kept], np.int64)
        if len(new):
            read, vectors = encode(teacher, library, new, progress)
            kept.update(zip((content[int(one)] for one in read), vectors, strict=True))
        return ids, np.stack([kept[content[int(one)]] for one in ids])

    def fitted(stranger, fits, rho, **about):
        key = b"".join([stranger.scored.similarity.tobytes(), fits.tobytes(), rho.tobytes()])
        if key not in policies:
            policies[key] = fit(stranger, fits, rho, **about)
        return policies[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "_encoded", remembered)
        patch.setattr(transfer, "transferred", fitted)
        yield


@pytest.fixture(scope="module")
def index(made, encoded_once) -> Path:
    report = avow.index([made / "pictures"], made / "index", model=str(made / "clip"))
    assert report.trust == (
        "Trust was transferred from the default model, on 52 of 52 pictures; `avow calibrate` "
        "makes it this index's own."
    )
    return made / "index"


def _policy_file(index: Path) -> Path:
    (found,) = index.glob(f"models/*/{transfer.FILE}")
    return found


@pytest.mark.slow
def test_an_index_of_a_stranger_is_judged(command, index):
    found = avow.open(index).search("a cat")
    assert found.verdict in ("answer", "check", "nothing_found") and found.trust is not None
    assert "Trust is transferred from the default model." in found.why
    hits = found.hits or found.near_misses
    assert all(hit.p_relevant is not None for hit in hits)
    _, shown, _ = command("calibrate", "--show", "--index", index)
    assert re.search(r"by transfer from the default model, for galleries of \d+ to 52", shown)


@pytest.mark.slow
def test_a_random_model_is_not_believed(index):
    """The small CLIP has learnt nothing, and what it finds is said to fit by chance only."""
    retriever = avow.open(index)
    for text in ("a cat", "a rocket stands on its launch pad", "two dogs on a beach"):
        found = retriever.search(text)
        best = max(hit.p_relevant or 0 for hit in found.hits or found.near_misses)
        assert best < 0.35, (text, best)


@pytest.mark.slow
def test_a_transfer_is_done_once_and_mended(command, index, made):
    path = _policy_file(index)
    before = path.stat().st_mtime_ns
    again = ("index", made / "pictures", "--index", index, "--model", made / "clip")
    _, told, _ = command(*again)
    assert "52 unchanged" in told and "ransferred" not in told
    assert path.stat().st_mtime_ns == before
    path.write_text("damaged")
    assert avow.open(index).search("a cat").verdict == "unjudged"
    _, told, _ = command(*again)
    assert "Trust was transferred from the default model, on 52 of 52 pictures" in told
    assert avow.open(index).search("a cat").verdict != "unjudged"


@pytest.mark.slow
def test_a_policy_of_the_user_stands_before_it(index, made, tmp_path):
    shutil.copytree(index, tmp_path / "index")
    own = _policy_file(tmp_path / "index").with_name(transfer.OWN)
    shutil.copy(_policy_file(tmp_path / "index"), own)
    _policy_file(tmp_path / "index").unlink()
    content = own.read_bytes()
    encoder = open_encoder(str(made / "clip"))
    with Library.open(tmp_path / "index", encoder) as library:
        assert not transfer.wants_trust(library, None)
        assert transfer.transfer_trust(library, encoder) == ""
        assert own.read_bytes() == content
        assert not list((tmp_path / "index").glob(f"models/*/{transfer.FILE}"))
        policy = Retriever(library, encoder).policy("text")
    assert policy is not None


@pytest.mark.slow
def test_few_pictures_stay_unjudged(made, tmp_path):
    (tmp_path / "few").mkdir()
    for path in sorted((made / "pictures").iterdir())[:3]:
        shutil.copy(path, tmp_path / "few")
    place = tmp_path / "index"
    report = avow.index([tmp_path / "few"], place, model=str(made / "clip"))
    assert report.trust == (
        "Searches with this model stay unjudged: the index has 3 pictures, and trust is "
        "transferred from the default model with 50 or more."
    )
    assert avow.open(place).search("a cat").verdict == "unjudged"


class Teacher(ColourEncoder):
    """A model that may teach: the default one's policy lies beside it."""

    bank = ("a red thing",)
    home = packaged_folder()


@pytest.mark.parametrize(
    ("count", "gone", "teacher", "told"),
    [
        (3, 0, Teacher, "the index has 3 pictures, and trust is transferred from the default"),
        (51, 0, ColourEncoder, "The model 'colours' cannot teach: it has no 'trust-text.json'"),
        (51, 2, Teacher, "Only 49 of its pictures can still be read. Expected 50 or more"),
        (51, 51, Teacher, "Only 0 of its pictures can still be read. Expected 50 or more"),
    ],
)
def test_what_cannot_be_transferred_is_told(tmp_path, count, gone, teacher, told):
    paths, encoder = save_pictures(tmp_path / "pictures", count), ColourEncoder()
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=encoder)
    for path in paths[:gone]:
        path.unlink()
    with Library.open(tmp_path / "index", encoder) as library:
        says = transfer.transfer_trust(library, encoder, teacher=teacher())
        assert says.startswith("Searches with this model stay unjudged") and told in says
        assert not (transfer.place_of(library) / transfer.FILE).exists()


@pytest.mark.slow
def test_none_is_transferred_where_none_is_wanted(command, made, tmp_path):
    words = ("index", made / "pictures", "--index", tmp_path / "index")
    _, told, _ = command(*words, "--model", made / "clip", "--transfer", 0)
    assert "ransferred" not in told
    assert avow.open(tmp_path / "index").search("a cat").verdict == "unjudged"


@pytest.mark.long
def test_a_server_that_finds_enough_pictures_judges_from_then_on(made, encoded_once, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for path in sorted((made / "pictures").iterdir())[:3]:
        shutil.copy(path, pictures)
    avow.index([pictures], tmp_path / "index", model=str(made / "clip"))
    app = create_app(Retriever.open(tmp_path / "index"))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        asked = {"params": {"text": "a cat"}}
        assert client.get("/api/search", **asked).json()["verdict"] == "unjudged"
        shutil.copytree(made / "pictures", pictures, dirs_exist_ok=True)
        number = client.post("/api/jobs", json={}).json()["id"]
        wait_until(lambda: client.get(f"/api/jobs/{number}").json()["state"] == "done", 600)
        says = client.get(f"/api/jobs/{number}").json()["says"]
        assert (
            says.startswith(f"{len(list(pictures.iterdir())) - 3} new")
            and "Trust was transferred" in says
        )
        assert client.get("/api/search", **asked).json()["verdict"] != "unjudged"
