"""Training: every loss teaches every method, and a stopped run ends where it would have."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from samples import SIZES, SMALLER, regions, small_recipe, tokens, write_precomp
from test_methods import tiny_bert  # noqa: F401

import avow.training.loop as loop
from avow import losses, methods
from avow.assembly.checkpoint import load_weights
from avow.assembly.evaluate_runs import EvaluationPlan, judge_run
from avow.assembly.model import Model
from avow.assembly.recipe import Recipe, Training
from avow.cli import app
from avow.core import folder
from avow.core.contracts import Lesson
from avow.core.device import most_memory
from avow.core.errors import BadData, BadFeatures, WrongCheckpoint
from avow.training.batches import Batch, Batches
from avow.training.compare import Comparison
from avow.training.optim import build_optimiser, set_rates
from avow.training.setup import enrol, open_data
from avow.training.state import Progress, open_run


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_precomp(tmp_path_factory.mktemp("data") / "toy_precomp")


def run_recipe(
    content: dict, run: Path, resume: bool = False, device: str | None = "cpu"
) -> Progress:
    recipe = Recipe.from_dict("toy", content)
    open_run(run, recipe, resume)
    model, course = enrol(recipe, open_data(recipe), None)
    return loop.train(model, course, run, resume=resume, progress=False, device=device)


LONG = bool(os.environ.get("AVOW_LONG_TESTS"))
QUICK = {"batch": 24, "lr": 0.01 if LONG else 0.02}
# The toy has many pairs alike. GSMN's score collapses where a batch has many of them, and a
# network of similarity vectors does not learn from the hardest negative, which is one of them.
ADAPTED = {
    "gsmn": {"train": {"batch": 12, "lr": 0.005 if LONG else 0.02}},
    "imram": {"train": QUICK},
    "saf": {"hinge": {"warm_up": 20}, "selhn": {"near": 2.0}},
    "sgr": {"hinge": {"warm_up": 20}, "train": QUICK},
}
EPOCHS = {"decl": 4, "dual_encoding": 1, "gsmn": 2, "imram": 2, "saf": 4, "selhn": 4}
EPOCHS |= {"acmnet": 4, "ce": 4, "scan": 4, "sgr": 2, "tcl": 5, "tcl_decl": 5, "tcvse": 4}
"""Of five steps each, for a method or loss that needs other than three."""
# Half of the toy is too little to judge the other half by; strangers meet at once.
AGREEING = {"tcl": {}, "tcl_decl": {}, "strangers": {"apart": 0}}


# A loss sees similarities and nothing else: one of them teaches every method, and every loss
# teaches the quickest method, which compares vectors. Of one that compares parts the published
# pair with DECL is here, and that of SGR with TCL in test_sgraf_training.py.
TAUGHT = sorted(
    {(method, "hinge") for method in folder.names(methods)}
    | {("vsepp", loss) for loss in folder.names(losses)}
)
MORE = {("saf", "decl"), ("saf", "selhn")}
MORE |= {("vse_infty", loss) for loss in folder.names(losses)} - {*TAUGHT}
PARTS = [pytest.param(*pair, marks=pytest.mark.long) for pair in sorted(MORE)]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "loss"), [*TAUGHT, *PARTS])
def test_losses_teach_methods(data, tmp_path, method, loss):
    epochs, wanted = EPOCHS.get(loss, EPOCHS.get(method, 3)), 250
    steps = {"lr": 0.02, "batch": 48}
    if LONG:
        epochs, wanted, steps = max(6, 2 * epochs - 2), 300, {"lr": 0.01, "batch": 24}
    content = small_recipe(data, words_changed=0.0, regions_changed=0.0, **steps)
    adapted = ADAPTED.get(method, {})
    content["loss"] = {"name": loss, **adapted.get(loss, {})}
    content["method"] |= {"name": method, **SMALLER.get(method, {})}
    content["train"] |= adapted.get("train", {})
    content["train"]["epochs"] = epochs
    if loss in AGREEING:  # every batch is learnt from three times
        content["loss"] |= {"agreement_steps": 1, **AGREEING[loss]}
        content["train"] |= {"epochs": (epochs + 1) // 2}
    reached = run_recipe(content, tmp_path / "run")
    found = judge_run(tmp_path / "run", EvaluationPlan("test", draws=0))
    assert found.best.recall.rsum > wanted  # chance is 118: 4 % at 1, 21 % at 5, 42 % at 10
    assert reached.best > wanted


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    state = torch.load(run / (run / "last").read_text() / "training.pt", weights_only=True)
    return {
        f"{number}.{name}": tensor
        for number, view in enumerate(state["views"])
        for name, tensor in view.items()
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def with_dropout(data: Path) -> dict:
    # a method that has statistics of batches too
    content = small_recipe(data, "vse_infty", epochs=2, batch=48)
    content["loss"]["agreement_steps"] = 0
    content["method"] |= {"dropout_word": 0.2, "dropout_image": 0.2, "dropout_head": 0.1}
    return content


class Killed(BaseException):
    """Nothing in the package waits for it, as nothing can wait for a kill."""


def test_stopped_inside_an_epoch_and_resumed(data, tmp_path, monkeypatch):
    """A state from the middle of an epoch leads to the very same weights, by the command."""
    toml = tmp_path / "toy.toml"
    toml.write_text(as_toml(with_dropout(data)))
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"

    def command(run: Path, *more: str) -> None:
        words = ["train", str(toml), "--out", str(run), "--device", "cpu", "--json", *more]
        app(words, standalone_mode=False)

    command(whole)
    learn, seen = loop.Learner.learn, 0

    def learn_and_die(self, batch):
        nonlocal seen
        seen += 1
        if seen == 7:
            monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)  # after every batch
        if seen == 9:
            monkeypatch.setattr(loop, "SAVE_EVERY", 1e9)
        if seen == 10:  # five batches an epoch: the last of the second
            raise Killed
        return learn(self, batch)

    monkeypatch.setattr(loop.Learner, "learn", learn_and_die)
    with pytest.raises(Killed):
        command(stopped)
    assert (stopped / "last").read_text() == "last-00001-000003"  # what came later is lost
    monkeypatch.setattr(loop.Learner, "learn", learn)
    command(stopped, "--resume")
    assert (stopped / "last").read_text() == "last-00002-000000"
    assert same(final_weights(stopped), final_weights(whole))
    best = [load_weights(run / (run / "best").read_text()) for run in (stopped, whole)]
    assert same(*best)
    lines = (stopped / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]


COMMANDS = """
import json, os, signal, sys
import torch._dynamo  # which every optimiser imports
import avow.training.loop as loop
from avow.cli import main
import avow.training.from_recipe
import torch._dynamo  # the first optimiser of every process would
learn, seen = loop.Learner.learn, []

