"""Recipes: every one that ships can be opened, and every mistake is named."""

import pytest
from every import every

from avow.assembly.recipe import Recipe, header, names
from avow.core.errors import BadRecipe, UnknownName


def builds_its_parts(name: str) -> None:
    recipe = Recipe.open(name)
    assert recipe.build_loss().views in (1, 2)
    if recipe.method.get("text") != "bert":  # needs the hub
        width = 1280 if recipe.method.get("names") else 16  # as the classifier needs it
        # the vectors of a thousand names take long to make, and test_names.py makes them
        made = {"pretrained": False} if recipe.method.get("names") else {}
        recipe.build_method(visual_dim=width, vocabulary=9, dim=8, **made)
    assert Recipe.from_dict(name, recipe.to_dict()) == recipe


def test_every_recipe_builds_its_parts():
    every(names(), builds_its_parts)


def says_command_and_result(name: str) -> None:
    text = header(name)
    commands = ("avow train " + name, "make sample")
    assert any(command in text for command in commands)
    assert any(word in text for word in ("rSum", "Nothing is claimed", "Paper"))


def test_every_header_says_command_and_result():
    every(names(), says_command_and_result)


def test_there_is_a_recipe_for_every_method_and_loss_on_flickr8k():
    for method in ("vsepp", "tcvse", "vse_infty", "vsrn", "gsmn_dense", "dive"):
        for loss in ("hinge", "tcl"):
            assert f"flickr8k/{method}_{loss}" in names()


# Table 1 of DECL's supplement: noise, warmup_epochs, epochs, lr_update, learning_rate
TABLE_1 = {
    "f30k": [((0.0, 0.2, 0.4), 5, 40, 20, 2e-4), ((0.6, 0.8), 2, 40, 20, 2e-4)],
    "coco": [((0.0, 0.2, 0.4), 2, 20, 10, 5e-4), ((0.6, 0.8), 1, 20, 10, 5e-4)],
    "cc152k": [((0.0,), 5, 40, 20, 2e-4)],
}


DECL = [name for name in names() if "_decl" in name and name.split("/")[0] in TABLE_1]


def test_every_decl_recipe_is_one_of_the_table_or_of_flickr8k():
    with_decl = [name for name in names() if Recipe.open(name).loss["name"] == "decl"]
    assert [name for name in with_decl if not name.startswith("flickr8k/")] == DECL
    for home in TABLE_1:
        assert {f"{home}/saf_decl", f"{home}/sgr_decl"} <= set(DECL)


@pytest.mark.parametrize("name", DECL)
def test_decl_recipes_have_the_values_of_table_1(name):
    recipe = Recipe.open(name)
    home, method = name.split("/")
    noise = recipe.noise.ratio if recipe.noise else 0.0
    (row,) = [row for row in TABLE_1[home] if noise in row[0]]
    _, warm_up, epochs, lr_update, rate = row
    shared = {"tau": 0.1, "hinge": 0.8, "kl": 0.1, "easing": 0.025, "fewest": 5}
    assert recipe.loss == {"name": "decl", **shared, "warm_up": warm_up}
    train = recipe.train
    assert (train.batch, train.lr, train.optimiser) == (128, rate, "adam")
    # the warm-up comes before what the table counts
    assert (train.epochs, train.decay_after) == (warm_up + epochs, warm_up + lr_update)
    assert recipe.data == {"name": f"{home}_precomp"}
    assert recipe.method == {"name": method[:3], "text": "gru", "squash": "tanh"}
    assert recipe.noise is None or recipe.noise.by == "image"


def message(error: type[Exception], *arguments, **keywords) -> str:
    with pytest.raises(error) as caught:
        Recipe.open(*arguments, **keywords)
    return str(caught.value)


def test_changes_are_applied_and_typed():
    recipe = Recipe.open(
        "flickr8k/vse_infty_tcl", ["loss.tau=0.1", "train.epochs=2", "method.text=minilm"]
    )
    assert recipe.loss["tau"] == 0.1
    assert recipe.train.epochs == 2
    assert recipe.method["text"] == "minilm"


