"""The shipped model without torch: the same vectors, from two ONNX files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import opened_once

from avow.core.checksums import of_file
from avow.core.errors import WrongCheckpoint
from avow.core.places import packaged_folder
from avow.core.tokeniser import padded, token_ids
from avow.data.captions import TokenTable
from avow.data.readers.sample import build as open_sample
from avow.data.wordpiece import WordPieces
from avow.retrieval.encoders.onnx import DESCRIPTION, TEXT, VISUAL, OnnxEncoder, _cores
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.encoders.run import ModelEncoder
from avow.retrieval.explain import explain

TEXTS = [
    "a dog",
    "two children in red coats run over the snow",
    "wallaby",
    "",
    "!?",
    "Ünïcödé 日本語",
    "dog " * 600,
]
HOME = Path(__file__).parent.parent
LONG = bool(os.environ.get("AVOW_LONG_TESTS"))


@pytest.fixture(scope="module")
def ours() -> ModelEncoder:
    """The same weights, run by torch."""
    return ModelEncoder.open(packaged_folder(), "default")


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder.open(packaged_folder())


@pytest.fixture(scope="module")
def photographs() -> list[Image.Image]:
    split = open_sample().splits["test"]
    return [Image.open(file).convert("RGB") for file in (split.files or ())[:3]]


def cosines(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(some, axis=1) * np.linalg.norm(others, axis=1)
    return (some * others).sum(1) / norms


def test_it_is_the_default_model(encoder, ours):
    opened = open_encoder()
    assert isinstance(opened, OnnxEncoder)
    same = ("fingerprint", "dim", "views", "tau", "kind", "bank", "grid")
    for name in same:
        assert getattr(opened, name) == getattr(ours, name), name
    packed, wanted = opened.packed_bank(), ours.packed_bank()
    assert packed is not None and wanted is not None
    np.testing.assert_array_equal(packed, wanted)


def test_photographs_get_the_vectors_of_torch(encoder, ours, photographs):
    pixels = np.stack([encoder.prepare(one) for one in photographs])
    np.testing.assert_array_equal(pixels, [ours.prepare(one) for one in photographs])
    vectors = encoder.encode_prepared(pixels)
    assert vectors.dtype == np.float32
    assert cosines(vectors, ours.encode_prepared(pixels)).min() > 0.9999
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_texts_get_the_vectors_of_torch(encoder, ours):
    for texts in (TEXTS[:-1], TEXTS[-1:]):  # the long one apart: all are padded to the longest
        assert cosines(encoder.encode_texts(texts), ours.encode_texts(texts)).min() > 0.9999


@pytest.mark.long
@pytest.mark.data
def test_every_caption_and_photograph_gets_the_vector_of_torch(encoder, ours):
    """A sample of both test sets; `scripts/export_default --check` compares more."""
    files, captions = [], []
    for name in ("flickr8k", "coco"):
        split = opened_once(name).splits["test"]
        files += list(split.files or ())[:: 400 if LONG else 2500]
        captions += list(split.captions)[:: 500 if LONG else 2500]
    pixels = np.stack([encoder.prepare(Image.open(file)) for file in files])
    assert cosines(encoder.encode_prepared(pixels), ours.encode_prepared(pixels)).min() > 0.9999
    assert cosines(encoder.encode_texts(captions), ours.encode_texts(captions)).min() > 0.9999


def test_explanations_are_those_of_torch(encoder, ours, photographs):
    text = "a cat on a sofa"
    one, other = (explain(who, text, photographs[0]) for who in (encoder, ours))
    assert one.similarity == pytest.approx(other.similarity, abs=1e-3)
    np.testing.assert_allclose(one.cells, other.cells, atol=1e-3)
    assert one.cells.shape == (6, 6)
    weights = [[weight for _, weight in found.words] for found in (one, other)]
    assert [weight is None for weight in weights[0]] == [True, False, True, True, False]
    np.testing.assert_allclose(*np.array(weights, float), atol=1e-3)


def test_batches_equal_singles_and_runs_repeat(encoder, photographs):
    several = TEXTS[:-1]
    texts = encoder.encode_texts(several)
    alone = np.concatenate([encoder.encode_texts([text]) for text in several])
    np.testing.assert_allclose(alone, texts, atol=1e-5)
    np.testing.assert_array_equal(encoder.encode_texts(several), texts)
    beside = encoder.encode_texts([TEXTS[0], "dog " * 100])
    np.testing.assert_allclose(beside[0], texts[0], atol=1e-5)
    pixels = np.stack([encoder.prepare(one) for one in photographs[:3]])
    vectors = encoder.encode_prepared(pixels)
    alone = np.concatenate([encoder.encode_prepared(one[None]) for one in pixels])
    np.testing.assert_allclose(alone, vectors, atol=1e-5)
    np.testing.assert_array_equal(encoder.encode_prepared(pixels), vectors)


def test_nothing_gives_no_vectors(encoder):
    assert encoder.encode_texts([]).shape == (0, encoder.dim)
    nothing = np.empty((0, encoder.size, encoder.size, 3), np.uint8)
    assert encoder.encode_prepared(nothing).shape == (0, encoder.dim)


@pytest.mark.parametrize("longest", [512, 12, 1])
def test_texts_are_cut_as_in_training(longest):
    tokeniser = WordPieces.open(packaged_folder())
    ids, present = padded(token_ids(tokeniser, TEXTS, longest))
    table = TokenTable.from_captions(tokeniser, TEXTS, longest)
    np.testing.assert_array_equal(ids, table.ids.numpy())
    np.testing.assert_array_equal(present.sum(1), table.lengths.numpy())


_WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "accelerate", "onnx"}:
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Blocked())
import json
from PIL import Image
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.explain import explain

encoder = open_encoder(threads=1)
picture = Image.new("RGB", (300, 200), "red")
found = explain(encoder, "a red wall", picture)
print(json.dumps([found.similarity, len(encoder.bank), encoder.packed_bank().shape[0]]))
"""


