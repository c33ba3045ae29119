"""Measures over many passes in a study: drawn batch statistics, photographs, what is absent."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from samples import SIZES, small_recipe, write_precomp
from test_passes import Squares, photographs
from test_study import world

from avow.assembly.model import Model, build_views
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.recipe import Features, Recipe
from avow.assembly.scored_split import encode_split, score
from avow.assembly.scores import Blocks
from avow.core.errors import BadData
from avow.data.opening import open_dataset
from avow.data.vocabulary import Vocabulary
from avow.study.direction import OURS, Direction, study_direction
from avow.study.stochastic import FROM_PIXELS, drawn_statistics, dropped, from_pixels


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = write_precomp(tmp_path_factory.mktemp("data") / "toy_precomp")
    return open_dataset(name=str(place))


def model(data, **method) -> Model:
    torch.manual_seed(0)
    content = small_recipe("toy", "vse_infty")
    content["method"] |= method
    recipe = Recipe.from_dict("toy", content)
    vocabulary = Vocabulary.from_captions(data.splits["train"].captions)
    views = build_views(recipe, vocabulary, SIZES["visual_dim"])
    return Model(recipe, views, vocabulary, {"dim": 12}).to("cpu")


def asked(made: Model, split: FeaturedSplit, query):
    return score(made, encode_split(made, split, Blocks()), None, Blocks())[query].asked()


def test_batch_statistics_of_the_method_are_drawn(data):
    made = model(data)
    test, train = (FeaturedSplit.join(data, name, None) for name in ("test", "train"))
    repeated = drawn_statistics(made, test, train, 3)
    found = repeated.measure(asked(made, test, "image"), "image")
    assert set(found) == {
        f"stochastic_bn: {kind}"
        for kind in (
            "posterior uncertainty",
            "expected entropy",
            "variation ratio",
            "feature uncertainty",
        )
    }
    assert all(values.shape == (24,) for values in found.values())
    assert (found["stochastic_bn: feature uncertainty"] > 0).all()
    assert repeated.measure(asked(made, test, "text"), "text") == {}
    assert repeated.notes() == [
        "stochastic_bn: text queries pass nothing that is left to chance"
    ]


def test_what_a_network_lacks_is_said(data):
    made = model(data, name="scan")
    test = FeaturedSplit.join(data, "test", None)
    for repeated in (dropped(made, test, 3), drawn_statistics(made, test, test, 3)):
        assert repeated.measure(asked(made, test, "image"), "image") == {}
        (note,) = repeated.notes()
        assert note.endswith("; left out")


def with_photographs(split, folder):
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, photograph in enumerate(photographs(len(split.image_ids))):
        files.append(folder / f"{number}.png")
        photograph.save(files[-1])
    return replace(split, files=tuple(files))


def test_photographs_pass_the_drawn_backbone_of_a_run(data, tmp_path):
    made = model(data)
    made.recipe = replace(made.recipe, features=Features(grid=2))
    made.backbone = Squares().eval()
    test = FeaturedSplit.join(data, "test", None)
    shown = with_photographs(data.splits["test"], tmp_path / "test")
    learnt = with_photographs(data.splits["train"], tmp_path / "train")
    repeated = from_pixels(made, test, shown, learnt, count=2, most=5, seed=1)
    found = repeated.measure(asked(made, test, "image"), "image")
    moved = found[f"{FROM_PIXELS}: feature uncertainty"]
    chosen = np.flatnonzero(~np.isnan(moved))
    assert len(chosen) == 5 and (moved[chosen] > 0).all()
    assert set(chosen) == set(np.random.default_rng(1).permutation(24)[:5])
    assert "2 passes of 5 of 24 photographs (drawn with seed 1)" in repeated.notes()[0]
    assert repeated.measure(asked(made, test, "text"), "text") == {}


def test_without_photographs_there_are_no_pixels(data):
    made = model(data)
    test, split = FeaturedSplit.join(data, "test", None), data.splits["test"]
    assert from_pixels(made, test, split, split).notes() == [
        f"{FROM_PIXELS}: the run reads features that came with its dataset, not photographs; "
        "left out"
    ]
    made.recipe = replace(made.recipe, features=Features(grid=2))
    made.backbone = Squares().eval()
    with pytest.raises(BadData, match="The dataset has no photographs"):
        from_pixels(made, test, split, split)


def test_a_measure_of_some_queries_is_judged_on_them():
    judged = world(images=60, seed=2)
    rng = np.random.default_rng(0)
    doubt = rng.random(len(judged.match))
    doubt[rng.permutation(len(doubt))[:80]] = np.nan
    direction = Direction(world(images=60, seed=1), judged)
    found, _ = study_direction(direction, extra={"some": doubt}, splits=2, draws=10)
    row = found["measures"]["some"]
    assert row["queries"] == 40 and np.isfinite(row["auroc"])
    assert "queries" not in found["measures"][OURS]
    assert all(map(np.isfinite, found["ahead"]["some"].values()))
    assert found["curves"]["some"]["coverage"][-1] == 1
