"""VSRN, GSMN and DivE against plain loops over items, pairs and nodes, without padding."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from samples import SIZES, examples, regions, tokens
from torch.nn.functional import batch_norm, layer_norm

from avow import methods
from avow.assembly.scores import Blocks, compare, encode
from avow.blocks.recurrent import OneWayGru, TwoWayGru, closed_up
from avow.blocks.tiles import MB
from avow.core import folder
from avow.core.contracts import Encoded, Method, Regions, Tokens
from avow.core.errors import BadFeatures, BadRecipe
from avow.methods._captioner import Captioner
from avow.methods.dive import Diverse, compare_sets, crowding, discrepancy
from avow.methods.vsrn import PartNorm, Reasoned

counts = st.lists(st.sampled_from([1, 2, 3, 5, 25]), min_size=1, max_size=3)
small = st.lists(st.integers(1, 5), min_size=1, max_size=3)
few = examples(5, 12)


def build(name: str, **changes) -> Method:
    """A method whose layers are no longer what they started as."""
    method = folder.build(methods, name, **SIZES, **changes)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return method.eval()


def sample(
    images: list[int], texts: list[int], seed: int, edges: bool = False
) -> tuple[Regions, Tokens]:
    """Regions with gaps between them, and captions, some of whose words depend on others."""
    torch.manual_seed(seed)
    visual = regions(images, parts=max(images) + 2, seed=seed)
    order = torch.stack([torch.randperm(visual.present.shape[1]) for _ in images])
    visual = replace(visual, present=visual.present.gather(1, order))
    text = tokens(texts, parts=max(texts) + 1, seed=seed)
    if edges:
        drawn = torch.rand(*text.ids.shape, text.ids.shape[1]) < 0.3
        text = replace(text, edges=drawn)
    return visual, text


def alone(visual: Regions, item: int) -> Regions:
    """One image without its gaps and padding."""
    there = visual.present[item]
    boxes = visual.boxes[item, there][None]
    return Regions(visual.features[item, there][None], there[there][None], boxes)


def word_states(method: Method, ids: torch.Tensor) -> torch.Tensor:
    """The mean of torch's two directions over one caption."""
    vectors = method.text.words(ids)[None]
    forwards, _ = method.text.gru.ahead(vectors)
    backwards, _ = method.text.gru.back(vectors.flip(1))
    return ((forwards + backwards.flip(1)) / 2)[0]


# --- VSRN ---------------------------------------------------------------------------------


