"""Files of policies: those of earlier versions are read and judge as they did; one is written.

The fixtures were written by the version before formats were joined: a trust of
`avow.trust.fit`, with and without a bank, and a policy for searches. `judged-1.json` holds
what that version said of the same queries.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import refusal

from avow.core.errors import BadData, WrongTrust
from avow.core.inputs import background_of, views_of
from avow.trust.fitting import CalibrationQueries, fit_policy, fit_search_policy
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.held_out import LEAST
from avow.trust.policy import Judgements, Policy, verdicts

FIXTURES = Path(__file__).parent / "fixtures"
JUDGED = json.loads((FIXTURES / "judged-1.json").read_text())
SIMILARITY, BANK = (np.array(JUDGED[key], np.float32) for key in ("similarity", "bank"))
WORDS = np.array(JUDGED["words"])


def opened(name: str, again: bool, place: Path) -> Policy:
    """A fixture, or what is left of it after it was written in the format of today."""
    policy = Policy.load(FIXTURES / f"{name}.json")
    if not again:
        return policy
    policy.save(place / "policy.json")
    assert json.loads((place / "policy.json").read_text())["format"] == 8
    return Policy.load(place / "policy.json")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", ["trust-1", "trust-1-without-bank"])
def test_a_trust_file_of_before_judges_the_same(name, again, tmp_path):
    policy, before = opened(name, again, tmp_path), JUDGED[name]
    bank = None if "without" in name else BANK
    judged = policy.judge(SIMILARITY, bank=bank, model="abc")
    np.testing.assert_allclose(judged.probability, before["probability"], atol=2e-6)
    np.testing.assert_allclose(judged.uncertainty, before["uncertainty"], atol=2e-6)
    assert judged.candidates is not None
    assert judged.candidates.tolist() == before["candidates"]
    assert judged.promises[0].__dict__ == before["promise"]
    # in that version "answer" came before refusal
    line = json.loads((FIXTURES / f"{name}.json").read_text())["refuse_below"]
    rows = zip(judged.present, before["verdicts"], strict=True)
    assert judged.verdicts == ["nothing found" if p < line else old for p, old in rows]
    assert policy.event == "right" and policy.usual_risks == {"questions": 0.3}
    assert judged.evidence == {"K": 40, "tau": 0.05, "evidence": "exp"}


@pytest.mark.parametrize("again", [False, True])
def test_a_policy_file_of_before_judges_the_same(again, tmp_path):
    policy, before = opened("policy-1", again, tmp_path), JUDGED["policy-1"]
    judges_as_before(policy, before)
    assert policy.event == "relevant"


def judges_as_before(policy: Policy, before: dict[str, Any]) -> Judgements:
    judged = policy.judge(SIMILARITY, WORDS, bank=BANK, risk=0.3, model="abc")
    for name in ("probability", "confidence", "present", "odd"):
        np.testing.assert_allclose(getattr(judged, name), before[name], atol=2e-6)
    assert judged.order.tolist() == before["order"]
    (usual,) = policy.usual_risks.values()  # there are more risks to choose from now
    assert before["default_risk"] - 0.05 < usual <= before["default_risk"]
    if policy.anything is None or before["promise"]["threshold"] >= LEAST:
        assert judged.promises[0].__dict__ == pytest.approx(before["promise"], abs=2e-4)
        assert judged.verdicts == before["verdicts"]
        return judged
    # in that version what was more likely wrong could be an answer
    assert judged.promises[0].threshold is not None and judged.promises[0].threshold >= LEAST
    now = [
        "check" if old == "answer" and p < judged.promises[0].threshold else old
        for p, old in zip(judged.present, before["verdicts"], strict=True)
    ]
    assert judged.verdicts == now
    return judged


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("number", [2, 3])
def test_a_policy_file_of_each_format_judges_the_same(number, again, tmp_path):
    """Written by the last version of format 2, and by the first one of format 3."""
    before = json.loads((FIXTURES / f"judged-{number}.json").read_text())
    policy = opened(f"policy-{number}", again, tmp_path)
    judged = judges_as_before(policy, before)
    assert (policy.anything is None) == (number == 2)
    assert (judged.one_of_first is None) == (number == 2)


def test_a_trust_file_of_before_promises_nothing_for_another_risk():
    policy = Policy.load(FIXTURES / "trust-1.json")
    judged = policy.judge(SIMILARITY, bank=BANK, risk=0.2)
    assert "answer" not in judged.verdicts
    assert judged.promises[0].reason == (
        "the file of the policy keeps a promise for a risk of 0.3 only"
    )


def world(seed: int, pictures: int = 120, dim: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of pictures, and of one text for each; those the fixtures were fitted on."""
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(pictures, dim))
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    blur = rng.random((pictures, 1)) * rng.normal(size=(pictures, dim)) / dim**0.5 * 2
    texts = images + blur
    return images, texts / np.linalg.norm(texts, axis=1, keepdims=True)


