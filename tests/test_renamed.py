"""Paths of an earlier version still lead to what they named, and say where it is now."""

import importlib
import subprocess
import sys

import pytest
from every import every

import avow
from avow.core import contracts
from avow.core.renamed import _OldPath
from avow.trust import conformal_sets, fitting, policy, top_k

ROOMS = ("assembly", "blocks", "data", "retrieval", "training", "trust")
for room in ROOMS:
    importlib.import_module(f"avow.{room}")
OLD = sorted(path for path in sys.modules if isinstance(sys.modules[path], _OldPath))


def test_a_name_of_an_old_path_warns_and_is_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"use 'avow\.trust\.top_k\.describe'\.$"):
        from avow.trust.sight import describe
    assert describe is top_k.describe
    with pytest.warns(DeprecationWarning, match=r"^'avow\.trust\.sets\.candidate_scores' is"):
        assert avow.trust.sets.candidate_scores is conformal_sets.candidate_scores


def test_a_renamed_contract_warns_and_is_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"use 'avow\.core\.contracts\.QueryBatch'"):
        from avow.core.contracts import Asked
    assert Asked is contracts.QueryBatch


def test_one_policy_stands_for_both_of_before():
    with pytest.warns(DeprecationWarning, match=r"use 'avow\.trust\.Policy'"):
        assert avow.trust.Trust is policy.Policy
    with pytest.warns(DeprecationWarning, match=r"use 'avow\.trust\.fitting\.fit_policy'"):
        from avow.trust.judge import fit
    with pytest.warns(DeprecationWarning, match=r"use 'avow\.trust\.fitting\.CalibrationQ"):
        from avow.trust.fit_policy import Asking
    assert (fit, Asking) == (fitting.fit_policy, fitting.CalibrationQueries)
    with pytest.warns(
        DeprecationWarning, match=r"use 'avow\.trust\.fitting\.fit_search_policy'"
    ):
        from avow.trust.fit_policy import fit_policy
    assert fit_policy is fitting.fit_search_policy
    assert avow.trust.fit_policy is fitting.fit_policy  # today a function, not a module
    with pytest.warns(DeprecationWarning, match=r"use 'avow\.trust\.fit_policy'"):
        assert avow.trust.fit is fitting.fit_policy


def test_an_old_path_imported_first_of_all_works():
    code = "import avow.trust.tail; print(avow.trust.tail.EvidenceSum.__module__)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "avow.core.evidence_sum"


MOVED = {
    "avow.data.flickr8k.build": "avow.data.readers.flickr8k",
    "avow.retrieval.encoder.open_encoder": "avow.retrieval.encoders.opening",
    "avow.training.course.enrol": "avow.training.setup",
    "avow.blocks.ranked.weighed_by_rank": "avow.blocks.rank_pooling",
    "avow.assembly.judge.judge_run": "avow.assembly.evaluate_runs",
}


@pytest.mark.parametrize("old", MOVED)
def test_paths_of_other_rooms_still_work(old):
    (path, _, name), now = old.rpartition("."), MOVED[old]
    with pytest.warns(DeprecationWarning, match=rf"^'{old}' is .* use '{now}.{name}'"):
        moved = getattr(importlib.import_module(path), name)
    assert moved is getattr(importlib.import_module(now), name)


def test_every_old_path_leads_to_a_module():
    every(OLD, leads_to_a_module)


def leads_to_a_module(path: str) -> None:
    moved = sys.modules[path].__dict__["_moved"]
    module = importlib.import_module(moved.module)
    assert module.__doc__
    for old in moved.names:
        assert moved.find(old)[1] is not None


def test_a_name_that_never_was_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module("avow.trust.sight").nothing  # noqa: B018