def vsrn_image(method: Method, features: torch.Tensor) -> torch.Tensor:
    parts = method.project(features)
    if method.norm is None:
        parts = parts / parts.square().sum(0).sqrt()
    for block in method.graph:
        added = []
        for part in parts:
            gathered = sum(
                (block.query(part) @ block.key(other)) / len(parts) * block.value(other)
                for other in parts
            )
            norm = block.norm
            mixed = (block.mix(gathered) - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
            added.append(mixed * norm.weight + norm.bias)
        parts = parts + torch.stack(added)
    parts = parts / parts.square().sum(0).sqrt()
    states, _ = method.gather.ahead(parts[None])
    state = states[0, -1:]
    if method.norm is not None:
        norm = method.norm
        state = batch_norm(state, norm.running_mean, norm.running_var, norm.weight, norm.bias)
    return state[0] / state[0].norm()


@few
@given(small, counts, st.integers(0, 1000), st.sampled_from(["f30k", "coco"]))
def test_vsrn_equals_a_loop(images, texts, seed, variant):
    torch.manual_seed(seed)
    method = build("vsrn", variant=variant)
    for block in method.graph:
        block.norm.running_mean.normal_()
        block.norm.running_var.uniform_(0.5, 2)
    visual, text = sample(images, texts, seed)
    found = method.similarity(method.encode_visual(visual), method.encode_text(text))
    for i in range(len(images)):
        image = vsrn_image(method, alone(visual, i).features[0])
        for t, length in enumerate(texts):
            states, _ = method.text.gru.ahead(method.text.words(text.ids[t, :length])[None])
            caption = states[0, -1] / states[0, -1].norm()
            torch.testing.assert_close(found[i, t], image @ caption, rtol=1e-3, atol=1e-4)


@few
@given(counts, st.integers(0, 1000))
def test_captioner_equals_a_loop(lengths, seed):
    torch.manual_seed(seed)
    captioner = Captioner(6, 30, hidden=5, word_dim=4, dropout=0.0)
    visual, text = sample([3] * len(lengths), lengths, seed)
    parts = visual.features[..., :6]
    found = captioner(parts, visual.present, text)
    total = torch.zeros(())
    for item, length in enumerate(lengths):
        own = captioner.narrow(parts[item, visual.present[item]])
        seen, last = captioner.read(own[None])
        seen, state, ids = seen[0], last[0, 0], text.ids[item]
        for step in range(length - 1):
            raw = torch.stack(
                [
                    captioner.glance.weigh(
                        (
                            captioner.glance.by_region(part) + captioner.glance.by_state(state)
                        ).tanh()
                    )[0]
                    for part in seen
                ]
            )
            looked = (raw.softmax(0)[:, None] * seen).sum(0)
            state = captioner.write(torch.cat([captioner.lexicon(ids[step]), looked]), state)
            total = total - captioner.say(state).log_softmax(-1)[ids[step + 1]]
    torch.testing.assert_close(found, total / len(lengths), rtol=1e-4, atol=1e-5)


def test_the_captioner_learns_to_tell_captions():
    torch.manual_seed(0)
    method = folder.build(methods, "vsrn", **SIZES, caption_dim=16, caption_word_dim=8).train()
    visual, text = regions([5, 3, 4]), tokens([7, 4, 2])
    optimiser = torch.optim.Adam(method.parameters(), lr=0.02)
    values = []
    for _ in range(40):
        extra = method.regulariser(method.encode_visual(visual), method.encode_text(text))
        optimiser.zero_grad()
        extra.backward()
        optimiser.step()
        values.append(float(extra.detach()))
    assert values[-1] < 0.2 * values[0]


def test_vsrn_keeps_regions_and_words_in_training_alone():
    method = folder.build(methods, "vsrn", **SIZES)
    assert isinstance(method.train().encode_visual(regions([5, 3])), Reasoned)
    visual, text = (
        method.eval().encode_visual(regions([5, 3])),
        method.encode_text(tokens([4, 2])),
    )
    assert type(visual) is type(text) is Encoded
    assert method.regulariser(visual, text) == 0
    without = folder.build(methods, "vsrn", **SIZES, caption_weight=0.0).train()
    assert without.captioner is None
    assert (
        without.regulariser(
            without.encode_visual(regions([5, 3])), without.encode_text(tokens([4, 2]))
        )
        == 0
    )


@few
@given(counts, st.integers(0, 1000))
def test_part_norm_is_batch_norm_over_what_is_present(lengths, seed):
    torch.manual_seed(seed)
    present = torch.arange(max(lengths) + 2)[None] < torch.tensor(lengths)[:, None]
    if present.sum() < 2:
        return  # torch refuses to normalise a single row
    parts = torch.randn(*present.shape, 4)
    ours, plain = PartNorm(4), torch.nn.BatchNorm1d(4)
    for norm in (ours, plain):
        torch.nn.init.constant_(norm.weight, 1.5)
        torch.nn.init.constant_(norm.bias, 0.3)
    for _ in range(2):
        torch.testing.assert_close(ours(parts, present)[present], plain(parts[present]))
    torch.testing.assert_close(ours.running_mean, plain.running_mean)
    torch.testing.assert_close(ours.running_var, plain.running_var)
    ours.eval(), plain.eval()
    torch.testing.assert_close(ours(parts, present)[present], plain(parts[present]))


def test_gaps_are_closed_in_order():
    parts = torch.arange(5.0)[None, :, None]
    closed, present = closed_up(parts, torch.tensor([[False, True, False, True, True]]))
    assert closed[0, :3, 0].tolist() == [1, 3, 4]
    assert present.tolist() == [[True, True, True, False, False]]


# --- GSMN ---------------------------------------------------------------------------------


def gsmn_nodes(
    queries: torch.Tensor, context: torch.Tensor, smooth: float, blocks: int
) -> torch.Tensor:
    """The match vector of every query node, from its definition."""
    products = torch.nn.functional.leaky_relu(queries @ context.T, 0.1)
    products = products / (products.square().sum(0).sqrt() + 1e-8)
    rows = []
    for query, row in zip(queries, products, strict=True):
        gathered = ((smooth * row).softmax(0)[:, None] * context).sum(0)
        pairs = zip(query.chunk(blocks), gathered.chunk(blocks), strict=True)
        rows.append(torch.stack([a @ b / (a.norm() * b.norm()) for a, b in pairs]))
    return torch.stack(rows)


def gsmn_visual(method: Method, match: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    graph, heard = method.visual_graph, []
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    maps = graph.convolve.weight.chunk(graph.kernels)
    for one in range(len(match)):
        total = torch.zeros(graph.kernels, maps[0].shape[0])
        for other in range(len(match)):
            dx, dy = (centres[one] - centres[other]).tolist()
            rho, theta = math.hypot(dx, dy), math.atan2(dx, dy)
            kernel = []
            for k in range(graph.kernels):
                turn = abs(theta - float(graph.angle[k]))
                turn = min(turn, abs(2 * math.pi - turn))
                near = (rho - float(graph.distance[k])) / float(graph.distance_width[k])
                aligned = turn / float(graph.angle_width[k])
                kernel.append(-0.5 * (near**2 + aligned**2))
            weight = torch.tensor(kernel).softmax(0)
            source = match[one if method.faithful else other]
            total += torch.stack([weight[k] * maps[k] @ source for k in range(graph.kernels)])
        heard.append(total.flatten())
    return read_out(graph, torch.stack(heard))


def gsmn_textual(
    method: Method, match: torch.Tensor, words: torch.Tensor, edges: torch.Tensor | None
) -> torch.Tensor:
    heard = []
    for one in range(len(match)):
        weight = (method.smooth * words @ words[one]).softmax(0)
        joined = torch.ones(len(match))
        if edges is not None:
            joined = torch.stack(
                [
                    (edges[one, other] | edges[other, one]).float() + float(one == other)
                    for other in range(len(match))
                ]
            )
            weight = weight * joined / (weight * joined).sum()
        if method.faithful:
            heard.append((weight * joined).sum() * match[one])
        else:
            heard.append((weight[:, None] * match).sum(0))
    graph = method.textual_graph
    return read_out(graph, graph.convolve(torch.stack(heard)))


def read_out(graph: torch.nn.Module, nodes: torch.Tensor) -> torch.Tensor:
    judged = [graph.readout.judge(graph.readout.bend(node).tanh())[0] for node in nodes]
    return torch.stack(judged).mean()


@few
@given(
    small, counts, st.integers(0, 1000), st.booleans(), st.booleans(), st.sampled_from([0, 64])
)
@example([2, 4], [25, 1, 5], 0, True, False, 0)
def test_gsmn_equals_a_loop_over_pairs(images, texts, seed, edges, faithful, tile_mb):
    torch.manual_seed(seed)
    graph = "sparse" if edges else "dense"
    method = build("gsmn", graph=graph, faithful=faithful, tile_mb=tile_mb)
    visual, text = sample(images, texts, seed, edges)
    with torch.no_grad():
        found = method.scores(method.encode_visual(visual), method.encode_text(text))
        for i in range(len(images)):
            image = alone(visual, i)
            seen = method.project(image.features[0])
            seen = seen / seen.norm(dim=-1, keepdim=True)
            for t, length in enumerate(texts):
                words = word_states(method, text.ids[t, :length])
                words = words / words.norm(dim=-1, keepdim=True)
                own = text.edges[t, :length, :length] if edges else None
                by_region = gsmn_nodes(seen, words, method.smooth, method.blocks)
                by_word = gsmn_nodes(words, seen, method.smooth, method.blocks)
                expected = [
                    gsmn_visual(method, by_region, image.boxes[0]),
                    gsmn_textual(method, by_word, words, own),
                ]
                torch.testing.assert_close(
                    found[:, i, t], torch.stack(expected), rtol=1e-3, atol=1e-3
                )


def test_gsmn_in_tiles_has_the_same_gradients():
    torch.manual_seed(0)
    method = build("gsmn").train()
    visual, text = sample([5, 3, 1], [7, 1, 4, 9], seed=0)
    gradients = []
    for method.tile_mb in (64, 0):
        method.zero_grad()
        score = method.similarity(method.encode_visual(visual), method.encode_text(text))
        score.square().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in method.named_parameters()})
    for name, value in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], value, msg=name)