def test_another_loss():
    recipe = Recipe.open("flickr8k/vse_infty_tcl", loss="hinge")
    assert recipe.loss == {"name": "hinge"}


def test_unknown_recipe():
    text = message(UnknownName, "flickr8k/vse_infy_tcl")
    assert text.startswith(
        "There is no 'flickr8k/vse_infy_tcl' in recipes. Did you mean "
        "'flickr8k/vse_infty_tcl'? There are: "
    )


def test_unknown_loss_setting():
    assert message(BadRecipe, "flickr8k/vse_infty_tcl", ["loss.taw=0.1"]) == (
        "'tcl' in losses has no setting 'taw'. Did you mean 'tau'? It has: tau, evidence, "
        "kl_rate, kl_most, agreement_steps, agree_from, learn, risk_steps, others."
    )


def test_unknown_training_setting():
    text = message(BadRecipe, "flickr8k/vse_infty_tcl", ["train.epoch=3"])
    assert text.startswith(
        "[train] has no setting 'epoch'. Did you mean 'epochs'? It has: epochs, batch, lr, "
    )


def test_unknown_part():
    assert message(BadRecipe, "flickr8k/vse_infty_tcl", ["optimiser.lr=3"]) == (
        "A recipe has no setting 'optimiser'. It has: data, features, method, loss, train, "
        "noise."
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("loss.tau=warm", "tau of 'tcl' in losses is 'warm'. Expected a value of type float."),
        ("train.epochs=2.5", "train.epochs is 2.5. Expected a value of type int."),
        ("train.epochs=true", "train.epochs is True. Expected a value of type int."),
        (
            "train.precision=fp8",
            "train.precision is 'fp8'. Expected one of: 'fp32', 'tf32', 'bf16'.",
        ),
        (
            "method.text=lstm",
            "text of 'vse_infty' in methods is 'lstm'. Expected one of: 'gru', 'glove', "
            "'bert', 'minilm', 'adapted', 'kept'.",
        ),
        (
            "tau",
            "The change 'tau' cannot be read. Expected part.key=value, such as loss.tau=0.1.",
        ),
    ],
)
def test_values_of_the_wrong_kind(change, expected):
    assert message(BadRecipe, "flickr8k/vse_infty_tcl", [change]) == expected


def test_broken_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[data\nname = 3")
    text = message(BadRecipe, str(path))
    assert text.startswith(f"The recipe {str(path)!r} is not valid TOML: ")
    assert text.endswith("mend the line named.")


def test_a_part_without_a_name():
    with pytest.raises(BadRecipe) as caught:
        Recipe.from_dict("mine", {"data": {"name": "x"}, "method": {}, "loss": {"name": "tcl"}})
    assert str(caught.value) == (
        "The recipe 'mine' has no name in [method]. Expected name = \"…\" there."
    )


def test_unknown_method_and_loss():
    assert message(UnknownName, "flickr8k/vse_infty_tcl", loss="tlc") == (
        "There is no 'tlc' in losses. Did you mean 'tcl'? There are: decl, hinge, ncr, "
        "selhn, strangers, tcl, tcl_decl, teachtext."
    )


@pytest.mark.parametrize("change", ["batch=0", "epochs=0", "lr=nan", "lr=0", "lr=inf"])
def test_nothing_is_learnt_with_such_settings(change):
    key = change.partition("=")[0]
    text = message(BadRecipe, "flickr8k/vse_infty_tcl", [f"train.{change}"])
    assert text.startswith(f"train.{key} is ") and text.endswith(f"; change train.{key}.")


def test_a_later_setting_is_told_only_where_it_is_set():
    """The fingerprints of saved models, and so their indexes and policies, stay the same."""
    plain = Recipe.open("flickr8k/vse_infty_hinge")
    assert "pool" not in plain.to_dict()["train"]
    pooled = Recipe.open("flickr8k/vse_infty_hinge", ["train.pool=16", "noise.ratio=0.2"])
    content = pooled.to_dict()
    assert content["train"]["pool"] == 16 and "left_out" not in content["noise"]
    assert Recipe.from_dict(pooled.name, content) == pooled