def test_fitting_gives_the_numbers_it_gave_before():
    images, texts = world(1)
    similarity = (texts @ images.T).astype(np.float32)
    bank = (world(99)[1] @ images.T).astype(np.float32)
    options = {"sizes": (20, 50), "model": "abc"}
    right = fit_policy(similarity, np.arange(120), bank=bank, risk=0.3, **options)
    match, usual = np.eye(120, dtype=bool), background_of(bank, 0.05)
    scored = ScoredQueries(views_of(similarity), match, 0, 0.05, "exp", usual)
    queries = [CalibrationQueries("caption", scored, np.full(120, 9))]
    relevant = fit_search_policy(queries, style="text", **options)
    for now, name in ((right, "trust-1"), (relevant, "policy-3")):
        old = Policy.load(FIXTURES / f"{name}.json")
        assert now.conditions == old.conditions
        assert now.refuse == pytest.approx(old.refuse, abs=1e-4)
        assert (now.ranking, now.among) == (old.ranking, old.among)
        for made, before in ((now.probability, old.probability), (now.present, old.present)):
            assert made.names == before.names
            # single precision: sums in another order differ in the last digits
            assert made.weights == pytest.approx(before.weights, abs=1e-4)
    old = Policy.load(FIXTURES / "policy-3.json")
    made, before = relevant.anything, old.anything
    assert made is not None and before is not None and made.names == before.names
    assert made.weights == pytest.approx(before.weights, abs=1e-3)
    made, before = right.promise, Policy.load(FIXTURES / "trust-1.json").promise
    assert made is not None and before is not None
    assert made.threshold == pytest.approx(before.threshold, abs=1e-5)
    assert replace(made, threshold=None) == replace(before, threshold=None)
    held = Policy.load(FIXTURES / "policy-3.json").held
    assert held is not None and relevant.held is not None
    np.testing.assert_allclose(relevant.held.probability, held.probability, atol=1e-4)
    np.testing.assert_array_equal(relevant.held.correct, held.correct)


def test_refusal_comes_first():
    yes, no = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert verdicts(yes, no) == ["nothing found", "answer", "nothing found", "check"]


def test_words_are_asked_for_where_they_are_read():
    policy = Policy.load(FIXTURES / "policy-1.json")
    assert refusal(lambda: policy.judge(SIMILARITY, bank=BANK), BadData) == (
        "The policy reads how many words a query has. Expected `words`, one number per query "
        "(0 for a photograph); pass it."
    )


def test_another_model_is_a_doubt_where_that_is_asked_for():
    policy = Policy.load(FIXTURES / "policy-1.json")
    judged = policy.judge(SIMILARITY, WORDS, bank=BANK, strict=False, model="xyz")
    assert judged.doubts == ["fitted for model 'abc', used for 'xyz'"]


def test_a_later_format_is_named(tmp_path):
    (tmp_path / "trust.json").write_text('{"format": 9}')
    assert refusal(lambda: Policy.load(tmp_path / "trust.json"), WrongTrust) == (
        f"The policy '{tmp_path / 'trust.json'}' cannot be read (format 9; this version reads "
        "1 to 8). Expected a file written by `Policy.save`; calibrate again with "
        "`avow calibrate`."
    )


@pytest.mark.parametrize(
    ("part", "key", "change", "why"),
    [
        ("held", "correct", lambda rows: rows[1:], "cannot be read"),
        ("held", "groups", lambda rows: rows[1:], "cannot be read"),
        ("held", "anything", lambda _: [0.5], "cannot be read"),
        ("probability", "weights", lambda row: row[1:], "inhomogeneous"),
        ("probability", "names", lambda row: row[1:], "has other numbers than names"),
        ("present", "scale", lambda row: [float("nan"), *row[1:]], "do not go together"),
    ],
)
def test_parts_that_do_not_go_together_are_told(part, key, change, why, tmp_path):
    file = tmp_path / "policy.json"
    opened("policy-1", True, tmp_path)
    content = json.loads(file.read_text())
    content.pop("checksum", None)
    content[part][key] = change(content[part][key])
    file.write_text(json.dumps(content))
    assert why in refusal(lambda: Policy.load(file), WrongTrust)


def test_held_out_probabilities_are_written_with_four_digits(tmp_path):
    policy = Policy.load(FIXTURES / "policy-3.json")
    assert policy.held is not None
    exact = policy.held.probability / 3
    replace(policy, held=replace(policy.held, probability=exact)).save(tmp_path / "a.json")
    written = json.loads((tmp_path / "a.json").read_text())["held"]["probability"]
    assert written == np.round(exact, 4).tolist()
    assert written != np.round(exact, 5).tolist()