def test_gsmn_keeps_its_budget_and_puts_long_texts_together(monkeypatch):
    torch.manual_seed(0)
    method = folder.build(methods, "gsmn", **SIZES | {"dim": 64}, tile_mb=1).eval()
    visual, text = sample([36] * 10, [3, 30] * 20, seed=0)
    seen = []
    whole = type(method)._compare

    def watch(self, visual, text):
        seen.append((len(visual.parts), len(text.parts), text.parts.shape[1]))
        return whole(self, visual, text)

    monkeypatch.setattr(type(method), "_compare", watch)
    with torch.inference_mode():
        method.score(method.encode_visual(visual), method.encode_text(text))
    assert sum(images * texts for images, texts, _ in seen) == 400
    assert all(2 * images * texts * (38 + 31) * 64 * 4 <= MB for images, texts, _ in seen)
    assert {width for _, _, width in seen} == {3, 30}


def test_gsmn_of_captions_without_edges_is_dense():
    torch.manual_seed(0)
    dense = build("gsmn")
    sparse = folder.build(methods, "gsmn", **SIZES, graph="sparse").eval()
    sparse.load_state_dict(dense.state_dict())
    visual, text = sample([4, 2], [5, 3], seed=0, edges=True)
    plain = replace(text, edges=None)

    def scores(method: Method, text: Tokens) -> torch.Tensor:
        return method.similarity(method.encode_visual(visual), method.encode_text(text))

    assert torch.equal(scores(sparse, plain), scores(dense, plain))
    assert torch.equal(scores(dense, text), scores(dense, plain))
    assert not torch.allclose(scores(sparse, text), scores(dense, text))


