"""`avow trust` on a run trained by the test: figures, files, a page, and no second study."""

import json

import pytest
from samples import small_recipe, write_precomp
from test_cli import as_toml, command, tiny_photographs  # noqa: F401  (a fixture)

from avow.assembly.identity import search_fingerprint
from avow.assembly.model import Model
from avow.reports import figures, report
from avow.training.from_recipe import train
from avow.trust.policy import Policy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("studied")
    toml, out = home / "toy.toml", home / "run"
    data = write_precomp(home / "toy_precomp")
    toml.write_text(as_toml(small_recipe(data, "vse_infty", epochs=1)))
    train(str(toml), out=out, progress=False, device="cpu")
    return out


@pytest.fixture
def drawn_once(monkeypatch) -> None:
    """Of the figures, which `test_report.py` draws, one of a direction is, and once."""
    draw, kept = report.draw_all, {}

    def scatter(part, direction):
        if points := part.at("scatter"):
            yield figures.scatter(points.first, direction)

    monkeypatch.setattr(figures, "_of_direction", scatter)

    def remembered(studies):
        key = json.dumps(studies, sort_keys=True)
        if key not in kept:
            kept[key] = draw(studies)
        return kept[key]

    monkeypatch.setattr(report, "draw_all", remembered)


def test_the_study_of_a_run(command, run, drawn_once):  # noqa: F811
    arguments = ("trust", run, "--splits", 2, "--passes", 2, "--device", "cpu")
    code, out, err = command(*arguments, "--json")
    assert code == 0, err
    found = json.loads(out)
    study = found["studies"][0]
    assert set(study["directions"]) == {"text", "image"}
    passes_draw_the_batch_statistics_of_the_method(study, (run / "trust" / "index.html"))
    assert study["about"]["split"] == "test" and study["about"]["fitted_on"] == "dev"
    assert "calibrated trust" in study["directions"]["text"]["measures"]
    assert study["directions"]["text"]["corruption"]["kinds"]["words"][2]["ratio"] == 0.6
    folder = run / "trust"
    assert (folder / "index.html").is_file() and (folder / "study.json").is_file()
    policy = Policy.load(folder / "trust-run-text.json")
    assert (policy.event, policy.conditions.style) == ("right", "caption")
    assert policy.conditions.model == search_fingerprint(Model.from_pretrained(run, "cpu"))
    assert policy.held is not None and policy.promised(0.5).queries > 0
    assert json.loads((folder / "bank.json").read_text())["texts"]

    written = (folder / "study.json").stat().st_mtime_ns
    kept = list(folder.glob("study-*.json"))
    before = kept[0].stat().st_mtime_ns
    code, out, _ = command(*arguments)
    assert code == 0 and "tells right from wrong with AUROC" in out
    assert kept[0].stat().st_mtime_ns == before  # nothing was studied twice
    assert (folder / "study.json").stat().st_mtime_ns >= written


def test_a_missing_judgement_file_is_named(command, run, tmp_path):  # noqa: F811
    code, _, err = command(
        "trust", run, "--judgements", tmp_path / "none.json", "--no-corruption", "--splits", 2
    )
    assert code == 1
    assert err.startswith("avow: ") and "none.json" in err


def test_no_run_no_traceback(command, tmp_path):  # noqa: F811
    code, _, err = command("trust", tmp_path / "nothing")
    assert code == 1
    assert err.startswith(f"avow: There is no model in {str(tmp_path / 'nothing')!r}.")


def passes_draw_the_batch_statistics_of_the_method(study, page):
    name = "stochastic_bn: posterior uncertainty"
    assert name in study["directions"]["image"]["measures"]
    assert name not in study["directions"]["text"]["measures"]
    assert study["directions"]["image"]["scatter"]["by"] == "stochastic_bn"
    assert "mc_dropout: the method has no dropout above 0; left out" in study["notes"]
    told = page.read_text()
    assert "the method has no dropout above 0" in told
    assert "posterior uncertainty" in told and "Under drawn batch statistics" in told


def test_a_dataset_that_is_not_there_is_named_before_the_long_part(command, run, monkeypatch):  # noqa: F811
    def late(*_):
        raise AssertionError("the study has begun")

    monkeypatch.setattr("avow.study.plan.encode_split", late)
    code, _, err = command("trust", run, "--relevant", "cocoo", "--splits", 2)
    assert code == 1 and err.startswith("avow: There is no dataset 'cocoo'.")


def test_the_shipped_model_says_which_features_it_needs(command, tmp_path, monkeypatch):  # noqa: F811
    """`avow trust default` once said that there is no model called so."""
    tiny_photographs(tmp_path / "data" / "flickr8k")
    monkeypatch.setenv("AVOW_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AVOW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    code, _, err = command("trust", "default")
    assert code == 1 and err.startswith("avow: There are no features for 'default/photographs'")
    assert "avow features flickr8k --run RUN, where RUN is its folder or 'default'." in err
    assert not [*tmp_path.rglob("study*.json")]
    assert not (tmp_path / "trust").exists()  # it wrote nothing, so it leaves nothing
    (tmp_path / "trust").mkdir()
    assert command("trust", "default")[0] == 1 and [*(tmp_path / "trust").iterdir()] == []