def learn_or_die(self, batch):
    seen.append(1)
    if len(seen) == 9:  # five batches an epoch: the fourth of the second
        os.kill(os.getpid(), signal.SIGKILL)
    return learn(self, batch)

for kill, run, words in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        loop.Learner.learn = learn_or_die if kill else learn
        sys.argv[1:] = ["train", *words, "--out", run]
        main()
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, open(run + "/last").read(), flush=True)
"""
"""Runs commands of `avow`, each in a process of its own; all of them import torch once."""


@pytest.mark.long
def test_killed_and_resumed_from_the_command_line(data, tmp_path):
    """kill -9 while it trains, then `--resume`: the same weights as without the kill.

    All three run in processes of their own: a process that has computed other things rounds
    sums by how many threads it was left with.
    """
    toml = tmp_path / "toy.toml"
    toml.write_text(as_toml(with_dropout(data)))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    words = [str(toml), "--json", "--device", "cpu"]
    commands = [
        (True, str(killed), words),
        (False, str(killed), [*words, "--resume"]),
        (False, str(whole), words),
    ]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(commands),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    died, told, resumed, _, ended = done.stdout.splitlines()
    assert died == f"{-signal.SIGKILL} last-00001-000000", done.stderr
    assert json.loads(told)["epochs"] == 2
    assert resumed == ended == "0 last-00002-000000", done.stderr
    assert same(final_weights(killed), final_weights(whole))
    best = [
        load_weights(Model.from_pretrained(r) and r / (r / "best").read_text())
        for r in (killed, whole)
    ]
    assert same(*best)


def as_toml(content: dict) -> str:
    return "\n".join(
        f"[{part}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        for part, keys in content.items()
    )


def test_another_seed_is_another_run(data, tmp_path):
    for seed in (0, 0, 1):
        content = small_recipe(data, epochs=1, seed=seed, batch=80)
        run_recipe(content, tmp_path / f"run{len(list(tmp_path.iterdir()))}")
    first, again, other = (final_weights(tmp_path / f"run{n}") for n in range(3))
    assert same(first, again)
    assert not same(first, other)


def test_the_best_checkpoint_is_kept_and_the_log_says_which(data, tmp_path):
    content = small_recipe(data, epochs=4, batch=48)
    content["loss"]["agreement_steps"] = 0
    reached = run_recipe(content, tmp_path / "run")
    lines = [json.loads(x) for x in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    sums = [line["dev"]["rsum"] for line in lines]
    assert reached.best == max(sums)
    assert (tmp_path / "run" / "best").read_text() == f"best-{reached.best_epoch:05d}"
    found = judge_run(tmp_path / "run", EvaluationPlan("dev", draws=0))
    assert found.best.recall.rsum == pytest.approx(max(sums))
    assert {"rsum_image_view", "rsum_text_view"} <= set(lines[0]["dev"])
    held = [line["most_memory"] for line in lines]
    assert held == sorted(held) and 50e6 < held[0] <= most_memory("cpu")  # torch alone is more


def test_early_stop(data, tmp_path):
    content = small_recipe(data, epochs=30, patience=2, lr=1e-9, batch=120)
    content["loss"]["agreement_steps"] = 0
    reached = run_recipe(content, tmp_path / "run")
    assert reached.epoch == reached.best_epoch + 2 < 30


def test_bf16_is_float32_where_a_processor_has_none(data, tmp_path, monkeypatch, caplog):
    for name, has in (("bf16", False), ("fp32", True)):
        monkeypatch.setattr(loop, "multiplies_bf16", lambda device, has=has: has)
        content = small_recipe(data, epochs=1, precision=name, batch=80)
        run_recipe(content, tmp_path / name)
    assert [record.message for record in caplog.records] == [
        "This processor has no products of bfloat16; the recipe's bf16 is float32 here."
    ]
    assert same(final_weights(tmp_path / "bf16"), final_weights(tmp_path / "fp32"))


def test_learning_rate_falls_once():
    recipe = Recipe.open("flickr8k/vse_infty_tcl")
    view = recipe.build_method(visual_dim=4, vocabulary=5, dim=4, word_dim=4)
    optimiser = build_optimiser([view], recipe.train)
    rates = [set_rates(optimiser, recipe.train, epoch) for epoch in range(9)]
    assert rates == [5e-4] * 6 + [5e-4 * 0.1] * 3


def test_the_learning_rate_may_follow_a_cosine():
    recipe = Recipe.open("flickr8k/vse_infty_tcl", ["train.schedule=cosine", "train.epochs=4"])
    view = recipe.build_method(visual_dim=4, vocabulary=5, dim=4, word_dim=4)
    optimiser = build_optimiser([view], recipe.train)
    rates = [set_rates(optimiser, recipe.train, epoch) for epoch in range(4)]
    half = 2**0.5 / 2
    shares = [1, (1 + half) / 2, 0.5, (1 - half) / 2]
    assert rates == pytest.approx([5e-4 * share for share in shares])
    assert optimiser.param_groups[0]["lr"] == rates[-1]


def test_a_pretrained_encoder_waits_and_then_goes_slower(data, tmp_path, tiny_bert):  # noqa: F811
    content = small_recipe(data, epochs=1, pretrained_from=1, weight_decay=0.0)
    content["method"] |= {"text": "bert", "text_source": str(tiny_bert)}
    recipe = Recipe.from_dict("toy", content)
    fresh, _ = enrol(recipe, open_data(recipe), None)
    before = {n: p.clone() for n, p in fresh.views[0].state_dict().items()}
    run_recipe(content, tmp_path / "frozen")
    kept = Model.from_pretrained(tmp_path / "frozen").views[0].state_dict()
    for name, value in before.items():
        if "transformer" in name:
            assert torch.equal(kept[name], value), name
    assert not torch.equal(kept["text.project.weight"], before["text.project.weight"])

    content["train"] |= {"pretrained_from": 0}
    run_recipe(content, tmp_path / "free")
    freed = Model.from_pretrained(tmp_path / "free").views[0].state_dict()
    moved = {n: (freed[n] - v).abs().max() for n, v in before.items() if v.is_floating_point()}
    slow = max(value for name, value in moved.items() if "transformer" in name)
    fast = moved["text.project.weight"]
    assert 0 < slow < 0.5 * fast


def test_broken_features_are_refused_with_the_image(data, tmp_path):
    import shutil

    import numpy as np

    copy = tmp_path / "broken_precomp"
    shutil.copytree(data, copy)
    features = np.load(copy / "train_ims.npy")
    features[5, 1, 2] = np.nan
    np.save(copy / "train_ims.npy", features)
    with pytest.raises(BadFeatures) as caught:
        run_recipe(small_recipe(copy), tmp_path / "run")
    recipe = Recipe.from_dict("toy", small_recipe(copy))
    image = open_data(recipe).splits["train"].image_ids[5]
    assert str(caught.value) == (
        f"The features of image {image!r} hold NaN or infinite numbers. Expected "
        "finite ones; extract them again."
    )


def test_what_a_method_adds_is_computed_once_per_batch(monkeypatch):
    torch.manual_seed(0)
    views = [folder.build(methods, "vsrn", **SIZES, caption_dim=8) for _ in range(2)]
    own, counted = type(views[0]).regulariser, []
    monkeypatch.setattr(
        type(views[0]), "regulariser", lambda *sides: counted.append(1) or own(*sides)
    )
    loss, settings = folder.build(losses, "tcl", agreement_steps=3), Training()
    optimiser = torch.optim.SGD([p for view in views for p in view.parameters()], lr=0.1)
    learner = loop.Learner(
        Accelerator(cpu=True), Comparison(views), views, loss, optimiser, settings
    )
    lesson = Lesson.paired(3, epoch=1, step=0, views=2)
    learner.learn(Batch(regions([5, 3, 1]), tokens([7, 4, 2]), lesson))
    assert len(counted) == len(views)
    assert views[0].captioner is not None
    before = [parameter.clone() for parameter in views[0].captioner.parameters()]
    learner.learn(Batch(regions([4, 4, 2]), tokens([6, 4, 2]), lesson))
    after = views[0].captioner.parameters()
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_pool_brings_captions_of_a_length_together(data):
    batches = {pool: _pooled(data, pool) for pool in (1, 3)}
    for made in batches.values():
        assert sorted(pair for batch in made for pair in batch.lesson.pairs.tolist()) == list(
            range(sum(len(batch.lesson.pairs) for batch in made))
        )
    padding = {
        pool: sum(int((~batch.text.present).sum()) for batch in made)
        for pool, made in batches.items()
    }
    assert padding[3] < padding[1] / 2
    again = _pooled(data, 3)
    for one, other in zip(batches[3], again, strict=True):
        assert torch.equal(one.lesson.pairs, other.lesson.pairs)
    widths = [batch.text.ids.shape[1] for batch in again]
    assert widths != sorted(widths)  # batches come in any order


def _pooled(data: Path, pool: int) -> list[Batch]:
    """The batches of one epoch, as if captions had 1 to 5 words."""
    content = small_recipe(data, batch=10, pool=pool)
    recipe = Recipe.from_dict("toy", content)
    _, course = enrol(recipe, open_data(recipe), None)
    lengths = 1 + torch.arange(len(course.train.captions)) % 5
    table = replace(course.train_table, lengths=lengths)
    batches = Batches(course.train, table, recipe.train, 1, torch.device("cpu"))
    return list(batches.epoch(0))


def test_too_large_a_batch_is_refused(data, tmp_path):
    with pytest.raises(BadData) as caught:
        run_recipe(small_recipe(data, batch=1000), tmp_path / "run")
    assert str(caught.value) == (
        "The training split has 240 captions and a batch takes 1000. Expected at least "
        "one whole batch; lower train.batch."
    )


def test_a_run_is_never_overwritten(data, tmp_path):
    run = tmp_path / "run"
    recipe = Recipe.from_dict("toy", small_recipe(data))
    open_run(run, recipe, resume=False)
    with pytest.raises(WrongCheckpoint) as caught:
        open_run(run, recipe, resume=False)
    assert str(caught.value) == (
        f"There is a run in {str(run)!r} already. Expected a new folder: continue that run "
        "with --resume, or choose another --out."
    )
    other = Recipe.from_dict("toy", small_recipe(data, lr=0.1))
    open_run(run, other, resume=True)  # nothing was learnt yet
    assert json.loads((run / "recipe.json").read_text())["recipe"] == other.to_dict()
    (run / "last").write_text("last-00001-000000")
    with pytest.raises(WrongCheckpoint) as caught:
        open_run(run, recipe, resume=True)
    assert str(caught.value) == (
        f"The run in {str(run)!r} was started with other settings. Expected the same recipe "
        "and --set values to resume it; choose another --out for new ones."
    )


def test_a_truncated_training_state_is_refused(data, tmp_path):
    content = small_recipe(data, epochs=1)
    run = tmp_path / "run"
    run_recipe(content, run)
    state = run / (run / "last").read_text() / "training.pt"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(WrongCheckpoint) as caught:
        run_recipe(content, run, resume=True)
    assert str(caught.value).startswith(f"The training state {str(state)!r} cannot be used (")
    assert str(caught.value).endswith("train without --resume to start anew.")
