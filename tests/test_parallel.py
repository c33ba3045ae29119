"""Two processes over gloo: the gradients of a shared batch, and a whole training run."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_commands
import pytest
import torch
from accelerate import Accelerator
from parallel_gradients import METHODS, RUNS, gradient
from samples import small_recipe, write_precomp
from test_training import as_toml, final_weights

from avow.assembly.model import Model
from avow.cli import app

TESTS = Path(__file__).parent


LONG = 1800  # seconds: it only ends a test that would hang


def environment() -> dict[str, str]:
    paths = [str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def two_processes(*arguments: str) -> str:
    """What two processes print that know of each other as those of torchrun do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    about = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    done = forked_commands.run([sys.executable, *arguments], env=environment() | about)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def load(path: Path) -> dict[str, torch.Tensor]:
    return torch.load(path, weights_only=True)


def sgr_recipe(data: Path, **train: Any) -> dict[str, Any]:
    """SGR by TCL without anything that is drawn: it normalises images over the batch."""
    content = small_recipe(data, epochs=2, words_changed=0.0, regions_changed=0.0, **train)
    sizes = {"dim": 16, "word_dim": 8, "similarity_dim": 8, "steps": 2, "regions": 4}
    content["method"] = {"name": "sgr", **sizes, "dropout_word": 0.0, "dropout_head": 0.0}
    return content


@pytest.fixture(scope="module")
def gradients(tmp_path_factory):
    """Where two processes left the gradients of every case and their runs, started once.

    VSE infinity gathers; in the long form there are VSRN, which does not, and SGR, which does.
    """
    where = tmp_path_factory.mktemp("gradients")
    data = write_precomp(where / "toy_precomp")
    content = small_recipe(data, epochs=2, batch=24, words_changed=0.0)
    content["method"] = {"name": "vsrn", "dim": 16, "word_dim": 8, "caption_dim": 8}
    (where / "apart.toml").write_text(as_toml(content))
    gathered = small_recipe(data, epochs=1, batch=24, gather=True)
    (where / "gathered.toml").write_text(as_toml(gathered))
    (where / "shared.toml").write_text(as_toml(sgr_recipe(data, batch=24, gather=True)))
    (where / "told.txt").write_text(
        two_processes(str(TESTS / "parallel_gradients.py"), str(where))
    )
    return where


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_gathered_gradients_equal_those_of_one_process(gradients, method):
    """K is the global batch: both processes hold the gradient of all six pairs."""
    expected = gradient(Accelerator(cpu=True), gather=False, method=method)
    for rank in (0, 1):
        found = load(gradients / f"{method}-{rank}.pt")
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.slow
def test_without_gathering_processes_share_the_mean_of_their_own_batches(gradients):
    one, other = (load(gradients / f"alone-{rank}.pt") for rank in (0, 1))
    whole = gradient(Accelerator(cpu=True), gather=False)
    for name, value in one.items():
        assert torch.equal(value, other[name]), name
    assert any(not torch.allclose(one[name], whole[name], atol=1e-4) for name in one)


@pytest.mark.slow
def test_a_run_on_two_processes(gradients):
    out, lines = gradients / "gathered", (gradients / "told.txt").read_text().splitlines()
    told, *_ = [json.loads(line) for line in lines if line.startswith("{")]
    assert told["run"] == str(out) and told["epochs"] == 1
    assert len([line for line in lines if line.startswith("{")]) == len(RUNS)  # one speaks
    lines = (out / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["batches"] for line in lines] == [5]
    assert Model.from_pretrained(out).views and final_weights(out)


@pytest.mark.long
def test_two_gathered_processes_learn_what_one_does(gradients, tmp_path):
    """SGR by TCL, from the first weights to the last, batch statistics included.

    Adam divides by the size of a gradient, so that rounding shows in weights that hardly learn.
    """
    recipe = tmp_path / "alone.toml"
    recipe.write_text(as_toml(sgr_recipe(gradients / "toy_precomp", batch=48)))
    words = ["train", str(recipe), "--out", str(tmp_path / "alone"), "--device", "cpu"]
    app(words, standalone_mode=False)
    one, two = final_weights(tmp_path / "alone"), final_weights(gradients / "shared")
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-3, atol=2e-3, msg=name)
    logs = [run / "log.jsonl" for run in (tmp_path / "alone", gradients / "shared")]
    losses = [
        [json.loads(line)["loss"] for line in log.read_text().splitlines()] for log in logs
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.long
def test_the_command_itself_on_two_processes(gradients, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = ["--out", str(tmp_path / "run"), "--device", "cpu", "--json"]
    done = subprocess.run(
        [
            *(*command, "--nproc-per-node", "2", "-m", "avow", "train"),
            *(str(gradients / "gathered.toml"), *words),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.strip().splitlines()[-1])["epochs"] == 1


@pytest.mark.long
def test_what_a_method_adds_itself_on_two_processes(gradients):
    """VSRN's captioner learns from the first step of a batch alone; TCL takes four.

    And this run does not gather: each process learns from its own batch.
    """
    lines = (gradients / "apart" / "log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert losses[1] < losses[0]
