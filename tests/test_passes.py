"""Stochastic passes: chance only where asked, nothing computed twice, nothing left behind."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from samples import SIZES, regions, write_precomp
from torch import nn

from avow import methods, uncertainty
from avow.assembly.pairs import FeaturedSplit, some
from avow.assembly.scores import Blocks
from avow.assembly.stochastic.batch_statistics import (
    BatchStatistics,
    DrawnStatistics,
    collect_from_split,
)
from avow.assembly.stochastic.chance import Chance, KeptDropout
from avow.assembly.stochastic.passes import Drawing, Passes, Pixels
from avow.backbones import efficientnet_lite0
from avow.core import folder
from avow.core.contracts import (
    Backbone,
    Encoded,
    Method,
    PooledMethod,
    QueryBatch,
    Regions,
    Tokens,
    VectorMethod,
)
from avow.core.errors import BadData, BadRecipe, WrongCheckpoint
from avow.data.captions import TokenTable
from avow.data.opening import open_dataset
from avow.data.vocabulary import Vocabulary
from avow.uncertainty._drawn import averaged_over_features

CAPTIONS = ("a red dog runs", "two cats", "the fish", "a dog sits on a mat", "blue horse")
IMAGES = regions([5, 3, 4, 5])


def network(name: str = "vse_infty", seed: int = 0, **drops: float) -> Method:
    torch.manual_seed(seed)
    method = folder.build(methods, name, **SIZES, **drops)
    for layer in method.modules():  # as if trained: statistics that are not 0 and 1
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    return method.eval()


def table() -> TokenTable:
    return TokenTable.from_captions(Vocabulary.from_captions(CAPTIONS * 4), CAPTIONS)


def passes(views: list[Method], chance: Chance | None = None, **settings) -> Passes:
    blocks = settings.pop("blocks", None)
    items = IMAGES, table(), chance or KeptDropout(views), "cpu"
    return Passes(views, *items, Drawing(**settings), blocks=blocks)


def every_token() -> Tokens:
    return table().tokens(torch.arange(len(CAPTIONS)))


@torch.no_grad()
def plain_scores(view: Method) -> torch.Tensor:
    """One evaluation, without chance."""
    return view.similarity(view.encode_visual(IMAGES), view.encode_text(every_token()))


def first(made: Passes, query, count: int = 3) -> list:
    draws = made.draws(query)()
    return [next(draws) for _ in range(count)]


@contextmanager
def unchanged(*networks: nn.Module) -> Iterator[None]:
    """Weights, buffers, modes and the generator are afterwards what they were."""

    def state() -> list:
        tensors = [t.clone() for n in networks for t in n.state_dict().values()]
        return [*tensors, torch.get_rng_state()]

    def modes() -> list[bool]:
        return [layer.training for n in networks for layer in n.modules()]

    before, flags = state(), modes()
    yield
    assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert flags == modes()


# --- dropout --------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["image", "text"])
@pytest.mark.parametrize("drop", ["dropout_head", "dropout_word", "dropout_image"])
def test_dropout_moves_its_own_side_only(drop, query):
    view = network(**{drop: 0.5})
    made = passes([view])
    if (drop, query) in (("dropout_word", "image"), ("dropout_image", "text")):
        with pytest.raises(BadRecipe):
            made.draws(query)
        return
    one, two, _ = first(made, query)
    assert one.similarity.shape == ((4, 5) if query == "image" else (5, 4))
    assert not torch.allclose(one.vectors, two.vectors)
    assert not torch.allclose(one.similarity, two.similarity)
    torch.testing.assert_close(one.similarity, one.vectors @ made.candidates(query).T)


@pytest.mark.parametrize("drop", ["dropout_head", "dropout_word", "dropout_image"])
def test_candidates_are_those_of_plain_evaluation(drop):
    view = network(**{drop: 0.5})
    made = passes([view])
    scores = made.candidates("text") @ made.candidates("image").T
    torch.testing.assert_close(scores, plain_scores(view))


@pytest.mark.parametrize("drop", ["dropout_head", "dropout_word", "dropout_image"])
def test_the_network_is_itself_again_after_every_pass(drop):
    view = network(**{drop: 0.5})
    draws = passes([view]).draws("text" if drop == "dropout_word" else "image")()
    before = plain_scores(view)
    with unchanged(view):
        for _ in range(3):
            next(draws)  # the generator stays open, and yet nothing is left drawn
            assert torch.equal(plain_scores(view), before)


def test_a_pass_that_fails_leaves_no_dropout_on():
    view = network(dropout_head=0.5)
    with unchanged(view), pytest.raises(RuntimeError), KeptDropout([view]).drawn(0):
        assert view.drop.training and not view.training
        raise RuntimeError


def test_only_dropout_is_as_in_training():
    view = network(dropout_head=0.5, dropout_image=0.3)
    with KeptDropout([view]).drawn(0):
        on = {name for name, layer in view.named_modules() if layer.training}
    assert on == {"drop", "visual.drop"}  # not the word dropout of 0, not the batch norm


def test_draws_are_repeatable_and_each_is_another():
    view = network(dropout_head=0.5, dropout_word=0.2)
    torch.manual_seed(1)
    once = first(passes([view]), "text", 4)
    torch.manual_seed(2)
    torch.rand(10)
    made = passes([view])
    again = first(made, "text", 4)
    assert all(torch.equal(a.vectors, b.vectors) for a, b in zip(once, again, strict=True))
    twice = first(made, "text", 4)
    assert all(torch.equal(a.vectors, b.vectors) for a, b in zip(once, twice, strict=True))
    assert not torch.equal(once[0].vectors, once[1].vectors)
    other = first(passes([view], seed=1), "text", 1)
    assert not torch.equal(once[0].vectors, other[0].vectors)


class Whole(VectorMethod):
    """The same network, without saying where its pooling ends."""

    def __init__(self, inner: PooledMethod):
        super().__init__()
        self.inner = inner

    def encode_visual(self, visual: Regions) -> Encoded:
        return self.inner.encode_visual(visual)

    def encode_text(self, text: Tokens) -> Encoded:
        return self.inner.encode_text(text)


@pytest.mark.parametrize("query", ["image", "text"])
def test_keeping_what_was_pooled_gives_the_same_draws(query):
    """In one block, and with captions in the order of their lengths, the dice are equal."""
    view = network(dropout_head=0.5)
    ordered = sorted(CAPTIONS, key=lambda caption: len(caption.split()))
    texts = TokenTable.from_captions(Vocabulary.from_captions(CAPTIONS * 4), ordered)
    quick, whole = (
        first(Passes([one], IMAGES, texts, KeptDropout([one]), "cpu"), query)
        for one in (view, Whole(view))
    )
    for one, other in zip(quick, whole, strict=True):
        torch.testing.assert_close(one.vectors, other.vectors)
        torch.testing.assert_close(one.similarity, other.similarity)


class Counting:
    """How many items went through a method."""

    def __init__(self, monkeypatch, view: Method, *names: str):
        self.items = dict.fromkeys(names, 0)
        for name in names:
            monkeypatch.setattr(view, name, self._counted(name, getattr(view, name)))

    def _counted(self, name, inner):
        def call(items):
            self.items[name] += len(items.present)
            return inner(items)

        return call


@pytest.mark.parametrize(
    ("drop", "query", "images", "texts"),
    [
        ("dropout_head", "image", 4, 5),
        ("dropout_head", "text", 4, 5),
        ("dropout_word", "text", 4, 5 * 7),
        ("dropout_image", "image", 4 * 7, 5),
    ],
)
def test_what_chance_does_not_touch_is_encoded_once(monkeypatch, drop, query, images, texts):
    view = network(**{drop: 0.5})
    count = Counting(monkeypatch, view, "pool_visual", "pool_text")
    made = passes([view])
    first(made, query, 7)
    one_item = 2  # one look at a single item each: where does chance enter?
    assert images <= count.items["pool_visual"] <= images + one_item
    assert texts <= count.items["pool_text"] <= texts + one_item


def test_both_directions_share_what_was_pooled(monkeypatch):
    view = network(dropout_head=0.5)
    count = Counting(monkeypatch, view, "pool_visual", "pool_text")
    made = passes([view])
    first(made, "image", 5), first(made, "text", 5)
    assert count.items["pool_visual"] <= 4 + 2 and count.items["pool_text"] <= 5 + 2


@pytest.mark.parametrize(
    ("drop", "query"), [("dropout_word", "text"), ("dropout_image", "image")]
)
def test_blocks_keep_the_order_of_the_items(drop, query):
    """The dice fall otherwise, but every item is nearest to itself."""
    view = network(**{drop: 0.05})
    whole = first(passes([view]), query, 1)[0].vectors
    parts = first(passes([view], blocks=Blocks(encode=2)), query, 1)[0].vectors
    assert (whole @ parts.T).argmax(-1).tolist() == list(range(len(whole)))


def test_views_stand_side_by_side():
    """One vector for both views, and its products are the mean of their similarities."""
    views = [network(dropout_head=0.3), network(dropout_head=0.3, seed=1)]
    made = passes(views)
    for query in ("image", "text"):
        draw = first(made, query, 1)[0]
        torch.testing.assert_close(draw.vectors.norm(dim=-1), torch.ones(len(draw.vectors)))
        mine, theirs = draw.vectors.split(8, -1), made.candidates(query).split(8, -1)
        for part in (*mine, *theirs):
            expected = torch.full((len(part),), math.sqrt(0.5))
            torch.testing.assert_close(part.norm(dim=-1), expected)
        mean = sum(2 * a @ b.T for a, b in zip(mine, theirs, strict=True)) / 2
        torch.testing.assert_close(draw.similarity, mean)


def test_candidates_can_be_averaged_over_draws():
    view = network(dropout_head=0.5)
    many = passes([view], average_candidates=300).candidates("image")
    plain = passes([view]).candidates("image")
    torch.testing.assert_close(many.norm(dim=-1), torch.ones(5))
    once = passes([view], average_candidates=1).candidates("image")
    assert not torch.allclose(many, plain, atol=1e-3)
    assert ((many * plain).sum(-1) > (once * plain).sum(-1)).all()


def test_candidates_can_be_drawn_too():
    view = network(dropout_word=0.5)
    one, two, _ = first(passes([view], sides="both"), "image")
    assert torch.equal(one.vectors, two.vectors)
    assert not torch.allclose(one.similarity, two.similarity)


def test_a_certain_network_is_refused():
    view = network()
    with pytest.raises(BadRecipe) as caught:
        passes([view]).draws("text")
    assert str(caught.value) == (
        "Nothing is left to chance where 'text' queries are encoded. Expected dropout above "
        "0 or drawn batch statistics on their way; train with method.dropout_head = 0.1, or "
        'pass sides="both".'
    )


# --- a method that compares parts -------------------------------------------------------


class Parts(Method):
    """The largest product of any word with any region; dropout at both ends."""

    def __init__(self, words: float, score: float):
        super().__init__()
        self.visual, self.words = nn.Linear(12, 8), nn.Embedding(30, 8)
        self.drop_words, self.drop_score = nn.Dropout(words), nn.Dropout(score)

    def encode_visual(self, visual: Regions) -> Encoded:
        return Encoded(self.visual(visual.features), visual.present)

    def encode_text(self, text: Tokens) -> Encoded:
        return Encoded(self.drop_words(self.words(text.ids)), text.present)

    def score(self, visual: Encoded, text: Encoded) -> torch.Tensor:
        products = torch.einsum("ird,twd->itrw", visual.parts, text.parts)
        inside = visual.present[:, None, :, None] & text.present[None, :, None]
        best = products.masked_fill(~inside, -9).flatten(2).amax(-1)
        return self.drop_score(best.tanh())


def test_parts_are_scored_in_every_pass():
    torch.manual_seed(0)
    view = Parts(0.5, 0.0).eval()
    made = passes([view])
    scores, again = (first(made, "text", 2) for _ in range(2))
    assert scores[0].vectors is None and scores[0].similarity.shape == (5, 4)
    assert not torch.equal(scores[0].similarity, scores[1].similarity)
    assert torch.equal(scores[1].similarity, again[1].similarity)
    with pytest.raises(BadRecipe):
        made.draws("image")


def test_chance_in_the_score_counts_for_both_directions():
    torch.manual_seed(0)
    view = Parts(0.0, 0.5).eval()
    made = passes([view])
    with unchanged(view):
        found = first(made, "image", 3)
    for draw in found:  # dropout leaves nothing or doubles
        doubled = torch.isclose(draw.similarity, 2 * plain_scores(view))
        assert ((draw.similarity == 0) | doubled).all() and doubled.any()
    assert first(made, "text", 1)[0].similarity.shape == (5, 4)


def test_parts_cannot_be_averaged():
    with pytest.raises(BadRecipe) as caught:
        passes([Parts(0.5, 0.5)], average_candidates=3)
    assert str(caught.value) == (
        "average_candidates is 3 and the method compares parts. Expected a method with one "
        "vector per item; leave average_candidates at 0."
    )


# --- drawn batch statistics -------------------------------------------------------------


def batches(count: int = 6, size: int = 8) -> list[Regions]:
    return [regions([5] * size, seed=10 + number) for number in range(count)]


def test_statistics_of_batches_against_numpy():
    view = network()
    with unchanged(view):
        found = BatchStatistics.collect(view, view.encode_visual, batches())
    assert list(found.layers) == ["visual.bend.norm"]
    rows = [
        view.visual.bend.narrow(batch.features.flatten(0, 1)).detach().numpy()
        for batch in batches()
    ]
    means, logs = [np.stack([f(row) for row in rows]) for f in (_mean, _log_variance)]
    expected = np.stack(
        [means.mean(0), means.std(0, ddof=1), logs.mean(0), logs.std(0, ddof=1)]
    )
    np.testing.assert_allclose(found.layers["visual.bend.norm"], expected, rtol=1e-4, atol=1e-6)


def _mean(rows: np.ndarray) -> np.ndarray:
    return rows.mean(0)


def _log_variance(rows: np.ndarray) -> np.ndarray:
    return np.log(rows.var(0))


def test_deeper_layers_see_batches_normalised_as_in_training():
    torch.manual_seed(0)
    deep = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU(), nn.BatchNorm1d(3)).eval()
    data = [torch.randn(16, 3) * 5 + number for number in range(4)]
    found = BatchStatistics.collect(deep, deep, data).layers["2"]
    twin = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU())
    seen = torch.stack([twin(batch).mean(0) for batch in data])
    torch.testing.assert_close(found[0], seen.mean(0).detach())


def test_a_dead_channel_stays_dead():
    norm = nn.BatchNorm1d(2).eval()
    data = [torch.stack([torch.randn(8), torch.ones(8)], 1) for _ in range(3)]
    found = BatchStatistics.collect(norm, norm, data)
    with DrawnStatistics(norm, found).drawn(0):
        assert norm(data[0]).isfinite().all()


def test_drawn_statistics_have_the_distribution_they_were_given():
    norm = nn.BatchNorm1d(2).eval()
    numbers = torch.tensor([[1.0, -2.0], [0.5, 0.1], [0.3, -1.0], [0.2, 0.05]])
    chance = DrawnStatistics(norm, BatchStatistics({"": numbers}))
    means, logs = [], []
    with unchanged(norm):
        for number in range(2000):
            with chance.drawn(0, number):
                means.append(norm.running_mean.clone())
                logs.append(norm.running_var.log())
    means, logs = torch.stack(means), torch.stack(logs)
    torch.testing.assert_close(means.mean(0), numbers[0], atol=0.05, rtol=0)
    torch.testing.assert_close(means.std(0), numbers[1], atol=0, rtol=0.06)
    torch.testing.assert_close(logs.mean(0), numbers[2], atol=0.05, rtol=0)
    torch.testing.assert_close(logs.std(0), numbers[3], atol=0, rtol=0.06)


def test_drawn_statistics_move_the_images():
    view = network()
    chance = DrawnStatistics(view, BatchStatistics.collect(view, view.encode_visual, batches()))
    made = passes([view], chance)
    with unchanged(view):
        one, two, _ = first(made, "image")
    assert not torch.allclose(one.vectors, two.vectors)
    again = first(made, "image")
    assert torch.equal(one.vectors, again[0].vectors)
    with pytest.raises(BadRecipe):
        made.draws("text")
    words, other, _ = first(passes([view], chance, sides="both"), "text")
    assert torch.equal(words.vectors, other.vectors)
    assert not torch.equal(words.similarity, other.similarity)


def test_statistics_are_written_and_read(tmp_path):
    view = network()
    found = BatchStatistics.collect(view, view.encode_visual, batches())
    found.save(tmp_path / "some.safetensors")
    read = BatchStatistics.open(tmp_path / "some.safetensors")
    assert read.layers.keys() == found.layers.keys()
    assert all(torch.equal(read.layers[name], found.layers[name]) for name in read.layers)
    assert (tmp_path / "some.safetensors").stat().st_size < 1000


def test_statistics_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "broken").write_bytes(b"no")
    for name in ("broken", "absent"):
        with pytest.raises(WrongCheckpoint) as caught:
            BatchStatistics.open(tmp_path / name)
        told = str(caught.value)
        assert told.startswith(f"The batch statistics '{tmp_path / name}' cannot be read (")
        assert told.endswith(
            "). Expected a file that `BatchStatistics.save` wrote; collect them again."
        )


def test_statistics_of_another_network_are_refused():
    with pytest.raises(WrongCheckpoint) as caught:
        DrawnStatistics(nn.BatchNorm1d(3), BatchStatistics({"": torch.zeros(4, 2)}))
    assert str(caught.value) == (
        "The batch statistics name a layer '' of 2 channels that the network does not have. "
        "Expected those of the same network; collect them again."
    )


def test_statistics_need_batches():
    with pytest.raises(BadData) as caught:
        BatchStatistics.collect(nn.BatchNorm1d(2), lambda batch: None, [])
    assert str(caught.value) == (
        "Batch normalisation saw 0 batches. Expected a network that has it and at least 2 "
        "batches, better 100; pass more of them."
    )


def test_statistics_of_a_training_split(tmp_path: Path):
    data = open_dataset(name=str(write_precomp(tmp_path / "small_precomp")))
    split = FeaturedSplit.join(data, "train", None)
    views = [network(), network(seed=1)]
    with unchanged(*views):
        found = collect_from_split(views, split, "cpu", batch=16, batches=5)
        again = collect_from_split(views, split, "cpu", batch=16, batches=5)
    assert list(found.layers) == ["0.visual.bend.norm", "1.visual.bend.norm"]
    assert all(torch.equal(found.layers[name], again.layers[name]) for name in found.layers)
    tokens = TokenTable.from_captions(Vocabulary.from_captions(split.captions), split.captions)
    chance = DrawnStatistics(nn.ModuleList(views), found)
    draw = next(Passes(views, split, tokens, chance, "cpu").draws("image")())
    assert draw.similarity.shape == (48, 240)


# --- photographs ------------------------------------------------------------------------


class Squares(Backbone):
    """Mean colours of a 2 x 2 grid behind batch normalisation."""

    dim = 12

    def __init__(self):
        super().__init__()
        self.identity = {"backbone": "squares", "size": 8}
        self.look, self.norm = nn.Conv2d(3, 12, 4, 4), nn.BatchNorm2d(12)
        self.prepares = 0

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        self.prepares += 1
        return np.asarray(photograph.resize((8, 8)))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        planes = pixels.permute(0, 3, 1, 2).float() / 255
        return self.norm(self.look(planes)).permute(0, 2, 3, 1)


def photographs(count: int, size: int = 16) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8))
        for _ in range(count)
    ]


def test_photographs_pass_a_drawn_backbone():
    torch.manual_seed(0)
    backbone, view = Squares().eval(), network()
    pixels = Pixels.from_photographs(backbone, photographs(4), 2, "cpu")
    data = [torch.randint(0, 256, (4, 8, 8, 3)) for _ in range(5)]
    with unchanged(backbone, view), torch.no_grad():
        chance = DrawnStatistics(backbone, BatchStatistics.collect(backbone, backbone, data))
        made = Passes([view], pixels, table(), chance, "cpu")
        one, two, _ = first(made, "image")
        plain = view.vectors(view.encode_visual(pixels.regions(np.arange(4))))
    assert not torch.allclose(one.vectors, two.vectors)
    assert backbone.prepares == 4
    torch.testing.assert_close(made.candidates("text"), plain)


def test_a_real_backbone_has_statistics_to_draw():
    backbone = efficientnet_lite0.build(size=64)
    pixels = Pixels.from_photographs(backbone, photographs(4, 64), 2, "cpu")
    data = [torch.from_numpy(pixels.prepared[[0, 1, 2]]), torch.from_numpy(pixels.prepared[1:])]
    with unchanged(backbone):
        found = BatchStatistics.collect(backbone, backbone, data)
        chance = DrawnStatistics(backbone, found)
        before = pixels.regions(np.arange(2)).features
        with chance.drawn(0):
            drawn = pixels.regions(np.arange(2)).features
        after = pixels.regions(np.arange(2)).features
    assert len(found.layers) > 20
    assert torch.equal(before, after) and not torch.allclose(before, drawn, atol=1e-2)


# --- with the probes ----------------------------------------------------------------------


def test_draws_feed_the_probes():
    view = network(dropout_head=0.5)
    made = passes([view])
    asked = QueryBatch(plain_scores(view)[None].numpy(), own=0, draws=made.draws("image"))
    probe = folder.build(uncertainty, "mc_dropout", passes=10)
    found = probe.measure(asked)
    assert set(found) == {
        "posterior uncertainty",
        "expected entropy",
        "variation ratio",
        "feature uncertainty",
    }
    vectors = torch.stack([draw.vectors for draw in first(made, "image", 10)]).double()
    variance = vectors.var(0, correction=0).sum(-1)
    torch.testing.assert_close(found["feature uncertainty"], variance)
    again = probe.measure(asked)
    assert all(torch.equal(found[name], again[name]) for name in found)


def test_averaging_over_many_passes_comes_near_the_plain_ranking():
    view = network(dropout_head=0.3)
    made = passes([view])
    found = averaged_over_features(made.draws("image"), made.candidates("image"), passes=400)
    assert (found - plain_scores(view)).abs().max() < 0.15


def test_some_images_in_an_order():
    part = some(IMAGES, np.array([2, 0]))
    assert torch.equal(part.features, IMAGES.features[[2, 0]])
    assert torch.equal(part.boxes, IMAGES.boxes[[2, 0]])


@pytest.mark.gpu
def test_draws_on_a_gpu_are_repeatable_and_leave_its_generator_alone():
    view = network(dropout_head=0.5).cuda()
    before = torch.cuda.get_rng_state()
    once, again = (
        first(Passes([view], IMAGES, table(), KeptDropout([view]), "cuda"), "text")
        for _ in range(2)
    )
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert once[0].similarity.is_cuda
    assert all(torch.equal(a.vectors, b.vectors) for a, b in zip(once, again, strict=True))
    assert not torch.equal(once[0].vectors, once[1].vectors)