@pytest.mark.parametrize(("squash", "bend"), [("tanh", torch.tanh), ("sigmoid", torch.sigmoid)])
def test_gsmn_squashes_its_score(squash, bend):
    torch.manual_seed(0)
    method = build("gsmn", squash=squash)
    visual, text = sample([4, 2], [5, 3], seed=0)
    sides = method.encode_visual(visual), method.encode_text(text)
    torch.testing.assert_close(method.similarity(*sides), bend(method.score(*sides)))
    method.squash = "none"
    assert torch.equal(method.similarity(*sides), method.score(*sides))


@pytest.mark.parametrize("block", [1, 3])
def test_edges_and_boxes_survive_evaluation_in_blocks(block):
    """Encoded batch by batch, kept on the host, compared block by block."""
    torch.manual_seed(0)
    method = build("gsmn", graph="sparse")
    visual, text = sample([4, 2, 5], [5, 3, 8], seed=0, edges=True)
    whole = method.similarity(method.encode_visual(visual), method.encode_text(text))
    parts = text.ids.split(1), text.present.split(1), text.edges.split(1)
    pieces = [Tokens(*row).resized(n) for *row, n in zip(*parts, (5, 3, 8), strict=True)]
    images = encode(method.encode_visual, iter([visual]), "cpu")
    texts = encode(method.encode_text, iter(pieces), "cpu")
    found = compare(method, images, texts, "cpu", Blocks(images=99, texts=block))
    torch.testing.assert_close(torch.from_numpy(found), whole)


