"""Compact vectors: what is kept of them, how they are searched, and what an index tells."""

import json

import numpy as np
import pytest
from encoders import COLOURS, ColourEncoder, picture

from avow.core import byte_products as products
from avow.core.errors import BadData, WrongIndex
from avow.core.vector_forms import CutBytes, Plain, TurnedBytes, fit_projection, rounded_queries
from avow.indexes.exact import Exact
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.retrieval.store.int8_rows import Int8Rows

RNG = np.random.default_rng(5)


def unit(rows: int, dim: int) -> np.ndarray:
    vectors = RNG.standard_normal((rows, dim), dtype=np.float32)
    vectors[:, 0] += 3  # real vectors share a direction
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_bytes_come_back_within_half_a_step_and_the_same_bytes_again():
    vectors, form = unit(50, 96), TurnedBytes(96)
    rows = form.encode(vectors)
    assert rows.dtype == np.int8 and rows.shape == (50, 96)
    back = form.decode(rows)
    assert np.linalg.norm(back - vectors, axis=1).max() < form.step / 2 * 96**0.5
    assert (form.encode(back) == rows).all()


def test_the_steps_of_bytes_are_those_of_the_indexes_there_are():
    """A row is read with the step it was written with, which no index notes."""
    for width, form in (
        (64, TurnedBytes(64)),
        (16, CutBytes(np.eye(16, 64, dtype=np.float32))),
    ):
        assert form.step == 6 / (127 * width**0.5)
    widest = CutBytes(np.eye(4, dtype=np.float32)).encode(np.array([[1, 2.9, 3.1, -9]], "f4"))
    assert widest.tolist() == [[42, 123, 127, -127]]


def test_numbers_stay_as_they_are_unless_half_is_asked_for():
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    assert Plain(3).name == "float32" and (Plain(3).encode(vectors) == vectors).all()
    assert Plain(3, half=True).encode(vectors).dtype == np.float16


def test_a_turned_query_scores_a_row_as_the_vector_that_comes_back():
    vectors, queries, form = unit(40, 60), unit(7, 60), TurnedBytes(60)
    rows = form.encode(vectors)
    scores = form.turn(queries) @ rows.T.astype(np.float32) * form.step
    np.testing.assert_allclose(scores, queries @ form.decode(rows).T, atol=1e-5)


def test_a_projection_keeps_what_queries_have(monkeypatch):
    monkeypatch.setattr("avow.core.vector_forms.KEPT", 8)
    corners = np.linalg.qr(RNG.standard_normal((2, 30, 30)))[0][:, :8]
    queries = np.einsum("nvk,vkd->nvd", RNG.standard_normal((400, 2, 8)), corners)
    queries = (queries / np.linalg.norm(queries, axis=-1, keepdims=True) / 2**0.5).astype("f4")
    form = CutBytes(fit_projection(queries.reshape(400, 60), 2))
    assert form.width == 16
    gram = form.projection @ form.projection.T
    np.testing.assert_allclose(gram, np.eye(16), atol=1e-5)
    items = unit(90, 60)
    kept = form.decode(form.encode(items))
    # all that the items have outside is lost, and no query misses it
    np.testing.assert_allclose(queries.reshape(400, 60) @ (kept - items).T, 0, atol=0.02)
    assert (form.encode(kept) == form.encode(items)).all()


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("queries", "rows"), [(1, 0), (1, 70_001), (3, 70_001), (17, 70_001)])
def test_products_of_bytes_are_those_of_whole_numbers(monkeypatch, fast, queries, rows):
    if fast:
        pytest.importorskip("numkong")
    else:
        monkeypatch.setattr(products, "_numkong", lambda: None)
    assert products.is_fast() == fast
    asked = RNG.integers(-127, 128, (queries, 40), np.int8)
    kept = RNG.integers(-127, 128, (rows, 40), np.int8)
    found = products.byte_products(asked, kept, threads=2)
    assert (found == asked.astype(np.int64) @ kept.T.astype(np.int64)).all()


def test_a_query_is_rounded_in_steps_of_its_own():
    turned = np.array([[0.5, -0.25, 0.0], [0.001, 0.0005, 0.001], [0, 0, 0]], np.float32)
    assert rounded_queries(turned).tolist() == [[127, -64, 0], [127, 64, 127], [0, 0, 0]]


