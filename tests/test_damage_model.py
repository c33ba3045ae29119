"""Damage in a run, its trust, its bank or its features is told, or changes no number."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from avow.assembly.integrity import verify
from avow.assembly.model import Model, packaged_folder
from avow.core import seals
from avow.core.errors import AvowError, WrongCheckpoint, WrongTrust
from avow.core.files import save_array
from avow.retrieval.encoders import bank
from avow.training.trained_pairs import _noted
from avow.trust.policy import Policy
from benchmarks.torture import _model_damage as damage_model


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    damage_model.write_run(run)
    return run


@pytest.fixture
def run(written, tmp_path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name",
    [
        "best-00001/avow.json",
        "best-00001/bank.json",
        "best-00001/bank.safetensors",
        "best-00001/trust-text.json",
        "best-00001/vocabulary.json",
        "best-00001/weights.json",
        "best-00001/weights-00001.safetensors",
        "best-00001/checksums.json",
        "last-00001-000000/training.pt",
        "features/boxes.npy",
        "features/manifest.json",
        "features/train-00001.npy",
        "features/train-ids.json",
    ],
)
def test_a_flipped_bit_is_told_by_whoever_reads_it_and_by_verify(run, name):
    assert damage_model.verify_all(run) == []
    flip(run / name)
    with pytest.raises(AvowError):
        damage_model.answers(run)
    assert any(Path(name).name in sentence for sentence in damage_model.verify_all(run))


def test_the_sentence_and_its_advice(run):
    path = run / "best-00001" / "avow.json"
    path.write_text(path.read_text().replace('"tau": 0.1', '"tau": 0.2'))
    with pytest.raises(WrongCheckpoint) as caught:
        Model.from_pretrained(run)
    entry = seals.read_list(path.parent)["avow.json"]
    now = seals.checksums.of_file(path)
    assert str(caught.value) == (
        f"The file {str(path)!r} is damaged (its checksum is {now}, and was {entry['crc32']} "
        "when it was written). Expected the content that was saved; copy the folder again, or "
        "make it anew. If you changed it on purpose, delete 'checksums.json' beside it."
    )
    (path.parent / "checksums.json").unlink()
    assert Model.from_pretrained(run).evidence_settings["tau"] == 0.2


def test_a_model_without_checksums_opens_as_ever(run):
    before = damage_model.answers(run)
    for path in run.rglob("checksums.json"):
        path.unlink()
    assert damage_model.answers(run) == before
    assert damage_model.verify_all(run) == []


@pytest.mark.parametrize("name", ["bank.json", "vocabulary.json", "avow.json"])
def test_a_file_that_is_gone_is_told(run, name):
    home = run / "best-00001"
    (home / name).unlink()
    with pytest.raises(WrongCheckpoint):
        Model.from_pretrained(home)


def test_a_trust_that_was_fitted_anew_replaces_a_listed_one(run):
    home = run / "best-00001"
    seals.write_list(home)
    path = home / "trust-text.json"
    policy = Policy.load(path)
    replace(policy, refuse=(0.5, 0.0, 0.0, 0.0)).save(path)
    assert Policy.load(path).refuse == (0.5, 0.0, 0.0, 0.0)
    Model.from_pretrained(home)
    assert verify(home) == []


def test_a_changed_number_in_a_trust_file_is_told(run):
    path = run / "best-00001" / "trust-text.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "refuse": [0.5, 0.0, 0.0, 0.0]}))
    with pytest.raises(WrongTrust) as caught:
        Policy.load(path)
    assert str(caught.value) == (
        f"The policy {str(path)!r} cannot be read (its checksum does not fit its content). "
        "Expected a file written by `Policy.save`; calibrate again with `avow calibrate`."
    )


@pytest.mark.parametrize("kind", ["best", "last"])
@pytest.mark.parametrize("name", ["../elsewhere", "best", "", "\udcff"])
def test_a_pointer_to_somewhere_else_is_refused(run, kind, name):
    (run / kind).write_bytes(name.encode("utf-8", "surrogateescape"))
    with pytest.raises(WrongCheckpoint, match="names"):
        damage_model.answers(run)


def test_a_damaged_note_of_the_pairs_is_told_once_something_was_learnt(tmp_path):
    save_array(tmp_path / "learnt.npy", np.arange(9, dtype=np.uint64))
    seals.write_list(tmp_path, ["learnt.npy"])
    assert np.array_equal(_noted(tmp_path), np.arange(9))
    flip(tmp_path / "learnt.npy")
    assert _noted(tmp_path) is None
    (tmp_path / "last").write_text("last-00001")
    with pytest.raises(WrongCheckpoint, match="of the pairs that were learnt from is damaged"):
        _noted(tmp_path)


def test_verify_knows_what_is_no_folder_of_avow(tmp_path):
    assert verify(tmp_path) == [
        f"There is no model, run, audit or features in {str(tmp_path)!r}. Expected a folder "
        "that `avow train`, `avow audit`, `avow features` or `save_pretrained` wrote; check "
        "the path."
    ]


def test_the_shipped_model_is_intact_and_all_of_it_is_listed(tmp_path):
    home = packaged_folder()
    assert verify(home) == []
    data = {path.name for path in home.iterdir() if path.suffix in (".json", ".safetensors")}
    assert set(seals.read_list(home)) == data - {seals.LIST}


@pytest.mark.parametrize("name", ["trust-text.json", "trust-image.json", "bank.json"])
def test_damage_in_what_the_shipped_model_brings_is_told(tmp_path, name):
    """A digit is changed, so that it stays JSON of the same form."""
    home = packaged_folder()
    for file in (name, seals.LIST):
        shutil.copy(home / file, tmp_path / file)
    text = (tmp_path / name).read_text("utf-8")
    place = next(i for i in range(len(text) // 2, len(text)) if text[i].isalnum())
    other = "1" if text[place] != "1" else "2"
    (tmp_path / name).write_text(text[:place] + other + text[place + 1 :], "utf-8")
    with pytest.raises(AvowError, match=r"its checksum (is|does not fit)"):
        bank.texts(tmp_path) if name == "bank.json" else Policy.load(tmp_path / name)


def test_a_kept_bank_that_is_damaged_is_encoded_again(tmp_path, monkeypatch):
    monkeypatch.setenv("AVOW_HOME", str(tmp_path))
    seals.write_document(tmp_path / "bank.json", {"texts": ["a", "b"]})
    encoder = damage_model.encoder(tmp_path)
    first = bank.encoded(encoder)
    (kept,) = (tmp_path / "banks").iterdir()
    flip(kept)
    np.testing.assert_array_equal(bank.encoded(encoder), first)
    np.savez(kept, vectors=first[:1])
    np.testing.assert_array_equal(bank.encoded(encoder), first)


def test_a_document_is_intact_by_the_list_or_by_its_own_checksum(tmp_path):
    """The list is read first, for it is quicker; a document written since has its own word."""
    path = tmp_path / "policy.json"
    seals.write_document(path, {"numbers": [1, 2, 3]})
    seals.write_list(tmp_path, [path.name])
    assert seals.read_document(path) == {"numbers": [1, 2, 3]}
    seals.write_document(path, {"numbers": [4]})  # written anew, the list is of before
    assert seals.read_document(path) == {"numbers": [4]}
    path.write_text(path.read_text().replace("[4]", "[5]"))
    with pytest.raises(seals.Damaged, match="its checksum does not fit"):
        seals.read_document(path)