def test_it_runs_where_torch_cannot_be_imported(encoder):
    code = [sys.executable, "-c", _WITHOUT_TORCH]
    settings = os.environ | {"PYTHONPATH": str(HOME)}
    done = subprocess.run(code, capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr
    similarity, queries, rows = json.loads(done.stdout)
    here = explain(encoder, "a red wall", Image.new("RGB", (300, 200), "red"))
    assert similarity == pytest.approx(here.similarity, abs=1e-5)
    assert queries == rows == len(encoder.bank)


@pytest.fixture
def copied(tmp_path) -> Path:
    for path in packaged_folder().iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def test_nothing_is_reported_to_the_maker_of_the_runtime(tmp_path):
    """The runtime writes what it will send into the user's cache, unless it is turned off."""
    code = (
        "from avow.retrieval.encoders.opening import open_encoder\n"
        "open_encoder().encode_texts(['a dog'])"
    )
    quiet = {"CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY"}  # any of them turns it off
    kept = {key: value for key, value in os.environ.items() if key not in quiet}
    here = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | here, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name]


def test_files_may_be_links_to_an_installed_model(tmp_path, encoder):
    for path in packaged_folder().iterdir():
        (tmp_path / path.name).symlink_to(path)
    vectors = OnnxEncoder.open(tmp_path).encode_texts(["a dog"])
    np.testing.assert_allclose(vectors, encoder.encode_texts(["a dog"]), atol=1e-6)


def test_a_network_that_cannot_be_loaded_is_named(copied):
    (copied / TEXT).write_bytes(b"no network")
    about = json.loads((copied / DESCRIPTION).read_text())
    about["files"][TEXT] = of_file(copied / TEXT)
    (copied / DESCRIPTION).write_text(json.dumps(about))
    with pytest.raises(WrongCheckpoint, match=r"text\.onnx' cannot be loaded"):
        OnnxEncoder.open(copied).encode_texts(["a dog"])


@pytest.mark.parametrize("file", [TEXT, "tokenizer.json"])
@pytest.mark.parametrize("state", ["damaged", "missing"])
def test_damaged_and_missing_files_are_named(copied, file, state):
    place = copied / file
    if state == "missing":
        place.unlink()
    else:
        content = bytearray(place.read_bytes())
        content[len(content) // 2] ^= 1
        place.write_bytes(content)
    with pytest.raises(WrongCheckpoint) as caught:
        OnnxEncoder.open(copied).encode_texts(["a dog"])
    assert str(caught.value) == (
        f"The file {str(place)!r} of the model is {state}. Expected the one that came with "
        "Avow; install Avow again."
    )


def test_a_search_by_text_does_not_need_the_network_for_photographs(copied, encoder):
    (copied / VISUAL).unlink()
    vectors = OnnxEncoder.open(copied).encode_texts(["a dog"])
    np.testing.assert_allclose(vectors, encoder.encode_texts(["a dog"]), atol=1e-6)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": 2}', '{"format": 1}'])
def test_a_description_that_cannot_be_read(tmp_path, content):
    (tmp_path / DESCRIPTION).write_text(content)
    with pytest.raises(WrongCheckpoint, match="Expected format 1"):
        OnnxEncoder.open(tmp_path)


def test_it_works_on_the_cores_that_it_may_use(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    told = {}
    for wanted in ("2", "0", "many", ""):
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
        told[wanted] = _cores()
    assert told == {"2": 2, "0": 3, "many": 3, "": 3}
    monkeypatch.delattr(os, "sched_getaffinity")  # as on a Mac
    assert _cores() == 64
