"""A backbone that learns with the views: its gradient, its weights in a saved model."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from avow.assembly.model import Model
from avow.backbones.efficientnet_lite0 import build
from avow.cli import app
from avow.core.errors import BadRecipe, WrongCheckpoint
from avow.data.features import FeatureStore
from avow.training.tuning import Tuning

SIZE, GRID, FIRST = 64, 2, 12


@pytest.fixture
def backbone() -> Any:
    return build(SIZE)


@pytest.fixture(scope="module")
def pixels() -> torch.Tensor:
    drawn = np.random.default_rng(0).integers(0, 256, (3, SIZE, SIZE, 3))
    return torch.from_numpy(drawn.astype(np.uint8))


def test_fused_weights_give_the_same_cells(backbone: Any, pixels: torch.Tensor):
    with torch.inference_mode():
        before, known = backbone(pixels), dict(backbone.identity)
        backbone.take(backbone.fused())
        after = backbone(pixels)
    torch.testing.assert_close(after, before, rtol=0.02, atol=0.02)
    assert backbone.identity != known, "features of other weights must not be mixed with these"


def test_one_step_follows_the_gradient_of_the_whole(backbone: Any, pixels: torch.Tensor):
    """Through the leaf comes what plain back-propagation gives, summed over two losses."""
    plain = copy.deepcopy(backbone).requires_grad_()
    cells = plain(pixels).reshape(len(pixels), -1, plain.dim)
    (cells.square().mean() + cells.amax(-1).mean()).backward()
    expected = dict(plain.network.named_parameters())

    tuning = Tuning(backbone, rate=1e-3, first_block=FIRST, keep=0.0, grid=GRID)
    leaf = tuning.see(pixels).features
    leaf.square().mean().backward()
    leaf.amax(-1).mean().backward()
    before = copy.deepcopy(backbone.network.state_dict())
    tuning.step(share_of_rate=1.0, keep_average=0.5)

    named = dict(backbone.network.named_parameters())
    norm = torch.cat([
        expected[name].grad.flatten()  # type: ignore[union-attr]
        for name in named
        if named[name].requires_grad
    ]).norm()  # fmt: skip
    clipped = min(1.0, 1.0 / float(norm))
    for name, parameter in named.items():
        moved = not torch.equal(parameter, before[name])
        learns = name.startswith(("_conv_head", "_bn1")) or (
            name.startswith("_blocks") and int(name.split(".")[1]) >= FIRST
        )
        assert moved == learns, name
        if learns:
            grad = expected[name].grad
            assert grad is not None
            torch.testing.assert_close(parameter.grad, grad * clipped, rtol=1e-3, atol=1e-6)
    slow = dict(tuning.average.network.named_parameters())["_conv_head.weight"]
    half_way = (before["_conv_head.weight"] + named["_conv_head.weight"]) / 2
    torch.testing.assert_close(slow, half_way)


def test_classes_are_held_to_those_of_the_frozen_backbone(backbone: Any, pixels: torch.Tensor):
    """Pulled away by a loss, the classes stay nearer with `keep` than without."""

    def moved(keep: float) -> float:
        tuning = Tuning(copy.deepcopy(backbone), 3e-4, FIRST, keep, GRID)
        for _ in range(6):
            (-tuning.see(pixels).features.mean()).backward()
            tuning.step(1.0, 0.0)
        with torch.no_grad():
            cells = tuning.see(pixels).features
            return float(tuning._divergence(cells, pixels))

    assert moved(keep=10.0) < 0.5 * moved(keep=0.0)


def tuned(model: Model, backbone: Any) -> Model:
    """`model` with a backbone that is no longer the packaged one."""
    with torch.no_grad():
        backbone.network._conv_head.weight.mul_(1.1)
    model.tuned = backbone.fused()
    backbone.take(model.tuned)
    model.visual = {**model.visual, "identity": backbone.identity}
    return model


def test_a_saved_model_brings_its_backbone(
    backbone: Any, pixels: torch.Tensor, tmp_path: Path, animals_with_pixels: Model
):
    model = tuned(animals_with_pixels, backbone)
    model.save_pretrained(tmp_path / "saved", half=True)
    opened = Model.from_pretrained(tmp_path / "saved")
    with torch.inference_mode():
        torch.testing.assert_close(opened.backbone(pixels), backbone(pixels), rtol=0, atol=0)


def test_weights_of_another_backbone_are_refused(
    backbone: Any, tmp_path: Path, animals_with_pixels: Model
):
    model = animals_with_pixels
    state = backbone.fused()
    for broken in (
        {name: t for name, t in state.items() if name != "_conv_head.weight"},
        state | {"_conv_head.weight": torch.zeros(3, 3)},
        state | {"other": torch.zeros(3)},
    ):
        model.tuned = broken
        model.save_pretrained(tmp_path / "saved")
        with pytest.raises(WrongCheckpoint, match="backbone"):
            Model.from_pretrained(tmp_path / "saved").backbone  # noqa: B018


def test_other_weights_than_the_features_were_made_by_are_refused(
    backbone: Any, tmp_path: Path, animals_with_pixels: Model
):
    model = animals_with_pixels
    model.tuned = backbone.fused()
    model.save_pretrained(tmp_path / "saved")  # its identity is still the frozen backbone's
    with pytest.raises(Exception, match="trained with"):
        Model.from_pretrained(tmp_path / "saved").backbone  # noqa: B018


def test_features_are_made_by_the_backbone_of_a_run(
    backbone: Any, pixels: torch.Tensor, tmp_path: Path, animals_with_pixels: Model
):
    """And are looked for where `avow features --run` puts them, apart from the frozen one's."""
    model = tuned(animals_with_pixels, backbone)
    model.save_pretrained(tmp_path / "saved")
    lines = []
    for number, picture in enumerate(pixels):
        Image.fromarray(picture.numpy()).save(tmp_path / f"{number}.png")
        lines.append({"image": f"{number}.png", "caption": f"number {number}", "split": "test"})
    data = tmp_path / "mine.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    home = {"AVOW_HOME": str(tmp_path / "home")}
    runner, run = CliRunner(), str(tmp_path / "saved")

    def evaluated():
        return runner.invoke(app, ["evaluate", run, "--data", str(data)], env=home)

    before = evaluated()
    assert f"avow features {data} --run RUN" in str(before.exception)
    made = runner.invoke(app, ["features", str(data), "--run", run, "--json"], env=home)
    assert made.exit_code == 0, made.output
    store = FeatureStore.open(Path(json.loads(made.output.splitlines()[-1])["folder"]))
    assert store.manifest["backbone"] == backbone.identity and store.manifest["grid"] == GRID
    after = evaluated()
    assert after.exit_code == 0, after.output


def test_a_backbone_without_such_weights_says_so(backbone: Any):
    from avow.core.contracts import Backbone

    with pytest.raises(BadRecipe, match="efficientnet_lite0"):
        Backbone.take(backbone, {})


@pytest.fixture
def animals_with_pixels(backbone: Any) -> Model:
    """An untrained model over the cells of `backbone`."""
    from avow.assembly.model import build_tokeniser, build_views
    from avow.assembly.recipe import Recipe

    recipe = Recipe.open(
        "flickr8k/vsepp_hinge",
        [
            "method.dim=16",
            "features.backbone=efficientnet_lite0",
            f"features.size={SIZE}",
            f"features.grid={GRID}",
        ],
    )
    tokeniser = build_tokeniser(recipe, ["a dog", "a cat"])
    views = build_views(recipe, tokeniser, backbone.dim)
    about = {"dim": backbone.dim, "parts": GRID**2, "identity": dict(backbone.identity)}
    return Model(recipe, views, tokeniser, about)