@pytest.mark.parametrize("block", [64, 2**18])
def test_a_search_of_bytes_is_the_exact_search_of_what_is_kept(block):
    vectors, queries, form = unit(3000, 64), unit(5, 64), TurnedBytes(64)
    ids = RNG.permutation(9000)[:3000].astype(np.int64)
    ids[::7] = -1
    rows = form.encode(vectors)
    compact = Int8Rows.over_bytes(ids, rows, 64, form, block=block)
    plain = Exact.over(ids, form.decode(rows))
    among = np.sort(ids[ids >= 0][::2])
    for chosen in (None, among, among[:20]):
        found, scores = compact.search(queries, 10, chosen)
        right, expected = plain.search(queries, 10, chosen)
        assert (found == right).all()
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_the_best_are_compared_again_with_the_query_as_it_is(monkeypatch):
    """Without it, the order would be that of a query in 127 steps."""
    vectors, queries, form = unit(2000, 64), unit(30, 64), TurnedBytes(64)
    rows, ids = form.encode(vectors), np.arange(2000)
    right, _ = Exact.over(ids, form.decode(rows)).search(queries, 5)
    compact = Int8Rows.over_bytes(ids, rows, 64, form)
    assert (compact.search(queries, 5)[0] == right).all()
    monkeypatch.setattr("avow.retrieval.store.int8_rows.RESCORED", 0)
    assert not (compact.search(queries, 5)[0] == right).all()


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for colour in COLOURS:
        picture(colour).save(folder / f"{colour}.png")
    return folder


def run(photos, **options):
    encoder = ColourEncoder(bank=["red", "a blue thing", "green or white"])
    return index_folders([photos], index=photos.parent / "index", encoder=encoder, **options)


@pytest.mark.parametrize(
    ("kept", "width"), [("float32", 128), ("float16", 64), ("int8", 32), ("int8x256", 32)]
)
def test_an_index_keeps_vectors_as_asked_and_remembers(photos, kept, width):
    index = photos.parent / "index"
    run(photos, vectors=kept)
    picture((200, 10, 10)).save(photos / "dark.png")
    assert run(photos).new == 1
    with Library.open(index) as library:
        assert library.manifest["vectors"] == kept
        encoder = ColourEncoder(bank=["red", "a blue thing", "green or white"])
        wanted = encoder.encode_texts(["yellow"])
        ids, scores = library.search(wanted, 3)
        assert library.items(ids[0])[0].path.endswith("yellow.png")
        np.testing.assert_allclose(scores[0], library.vectors(ids[0]) @ wanted[0], atol=1e-5)
        assert abs(scores[0, 0] - 1) < 0.02
    (size,) = [path.stat().st_size for path in index.glob("models/*/vectors.*")]
    assert size == 7 * width
    assert run(photos, rebuild=True).new == 7
    with Library.open(index) as library:
        assert library.manifest["vectors"] == kept


def test_another_form_and_an_unknown_one_are_told(photos):
    run(photos, vectors="int8")
    with pytest.raises(WrongIndex) as told:
        run(photos, vectors="float16")
    assert str(told.value) == (
        f"The index {str(photos.parent / 'index')!r} keeps its vectors as int8. Expected to go "
        "on like that, not float16; to change it, encode everything anew with --rebuild."
    )
    with pytest.raises(BadData) as told:
        run(photos, vectors="int4")
    assert str(told.value) == (
        "The vectors 'int4' are not known. Expected float32, float16, int8, int8x256."
    )
    assert run(photos, vectors="float16", rebuild=True).new == 6


def test_near_duplicates_are_found_among_vectors_that_are_cut(photos):
    picture("red", (80, 60)).save(photos / "red-large.png")
    assert run(photos, vectors="int8x256", dedupe=True).alike == 1


def test_pictures_like_one_are_not_judged_by_vectors_that_are_cut(photos):
    """Two pictures lose more of their similarity than a text and a picture do."""
    run(photos, vectors="int8x256")
    encoder = ColourEncoder(bank=["red", "a blue thing", "green or white"])
    with Library.open(photos.parent / "index", encoder) as library:
        retriever = Retriever(library, encoder)
        (retriever.model_folder / "trust-picture.json").write_text("for whole vectors")
        assert retriever.policy("picture") is None
        assert retriever.similar(int(library.find()[0])).verdict == "unjudged"


def test_a_damaged_projection_is_told_and_made_anew(photos):
    run(photos, vectors="int8x256")
    (path,) = (photos.parent / "index").glob("models/*/projection.npy")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(WrongIndex, match=r"projection.*checksum does not fit.*--rebuild"):
        Library.open(photos.parent / "index")
    assert run(photos, rebuild=True).new == 6
    assert path.read_bytes() == whole
    about = json.loads((path.parent / "manifest.json").read_text())
    assert about["projection_checksum"]
    with Library.open(photos.parent / "index") as library:
        assert library.manifest["vectors"] == "int8x256"


def test_a_rebuild_that_is_stopped_leaves_the_projection_of_what_is_shown(photos):
    """The reference queries are damaged, so that the manifest is written anew."""
    index = photos.parent / "index"
    run(photos, vectors="int8x256")
    (path,) = index.glob("models/*/bank.npy")
    path.write_bytes(b"")
    assert run(photos, rebuild=True, batch=1, stop=lambda: True).stopped
    with Library.open(index) as library:
        assert library.manifest["vectors"] == "int8x256"
        assert np.isfinite(library.vectors(library.find())).all()