def test_gsmn_needs_boxes():
    method = folder.build(methods, "gsmn", **SIZES)
    with pytest.raises(BadFeatures) as caught:
        method.encode_visual(replace(regions([3]), boxes=None))
    assert str(caught.value) == (
        "The image features have no 'boxes'. Expected where each region lies, which GSMN "
        "compares. Use features made by `avow features`, or another method."
    )


def test_gsmn_refuses_kernels_of_uneven_size():
    with pytest.raises(BadRecipe) as caught:
        folder.build(methods, "gsmn", **SIZES, kernels=5)
    assert str(caught.value) == (
        "kernels of 'gsmn' in methods is '5'. Expected a divisor of hidden, which is 32. "
        "Change one of them."
    )


# --- DivE ---------------------------------------------------------------------------------


def dive_slots(slots: torch.nn.Module, parts: torch.Tensor, place: torch.Tensor | float):
    """Each look of each head, part by part."""
    state = slots.slots
    context = slots.context_norm(parts)
    for _ in range(slots.looks):
        heads = []
        query = slots.query(slots.slot_norm(state)).chunk(slots.heads, -1)
        key = slots.key(context + place).chunk(slots.heads, -1)
        value = slots.value(context).chunk(slots.heads, -1)
        for q, k, v in zip(query, key, value, strict=True):
            shares = [(q @ one / math.sqrt(len(one))).softmax(0) + 1e-7 for one in k]
            share = torch.stack(shares, 1)
            heads.append(share / share.sum(1, keepdim=True) @ v)
        state = state + slots.join(torch.cat(heads, -1))
        state = state + slots.think(state)
    return slots.last_norm(state)


