"""Training from decoded photographs: the same loop, a network of pixels, several dev sets."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import avow
import avow.training.loop as loop
from avow.assembly.checkpoint import load_weights
from avow.assembly.model import Model
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData, BadRecipe, WrongCheckpoint
from avow.data.decoded_photographs import (
    LIST,
    PIXELS,
    DecodedPhotograph,
    open_photographs,
    write_list,
)
from avow.training.from_recipe import TrainedRun
from avow.training.pixel_setup import tellings

SIZE, GRID = 64, 2
COLOURS = ("red", "green", "blue")


def entry(name: str, split: str, number: int) -> dict:
    text = f"a {COLOURS[number % 3]} picture"
    about = {"set": name, "split": split, "id": f"{name}{split}{number}", "file": ""}
    return {**about, "texts": [text, f"it is {text}"], "labels": [], "times": 1}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs of one colour and some noise, of two datasets; the last is unreadable."""
    home = tmp_path_factory.mktemp("photographs")
    entries = [
        entry(name, split, number)
        for name, split, count in (("one", "train", 6), ("two", "train", 2), ("one", "dev", 3))
        for number in range(count)
    ]
    entries += [entry("two", "dev", number) for number in range(3)]
    entries.append(entry("three", "train", 0))
    pixels = np.random.default_rng(0).integers(0, 60, (len(entries), SIZE, SIZE, 3), np.uint8)
    for row, one in enumerate(entries):
        pixels[row, ..., int(one["id"][-1]) % 3] += 190
    np.save(home / PIXELS, pixels)
    write_list(home, entries, [len(entries) - 1])
    return home


def trained(cache: Path, run: Path, *changes: str, resume: bool = False) -> TrainedRun:
    small = [
        *("method.dim=8", "method.word_dim=6", f"train.photographs={cache}"),
        *("features.backbone=efficientnet_lite0", f"features.size={SIZE}"),
        *(f"features.grid={GRID}", "train.batch=4", "train.epochs=2", "train.average=0.5"),
        *("train.precision=fp32", "train.schedule=cosine_batches", "train.warm_up=3"),
    ]
    return avow.train(
        "flickr8k/vsepp_hinge",
        out=run,
        changes=[*small, *changes],
        resume=resume,
        device="cpu",
    )


