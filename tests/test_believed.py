"""What an audit found, read back and learnt from: each pair as far as it was found right."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from samples import small_recipe, write_precomp
from test_noisy_losses import first, lesson
from test_training import as_toml
from typer.testing import CliRunner

from avow import losses
from avow.cli import app
from avow.core import checksums, folder
from avow.core.contracts import PairedDataset, Split
from avow.core.errors import BadData, BadRecipe
from avow.core.opinion import Opinion, dirichlet_risk, kl_to_uniform
from avow.core.seals import write_document
from avow.data.believed_pairs import read_belief

pytestmark = pytest.mark.usefixtures("few_trees")

PAIRS = Split(("a", "b"), ("one", "two", "three"), np.array([0, 1, 1]))
DATA = PairedDataset("mine", {"train": PAIRS})
FOUND = {("b", "three"): 0.9, ("a", "one"): 0.25, ("b", "two"): 0.0}


def written(place, found=FOUND, **about):
    place.mkdir(exist_ok=True)
    told = {"dataset": "mine", "fingerprint": DATA.fingerprint, "split": "train"} | about
    (place / "audit.json").write_text(json.dumps(told))
    rows = [
        {"image": image, "caption": caption, "probability": probability}
        for (image, caption), probability in found.items()
    ]
    (place / "pairs.jsonl").write_text(
        "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    )
    return place


# --- reading ------------------------------------------------------------------------------


def test_pairs_are_found_by_image_and_caption(tmp_path):
    assert read_belief(written(tmp_path), DATA).tolist() == pytest.approx([0.75, 1.0, 0.1])


def test_a_caption_may_hold_what_some_take_for_the_end_of_a_line(tmp_path):
    captions = ("one\u2028more", "two\x85", "three\x1c")
    data = PairedDataset("mine", {"train": replace(PAIRS, captions=captions)})
    found = {("a", captions[0]): 0.5, ("b", captions[1]): 0.25, ("b", captions[2]): 1.0}
    place = written(tmp_path, found, fingerprint=data.fingerprint)
    assert read_belief(place, data).tolist() == [0.5, 0.75, 0.0]


def test_a_pair_that_was_not_judged_is_not_a_number(tmp_path):
    del (found := dict(FOUND))["b", "two"]
    belief = read_belief(written(tmp_path, found), DATA)
    assert np.isnan(belief).tolist() == [False, True, False]


@pytest.mark.parametrize("chance", [7, -0.1, float("nan")])
def test_a_probability_is_one(tmp_path, chance):
    with pytest.raises(BadData, match="has a probability outside 0 to 1"):
        read_belief(written(tmp_path, FOUND | {("a", "one"): chance}), DATA)


@pytest.mark.parametrize("about", [{"fingerprint": "another"}, {"split": "test"}])
def test_an_audit_of_other_pairs_is_refused(tmp_path, about):
    with pytest.raises(BadData, match="audit them anew"):
        read_belief(written(tmp_path, **about), DATA)


@pytest.mark.parametrize("broken", ["audit.json", "pairs.jsonl"])
@pytest.mark.parametrize("content", [None, "{", "[]", "3", '{"image": "a"}'])
def test_what_is_no_audit_is_refused(tmp_path, broken, content):
    written(tmp_path)
    if content is None:
        (tmp_path / broken).unlink()
    else:
        (tmp_path / broken).write_text(content)
    with pytest.raises(BadData, match="Expected a folder that `avow audit` wrote"):
        read_belief(tmp_path, DATA)


def test_an_audit_whose_list_or_summary_was_changed_is_refused(tmp_path):
    place = written(tmp_path)
    about = json.loads((place / "audit.json").read_text())
    known = {"checksums": {"pairs.jsonl": checksums.of_file(place / "pairs.jsonl")}}
    write_document(place / "audit.json", about | known)
    whole = (place / "pairs.jsonl").read_text()
    assert len(read_belief(place, DATA)) == 3
    (place / "pairs.jsonl").write_text(whole.replace("0.25", "0.26"))
    with pytest.raises(BadData) as caught:
        read_belief(place, DATA)
    assert str(caught.value) == (
        f"The audit {str(place)!r} is damaged or was changed (pairs.jsonl is not as the audit "
        "wrote it). Expected what `avow audit` wrote; run the same audit again, which keeps "
        "what it has judged."
    )
    (place / "pairs.jsonl").write_text(whole)
    sealed = (place / "audit.json").read_text()
    (place / "audit.json").write_text(sealed.replace('"mine"', '"mind"'))
    with pytest.raises(BadData, match="its checksum does not fit its content"):
        read_belief(place, DATA)


# --- learning -----------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 40])
def test_tcl_learns_each_pair_as_far_as_it_is_believed(epoch):
    torch.manual_seed(0)
    scores = [torch.rand(5, 5, dtype=torch.float64) for _ in range(2)]
    trust = torch.tensor([[1.0, 0.5, 0.0, 0.2, 1.0]]).expand(2, -1)
    loss = folder.build(losses, "tcl", tau=0.1, kl_rate=0.01)
    expected = 0.0
    for side in (scores[0], scores[1].T):
        for pair, believed in enumerate(trust[0].tolist()):
            row = Opinion.from_similarity(side[pair], 0.1, "exp")
            target = torch.zeros(5, dtype=torch.float64)
            target[pair] = believed
            value = float(dirichlet_risk(row, target))
            value += (
                min(1, 0.01 * epoch) * believed * float(kl_to_uniform(row.discounted(target)))
            )
            expected += value / 5
    found = first(loss, scores, lesson(trust, epoch))
    assert float(found) == pytest.approx(expected)


def test_a_pair_that_nobody_believes_teaches_nothing():
    torch.manual_seed(0)
    scores = [torch.rand(5, 5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    trust = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]]).expand(2, -1)
    first(folder.build(losses, "tcl", kl_rate=0.01), scores, lesson(trust, 40)).backward()
    grads = [scores[0].grad, scores[1].grad.T]  # type: ignore[union-attr]
    for grad in grads:
        assert grad[2].abs().sum() == 0 and (grad.abs().sum(1) > 0).sum() == 4


# --- the whole way ------------------------------------------------------------------------


def ask(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.slow
def test_an_audit_of_noisy_pairs_is_learnt_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write_precomp(tmp_path / "toy_precomp")
    (tmp_path / "toy.toml").write_text(as_toml(small_recipe(data, epochs=1)))
    noise = ["--set", "noise.ratio=0.3", "--set", "noise.by=image"]
    small = ["--set", "train.batch=16", "--device", "cpu", "--json"]
    told = ask(
        "audit", data, "--recipe", "toy.toml", "--folds", 2, "--out", "a", *noise, *small
    )
    assert told.exit_code == 0, told.output
    by_audit = ["--set", "train.trust=a"]
    told = ask("train", "toy.toml", "--out", "run", *noise, *by_audit, *small)
    assert told.exit_code == 0, told.output
    (*_, last) = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    lines = (tmp_path / "a" / "pairs.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    right = 1 - np.mean([row["probability"] for row in rows])
    # small as the folds are they know little, but what they found is what is learnt from
    assert json.loads(last)["sifted"]["believed"] == pytest.approx(right, abs=1e-4)
    assert {"believed_right", "believed_wrong"} < json.loads(last)["sifted"].keys()
    told = ask("train", "toy.toml", "--out", "other", *by_audit, *small)
    assert told.exit_code != 0 and isinstance(told.exception, BadData)
    told = ask(
        "train", "toy.toml", "--out", "hinge", "--loss", "hinge", *noise, *by_audit, *small
    )
    assert isinstance(told.exception, BadRecipe) and "Expected 'tcl'" in str(told.exception)