def dive_places(count: int, dim: int) -> torch.Tensor:
    out = torch.zeros(count, dim)
    for word in range(count):
        for channel in range(dim):
            rate = 10000 ** (-(channel // 2 * 2) / dim)
            angle = 2 * math.pi * (word + 1) / count * rate
            out[word, channel] = math.cos(angle) if channel % 2 else math.sin(angle)
    return out


def smooth_chamfer(one: torch.Tensor, other: torch.Tensor, sharpness: float) -> float:
    total = 0.0
    for first, second in ((one, other), (other, one)):
        for member in first:
            meets = sum(math.exp(sharpness * float(member @ peer)) for peer in second)
            total += math.log(meets) / sharpness / len(first) / 2
    return total


@few
@given(small, counts, st.integers(0, 1000))
def test_dive_equals_a_loop(images, texts, seed):
    torch.manual_seed(seed)
    method = build("dive", head_dim=4, heads=2)
    visual, text = sample(images, texts, seed)
    with torch.no_grad():
        found_images, found_texts = method.encode_visual(visual), method.encode_text(text)
        found = method.score(found_images, found_texts)
        similarity = method.similarity(found_images, found_texts)
        sets = []
        for i in range(len(images)):
            parts = method.visual(alone(visual, i).features)[0]
            whole = layer_norm(
                parts.amax(0), (8,), method.visual_norm.weight, method.visual_norm.bias
            )
            made = dive_slots(method.visual_slots, parts, 0.0) + whole
            sets.append(made / made.norm(dim=-1, keepdim=True))
        for t, length in enumerate(texts):
            vectors = method.text.words(text.ids[t, :length])
            whole = method.text_norm(ends_of(method.text.gru, vectors))
            place = dive_places(length, vectors.shape[-1])
            made = dive_slots(method.text_slots, vectors, place) + whole
            made = made / made.norm(dim=-1, keepdim=True)
            torch.testing.assert_close(found_texts.parts[t], made, rtol=1e-3, atol=1e-4)
            for i, image in enumerate(sets):
                expected = smooth_chamfer(image, made, 16.0)
                assert abs(float(found[i, t]) - expected) < 1e-3
                assert abs(float(similarity[i, t]) - (expected - math.log(4) / 16)) < 1e-3


def ends_of(gru: TwoWayGru, vectors: torch.Tensor) -> torch.Tensor:
    _, forwards = gru.ahead(vectors[None])
    _, backwards = gru.back(vectors.flip(0)[None])
    return (forwards[0, 0] + backwards[0, 0]) / 2


@few
@given(counts, st.integers(0, 1000))
def test_ends_are_those_of_torch(lengths, seed):
    torch.manual_seed(seed)
    gru, ahead = TwoWayGru(3, 4), OneWayGru(3, 4)
    steps = torch.randn(len(lengths), max(lengths) + 1, 3)
    present = torch.arange(steps.shape[1])[None] < torch.tensor(lengths)[:, None]
    (_, found), (_, one_way) = (some.with_end(steps, present) for some in (gru, ahead))
    for item, length in enumerate(lengths):
        own = steps[item, :length]
        torch.testing.assert_close(found[item], ends_of(gru, own))
        torch.testing.assert_close(one_way[item], ahead.ahead(own[None])[1][0, 0])


def test_sets_are_most_alike_when_they_are_equal():
    """The bound that the similarity rests on: 1 for a set of one repeated vector."""
    ones = torch.ones(1, 4, 1, 4)
    assert compare_sets(ones, "smooth_chamfer", 16.0).item() == pytest.approx(
        1 + math.log(4) / 16
    )
    torch.manual_seed(0)
    cosines = torch.rand(3, 4, 5, 4) * 2 - 1
    chamfer, most = (compare_sets(cosines, kind, 16.0) for kind in ("chamfer", "max"))
    for i in range(3):
        for t in range(5):
            table = cosines[i, :, t]
            there = sum(float(row.max()) for row in table) / 4
            back = sum(float(column.max()) for column in table.T) / 4
            assert float(chamfer[i, t]) == pytest.approx((there + back) / 2, abs=1e-5)
            assert float(most[i, t]) == pytest.approx(float(table.max()))


def test_crowding_and_discrepancy_equal_loops():
    torch.manual_seed(0)
    slots = torch.randn(3, 4, 5)
    total = 0.0
    for item in slots:
        unit = item / item.norm(dim=-1, keepdim=True)
        pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
        total += (
            sum(math.exp(-2 * float((unit[a] - unit[b]).square().sum())) for a, b in pairs) / 6
        )
    assert float(crowding(slots)) == pytest.approx(total / 3, rel=1e-5)
    assert crowding(slots[:, :1]) == 0
    one, other = torch.randn(4, 3), torch.randn(6, 3)

    def alike(x, y):
        return (
            sum(math.exp(-0.5 * float((a - b).norm())) for a in x for b in y) / len(x) / len(y)
        )

    expected = alike(one, one) + alike(other, other) - 2 * alike(one, other)
    assert float(discrepancy(one, other)) == pytest.approx(expected, rel=1e-4)


def test_dive_adds_nothing_outside_training():
    method = folder.build(methods, "dive", **SIZES, head_dim=4)
    sides = method.train().encode_visual(regions([5])), method.encode_text(tokens([4]))
    assert isinstance(sides[0], Diverse) and method.regulariser(*sides) > 0
    sides = method.eval().encode_visual(regions([5])), method.encode_text(tokens([4]))
    assert type(sides[0]) is Encoded and method.regulariser(*sides) == 0


# --- all three ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vsrn", "gsmn", "dive"])
def test_learns_to_match(name):
    torch.manual_seed(0)
    smaller = {"caption_dim": 8} if name == "vsrn" else {}
    method = folder.build(methods, name, **SIZES | {"dim": 16}, **smaller).train()
    visual, text = regions([5, 4, 3, 5]), tokens([7, 4, 2, 1])
    optimiser = torch.optim.Adam(method.parameters(), lr=0.01)
    for _ in range(60):
        sides = method.encode_visual(visual), method.encode_text(text)
        scores = method.similarity(*sides)
        gap = 0.2 + scores - scores.diagonal()[:, None]
        value = gap.clamp(min=0).fill_diagonal_(0).sum() + 0.01 * method.regulariser(*sides)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        if gap.detach().clamp(min=0).fill_diagonal_(0).sum() < 0.1:  # apart by the margin
            break
    assert (scores.argmax(1) == torch.arange(4)).all()
