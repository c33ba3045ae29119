"""Runs, features and audits that version 0.1 wrote are opened and used by this one.

`fixtures/version-0.1` was written by that version: `avow train` on what `write_precomp` writes
("animals"), and `avow features` and `avow audit` on sixteen pictures of `save_pictures`
(`pairs.csv`). `recorded.json` holds what its model said. Policies have tests of their own
(test_policy_files.py), an index too (test_damage.py).
"""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import ANIMALS, write_precomp
from search_samples import save_pictures
from typer.testing import CliRunner

import avow
from avow.audit.files import COLUMNS
from avow.cli import app
from avow.data.features import FeatureStore
from avow.data.opening import open_dataset

EARLIER = Path(__file__).parent / "fixtures" / "version-0.1"
RECORDED = json.loads((EARLIER / "recorded.json").read_text())
PICTURES = ANIMALS.replace('"animals"', '"pairs.csv"').replace("batch = 24", "batch = 12")
PICTURES += """
[features]
backbone = "efficientnet_lite0"
size = 64
grid = 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder of its own with a copy of everything that version wrote."""
    shutil.copytree(EARLIER, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_gives_the_same_numbers():
    model = avow.Model.from_pretrained(EARLIER / "run")
    values = np.linspace(-1, 1, 3 * 2 * 12, dtype=np.float32).reshape(3, 2, 12)
    features, texts = torch.from_numpy(values), RECORDED["texts"]
    similarity = model.similarity(features, texts)
    torch.testing.assert_close(
        similarity, torch.tensor(RECORDED["similarity"]), atol=2e-6, rtol=0
    )
    uncertainty = model.opinion(features, texts).uncertainty
    expected = torch.tensor(RECORDED["uncertainty"])
    torch.testing.assert_close(uncertainty, expected, atol=1e-5, rtol=0)
    assert model.fingerprint == RECORDED["fingerprint"]


def test_a_run_is_evaluated_and_its_training_pairs_are_known(here):
    write_precomp(here / "animals", images=24)
    evaluation = avow.evaluate("run", draws=0, device="cpu")
    assert evaluation.best.recall.rsum == pytest.approx(RECORDED["test_rsum"])
    audit = avow.audit_pairs("animals", run="run", split="train", out="audited", device="cpu")
    assert all(finding.in_sample for finding in audit.findings)


def test_a_run_is_resumed(here):
    write_precomp(here / "animals", images=24)
    (here / "animals.toml").write_text(ANIMALS)
    trained = avow.train("animals.toml", out="run", resume=True, device="cpu")
    recorded = (EARLIER / "run" / "log.jsonl").read_text().splitlines()
    assert trained.epochs == 2
    assert trained.dev_rsum == pytest.approx(json.loads(recorded[-1])["dev"]["rsum"])


def test_features_are_read_and_belong_to_their_dataset(here):
    save_pictures(here / "pictures", 16)
    store = FeatureStore.open(here / "features")
    store.check(dataset=open_dataset("pairs.csv"), grid=1)
    rows = store.split("train")
    assert rows.shape == (12, 1, 1280)
    stored = np.load(EARLIER / "features" / "train-00000.npy")
    np.testing.assert_array_equal(rows.rows(np.array([3, 0])), stored[[3, 0]])
    assert rows.rows_of(["pictures/blue-002.png", "pictures/none.png"]).tolist() == [2, -1]


def test_an_audit_weighs_the_pairs_of_a_training(here):
    save_pictures(here / "pictures", 16)
    (here / "pictures.toml").write_text(PICTURES)
    trained = avow.train(
        "pictures.toml",
        out="weighed",
        features="features",
        changes=["train.trust=audit", "train.epochs=1"],
        device="cpu",
    )
    assert trained.epochs == 1
    assert avow.Model.from_pretrained("weighed").recipe.train.trust == "audit"


def test_decisions_about_an_audit_are_applied(here):
    save_pictures(here / "pictures", 16)
    lines = (here / "audit" / "pairs.jsonl").read_text("utf-8").splitlines()
    findings = [json.loads(line) for line in lines]
    with (here / "decisions.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for finding in findings[:3]:
            writer.writerow({**finding, "decision": "wrong"})
    asked = ["audit", "pairs.csv", "--apply", "decisions.csv", "--out", "cleaned", "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["wrong"] == 3
    cleaned = open_dataset("cleaned/pairs.jsonl").splits["train"]
    assert len(cleaned.captions) == len(findings) - 3


@pytest.mark.parametrize("name", ["run", "features", "audit"])
def test_nothing_of_it_is_taken_for_damaged(name):
    assert avow.check(EARLIER / name) == []