@pytest.fixture(scope="module")
def first(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "first"
    trained(cache, run, "train.save_half=true", "train.epochs=1")
    return run


TUNED = ("train.tune=0.01", "train.tune_from=12")


def state(run: Path) -> dict:
    return torch.load(run / (run / "last").read_text() / "training.pt", weights_only=True)


def test_a_run_from_photographs_is_a_model(first: Path):
    model = Model.from_pretrained(first)
    assert model.history["learnt"] == ["one", "two"]
    assert model.learnt_from(PairedDataset("two", {}))
    dev = model.history["dev"]
    assert dev["rsum"] == pytest.approx(dev["rsum_one"] + dev["rsum_two"])
    lines = [json.loads(line) for line in (first / "log.jsonl").read_text().splitlines()]
    assert [line["batches"] for line in lines] == [2], "eight photographs in batches of four"
    assert not model.tuned and model.backbone.identity == model.visual["identity"]
    best = first / (first / "best").read_text()
    kinds = {tensor.dtype for tensor in load_weights(best).values()}
    assert torch.float16 in kinds and torch.float32 not in kinds


def test_the_average_is_what_is_kept(first: Path):
    kept, reached = load_weights(first / (first / "best").read_text()), state(first)
    average, learnt = reached["average"]["0"], reached["views"][0]
    for name, tensor in average.items():
        expected = tensor.half() if tensor.is_floating_point() else tensor
        assert torch.equal(kept[f"0.{name}"], expected), name
    assert any(not torch.equal(average[name], learnt[name]) for name in learnt)


def test_a_second_stage_goes_on_with_the_pixel_network(
    cache: Path, first: Path, tmp_path: Path
):
    quiet = ("train.lr=1e-9", "train.epochs=1")
    trained(cache, tmp_path / "second", f"train.start={first}", *TUNED, *quiet)
    before, model = Model.from_pretrained(first), Model.from_pretrained(tmp_path / "second")
    assert model.history["start"] == before.fingerprint
    after = dict(model.views[0].named_parameters())
    for name, parameter in before.views[0].named_parameters():
        torch.testing.assert_close(after[name], parameter, atol=1e-6, rtol=1e-3)
    assert model.tuned and model.visual["identity"] != before.visual["identity"]
    frozen = before.backbone.state_dict()
    moved = state(tmp_path / "second")["pixels"]["backbone"]
    head, early = "network._conv_head.weight", "network._blocks.3._depthwise_conv.weight"
    assert not torch.equal(moved[head], frozen[head])
    assert torch.equal(moved[early], frozen[early])
    usual = "method.text_pool=same"  # a setting that is written out is not another method
    go_on = f"train.start={tmp_path / 'second'}"
    trained(cache, tmp_path / "third", go_on, usual, "train.epochs=1")
    third = Model.from_pretrained(tmp_path / "third")
    assert third.own_backbone == model.own_backbone, "it goes on with the network of its start"


def test_stopped_inside_an_epoch_and_resumed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Views, average and pixel network end with the very same weights."""
    epochs = 2 if os.environ.get("AVOW_LONG_TESTS") else 1
    tuned, stop = (*TUNED, f"train.epochs={epochs}"), 2 * epochs
    trained(cache, tmp_path / "whole", *tuned)
    learn, seen = loop.Learner.learn, 0

    def learn_and_stop(self, batch):
        nonlocal seen
        seen += 1
        if seen == stop:  # two batches an epoch: the second of the last
            raise KeyboardInterrupt
        return learn(self, batch)

    monkeypatch.setattr(loop.Learner, "learn", learn_and_stop)
    monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)
    with pytest.raises(KeyboardInterrupt):
        trained(cache, tmp_path / "stopped", *tuned)
    assert (tmp_path / "stopped" / "last").read_text() == f"last-{epochs - 1:05d}-000001"
    monkeypatch.setattr(loop.Learner, "learn", learn)
    trained(cache, tmp_path / "stopped", *tuned, resume=True)
    one, other = state(tmp_path / "whole"), state(tmp_path / "stopped")
    for part in (("views", 0), ("average", "0"), ("pixels", "backbone"), ("pixels", "average")):
        mine, yours = one[part[0]][part[1]], other[part[0]][part[1]]
        assert all(torch.equal(mine[name], yours[name]) for name in mine), part


def test_labels_are_drawn_in_a_fifth_of_the_cases():
    photographs = [
        DecodedPhotograph(0, "one", "train", "a", ("x", "y"), ("label",)),
        DecodedPhotograph(1, "one", "train", "b", ("z",), (), times=3),
    ]
    split, telling = tellings(photographs)
    assert split.captions == ("x", "y", "label", "z")
    assert split.image_of.tolist() == [0, 0, 0, 1]
    assert telling.image.tolist() == [0, 1, 1, 1]
    drawn = telling.texts[0].tolist()
    assert drawn.count(2) / len(drawn) == pytest.approx(0.2)
    assert telling.texts[1].tolist() == [3]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (["train.tune=1e-3", "train.photographs=''"], BadRecipe, "train.photographs is not"),
        (["features.size=96"], BadData, "64 pixels a side"),
        (["train.tune=1e-3", "train.tune_from=99"], BadRecipe, "blocks"),
        (["train.average=1.0"], BadRecipe, "train.average"),
        (["train.warm_up=-1"], BadRecipe, "train.warm_up"),
        (["noise.ratio=0.2"], BadRecipe, "noise"),
        (["train.batch=9"], BadData, "lower train.batch"),
        (["train.photographs=no_such_folder"], BadData, "no_such_folder"),
    ],
)
def test_what_cannot_be_trained_is_refused(cache, tmp_path, changes, error, words):
    with pytest.raises(error, match=words):
        trained(cache, tmp_path / "run", *changes)


def test_a_start_of_another_method_is_refused(cache: Path, first: Path, tmp_path: Path):
    with pytest.raises(WrongCheckpoint, match="views of"):
        trained(cache, tmp_path / "run", f"train.start={first}", "method.dim=4")


def test_a_list_of_another_format_is_refused(cache: Path, tmp_path: Path):
    content = json.loads((cache / LIST).read_text())
    (tmp_path / LIST).write_text(json.dumps({**content, "format": 1}))
    with pytest.raises(BadData, match="prepare"):
        open_photographs(str(tmp_path))
    (tmp_path / LIST).write_text(json.dumps({**content, "bad": []}))
    np.save(tmp_path / PIXELS, np.zeros((2, 4, 4, 3), np.uint8))
    with pytest.raises(BadData, match="shape"):
        open_photographs(str(tmp_path))
