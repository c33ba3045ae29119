"""The parity benchmark: green where numbers agree, red for every way in which they may not."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from test_oracles import oracles
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

__all__ = ["oracles"]  # the fixture
ROOT = Path(__file__).parent.parent
LAST = re.compile(r"checked (\d+) passed (\d+) failed (\d+) not-checked (\d+)")
OVER = re.compile(r"(\w+) +(\w+) .*? +(\S+) +(\S+)  OVER")
Run = Callable[..., tuple[int, list[str], tuple[int, ...]]]
FAMILIES = (
    "ce_ de_ hybrid_ losses_ eval_metrics tcl_VSE tcl_SAF tcl_SGR decl_ vseinfty_ sgraf_ scan_ "
    "imram_ vsrn_ gsmn_ dive_"
).split()
SLOW = ("tcl_VSE", "tcl_SAF", "tcl_SGR", "decl_", "sgraf_", "imram_", "gsmn_")
"""Seconds each. Tests in files named oracles compare the same networks and steps."""


# Steps that rounding decides. GSMN: a hinge does not see what is added to all scores, so the
# last biases have no gradient, and Adam moves them by whatever a sum was rounded to; ours is
# rounded to 0, and all scores differ by one and the same number. TCL over SGR: in the first
# step 18 units stand within 3e-8 of the kink of a relu; the side they fall to is rounding, and
# the four steps after it magnify that. docs/notes/parity.md has the figures.
UNDETERMINED = {"gsmn_dense_small": "after1_sims", "tcl_SGR_small": "after2_"}
AT_MOST = 10  # times their tolerance
VIDEO = [("dual_encoding", 23), ("hybrid_space", 37), ("ce_msrvtt", 61), ("ce_msvd", 67)]
"""How many numbers of each system for videos are compared."""


@pytest.fixture
def parity(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import parity

    return parity


@pytest.fixture
def run(parity, monkeypatch, capsys) -> Run:
    """Run the benchmark; give its exit code, its rows and the counts of its last line."""

    def go(folder: Path, *only: str) -> tuple[int, list[str], tuple[int, ...]]:
        asked = ["--only", *only] if only else []
        monkeypatch.setattr(sys, "argv", ["parity.py", str(folder), *asked])
        precision = torch.get_float32_matmul_precision()
        code = parity.main()
        torch.set_float32_matmul_precision(precision)
        lines = capsys.readouterr().out.splitlines()
        counts = LAST.fullmatch(lines[-1])
        assert counts, lines[-1]
        return code, lines[1:-2], tuple(int(count) for count in counts.groups())

    return go


# --- a problem of our own, of other sizes, computed by plain torch ------------------------

IMAGES, CAPTIONS, REGIONS, VISUAL, WORDS, WORD, DIM = 6, 3, 7, 10, 30, 5, 8


class PlainPool(nn.Module):
    """Learnt pooling, item by item."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(32, 1, bias=False)

    def forward(self, parts: torch.Tensor, counts: list[int]) -> torch.Tensor:
        pooled = []
        for item, count in zip(parts, counts, strict=True):
            rows = [
                [
                    (math.sin if channel % 2 == 0 else math.cos)(
                        place / 10000 ** (channel // 2 * 2 / 32)
                    )
                    for channel in range(32)
                ]
                for place in range(count)
            ]
            states, _ = self.gru(torch.tensor(rows)[None])
            score = self.linear((states[..., :32] + states[..., 32:]) / 2)[0, :, 0]
            ordered = item[:count].sort(0, descending=True).values
            pooled.append(((score / 0.1).softmax(0)[:, None] * ordered).sum(0))
        return nn.functional.normalize(torch.stack(pooled))


class PlainImages(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(VISUAL, DIM)
        self.mlp = nn.Module()
        self.mlp.layers = nn.ModuleList([nn.Linear(VISUAL, DIM // 2), nn.Linear(DIM // 2, DIM)])
        self.mlp.bns = nn.ModuleList([nn.BatchNorm1d(DIM // 2), nn.BatchNorm1d(DIM)])
        self.gpool = PlainPool()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        rows = features.flatten(0, 1)
        bent = self.mlp.layers[1](self.mlp.bns[0](self.mlp.layers[0](rows)).relu())
        parts = (self.fc(rows) + bent).view(*features.shape[:2], DIM)
        return self.gpool(parts, [features.shape[1]] * len(features))


class PlainTexts(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WORD)
        self.rnn = nn.GRU(WORD, DIM, batch_first=True, bidirectional=True)
        self.gpool = PlainPool()

    def forward(self, ids: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(
            self.embed(ids), counts, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.gpool((states[..., :DIM] + states[..., DIM:]) / 2, counts.tolist())


def plain_hinge(scores: torch.Tensor, hardest: bool) -> torch.Tensor:
    total = torch.zeros(())
    for table in (scores, scores.T):
        for query, row in enumerate(table):
            wrong = [
                (0.2 + row[other] - row[query]).clamp(min=0)
                for other in range(len(row))
                if other != query
            ]
            total = total + (torch.stack(wrong).max() if hardest else torch.stack(wrong).sum())
    return total


@pytest.fixture(scope="module")
def resized(tmp_path_factory) -> Path:
    """Two recorded steps of a small VSE-infinity, none of whose sizes is a usual one."""
    home = tmp_path_factory.mktemp("oracles")
    torch.manual_seed(3)
    images, texts = PlainImages(), PlainTexts()
    features = torch.randn(IMAGES, REGIONS, VISUAL).half()
    counts = torch.randint(2, 9, (IMAGES * CAPTIONS,))
    ids = torch.randint(1, WORDS, (len(counts), int(counts.max())))
    ids[torch.arange(ids.shape[1])[None] >= counts[:, None]] = 0
    chosen = torch.tensor([CAPTIONS * image + image % CAPTIONS for image in range(IMAGES)])
    np.savez(
        home / "inputs_odd.npz",
        images_f16=features.numpy(),
        cap_ids=ids.numpy(),
        cap_lens=counts.numpy(),
        train_cap_idx=chosen.numpy(),
        train_img_idx=(chosen // CAPTIONS).numpy(),
    )
    options = {"learning_rate": 0.003, "grad_clip": 1.5, "margin": 0.2, "embed_size": DIM}
    states = [copied(images), copied(texts)]
    torch.save({"opt": options, "model": states}, home / "vseinfty_plain_odd_weights.pt")
    limits = {"vseinfty_plain_odd": {"start": 1e-5, "after": 2e-3}}
    (home / "tolerance.json").write_text(json.dumps(limits))

    out: dict[str, Any] = {}

    def note(prefix: str) -> None:
        images.eval(), texts.eval()
        with torch.no_grad():
            seen, said = images(features.float()), texts(ids, counts)
        out[f"{prefix}_img_emb"], out[f"{prefix}_cap_emb"] = seen.numpy(), said.numpy()
        out[f"{prefix}_sims"] = (seen @ said.T).numpy()
        images.train(), texts.train()

    note("init")
    weights = [*images.parameters(), *texts.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=0.003, weight_decay=0.01)
    losses = []
    for hardest in (False, True):
        optimiser.zero_grad()
        seen = images(features.float()[chosen // CAPTIONS])
        value = plain_hinge(seen @ texts(ids[chosen], counts[chosen]).T, hardest)
        value.backward()
        nn.utils.clip_grad_norm_(weights, 1.5)
        optimiser.step()
        losses.append(float(value.detach()))
    note("after2")
    np.savez(home / "vseinfty_plain_odd_out.npz", **out, train_loss=np.array(losses))
    return home


def copied(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def changed(home: Path, name: str, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Rewrite the recorded arrays of one system."""
    path = home / f"{name}_out.npz"
    with np.load(path) as recorded:
        arrays = {key: recorded[key] for key in recorded.files}
    change(arrays)
    np.savez(path, **arrays)


def test_any_sizes_and_names_will_do(resized, run):
    code, rows, counts = run(resized)
    assert code == 0, "\n".join(rows)
    assert counts == (8, 8, 0, 0)


@pytest.mark.long  # all but its first lines runs in this process above
def test_the_script_ends_as_promised(resized):
    done = subprocess.run(
        [sys.executable, "benchmarks/parity.py", str(resized)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "checked 8 passed 8 failed 0 not-checked 0"


def test_every_array_that_is_off_is_over(resized, run, tmp_path):
    home = shutil.copytree(resized, tmp_path / "copy")
    limits = json.loads((home / "tolerance.json").read_text())["vseinfty_plain_odd"]

    def disturb(arrays: dict[str, np.ndarray]) -> None:
        for key, value in arrays.items():
            limit = limits["after" if key.startswith("after") else "start"]
            value.flat[0] += 3 * limit * np.abs(value).max()

    changed(home, "vseinfty_plain_odd", disturb)
    code, rows, counts = run(home)
    assert code == 1
    assert counts == (8, 1, 7, 0)  # the second training loss was left as it was
    over = [row.split()[1] for row in rows if row.endswith("OVER")]
    assert over[0] == "init_img_emb" and "train_loss[0]" in over


def test_arrays_and_systems_that_nobody_claims_are_red(resized, run, tmp_path):
    home = shutil.copytree(resized, tmp_path / "copy")
    changed(home, "vseinfty_plain_odd", lambda arrays: arrays.update(surprise=np.ones(2)))
    shutil.copy(resized / "vseinfty_plain_odd_out.npz", home / "newcomer_odd_out.npz")
    weights = resized / "vseinfty_plain_odd_weights.pt"
    shutil.copy(weights, home / "vseinfty_bare_odd_weights.pt")
    code, rows, counts = run(home)
    assert code == 1
    assert counts == (8, 8, 0, 1 + 7 + 1)
    assert any(
        "surprise" in row and "no file of parity_systems claims it" in row for row in rows
    )
    assert any("newcomer_odd" in row and "knows the system" in row for row in rows)
    assert any("vseinfty_bare_odd" in row and "no recorded numbers" in row for row in rows)


def test_what_cannot_be_computed_is_red(resized, run, tmp_path, monkeypatch):
    home = shutil.copytree(resized, tmp_path / "copy")
    (home / "tolerance.json").write_text("{}")
    assert run(home)[0] == 1
    assert run(home)[2] == (0, 0, 0, 8)
    from parity_systems import vse_infty

    monkeypatch.setitem(vse_infty.SYSTEMS, "vseinfty", "vse_infinite")
    code, rows, counts = run(resized)
    assert (code, counts) == (1, (0, 0, 0, 7))
    assert all("not yet built. There is no 'vse_infinite' in importing" in row for row in rows)
    monkeypatch.undo()
    assert run(tmp_path)[2] == (0, 0, 0, 0)
    assert run(tmp_path)[0] == 1


def test_errors_are_relative_and_nothing_passes_by_being_no_number(parity):
    from parity_systems._claims import (
        Bounds,
        error,
    )

    assert error([1.0, 2.5], [1.0, 2.0]) == 0.25
    assert error([0.0], [0.0]) == 0.0
    assert error([0.5], [0.0]) == 0.5
    assert error([1.0], [1.0, 2.0]) == math.inf
    assert not error([math.nan, 1.0], [1.0, 1.0]) <= 1e9
    ends = Bounds(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    assert error(ends, [1.0, 2.0]) == 0.0
    assert error(ends, [1.5, 4.0]) == 0.5


# --- the recorded systems -----------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=pytest.mark.long) if name in SLOW else name for name in FAMILIES],
)
def test_published_systems_are_met(oracles, run, family):
    """Red only for what is not built yet; nothing that is there is off or left out."""
    _, rows, (checked, passed, failed, unchecked) = run(oracles, family)
    left_out = [row for row in rows if "NOT CHECKED" in row and "not yet built" not in row]
    off = [row for row in rows if row.endswith("OVER") and not undetermined(row)]
    assert left_out + off == []
    assert passed + failed == checked
    assert rows and (checked or unchecked or all("not yet" in row for row in rows))


def undetermined(row: str) -> bool:
    found = OVER.fullmatch(row)
    assert found, row
    system, array, error, tolerance = found.groups()
    named = array.startswith(UNDETERMINED.get(system, "\0"))
    return named and float(error) <= AT_MOST * float(tolerance)


@pytest.mark.data
@pytest.mark.parametrize("family, arrays", VIDEO)
def test_systems_for_videos_are_met(oracles, run, family, arrays):
    """Their files hold everything, and no tolerance stands beside them."""
    code, rows, counts = run(oracles / "video", family)
    assert (code, counts) == (0, (arrays, arrays, 0, 0)), "\n".join(rows)


@pytest.mark.data
def test_one_file_of_everything_is_red_where_it_is_off(oracles, run, tmp_path):
    with np.load(oracles / "video" / "dual_encoding.npz") as recorded:
        arrays = {key: recorded[key] for key in recorded.files}
    arrays["init_vid"] = arrays["init_vid"] + 1e-3
    np.savez(tmp_path / "dual_encoding.npz", **arrays, surprise=np.ones(2))
    code, rows, counts = run(tmp_path)
    assert (code, counts) == (1, (23, 22, 1, 1))
    assert any("surprise" in row and "NOT CHECKED" in row for row in rows)


@pytest.mark.data
def test_every_recorded_system_belongs_to_a_family(oracles, parity):
    assert [
        name for name in parity.names(oracles) if not name.startswith(tuple(FAMILIES))
    ] == []
