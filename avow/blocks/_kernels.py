"""Kernels for the similarity vectors of many pairs and for pooling, where Triton is installed.

Those of pairs keep on the chip what would otherwise be written to memory and read again.
For a pair of a 12-word caption with 36 regions in bfloat16, kilobytes to and from memory:

                                  one operation each   here
    attend    weights of words            46             3
    compare   gap, square, project,      130             7
              length one
    reason    one step of the graph       67            13
    hear      the last look               14             8
    gate      gates, and what they let    14             7

Where a program takes several captions, it takes whole ones, side by side: 9 of 13 nodes
fill 117 of 128 rows. What belongs to one pair is then a block on the diagonal, and the
rest of a square is masked: the matrix units do it faster than small products.

What 1,000 images x 5,000 captions of 12 words ask of an H200, counted, not measured. The
floor is the largest of three times: products at 790 TFLOP/s, memory at 4.3 TB/s, and what
programs read again from the cache beside it at 5.5 TB/s:

                         TFLOP  memory, GB  cache, GB  programs  launches  floor, ms
    products of parts      5.0      14                                151          6
    attend                 2.3      15          7      1,081,000      151          3
    compare, words        41.9      40        434        500,000      151         79
    compare, gists         3.4       3         40         51,000      151          7
    reason, two steps     54.8     135        499      1,089,000      302         91
    hear                   0.1      39                 2,065,000      151          9
    last layers            1.3      33                                  -          8
    gate                   0.1      34                 2,065,000      151          8

So SGR cannot go below 0.20 s this way and SAF not below 0.10 s; both are bound by reading
layers from the cache, 128 rows at a time, which are as many as the registers have room for.

Pooling (`rank`) asks of each part how many are larger, which tells its place among them
without moving anything: 36 comparisons for each of 128 x 36 x 1024 numbers are 0.2 G. It
takes about 0.1 ms on an H200, of which reading the numbers once would be 5 us.

Import this module only where `triton` can be imported; `fused` does so.
"""

# Triton reads its functions as source, so they have no type hints that it does not know.
# Nor may they be wrapped by what checks types in tests: it could not find their names then.
# Captions of any length share one compiled kernel: their sizes are not specialised.

from typing import no_type_check

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

from avow.blocks._gap_kernels import gap_back as gap_back
from avow.blocks._gap_kernels import unit_back as unit_back
from avow.blocks._gru_kernels import gru_back as gru_back
from avow.blocks._gru_kernels import gru_forth as gru_forth
from avow.blocks._gru_kernels import small_gru_back as small_gru_back
from avow.blocks._gru_kernels import small_gru_forth as small_gru_forth
from avow.blocks._memory_kernels import remember as remember
from avow.blocks._memory_kernels import remember_back as remember_back


@triton.jit(do_not_specialize=["texts", "words"])
@no_type_check
def attend(
    products,  # [images, regions, texts, words], float32 where possible
    gram,  # [images, regions, regions], float32
    owner,  # [texts, words]: which text a word is of; 0 where there is none
    shown,  # [images, regions]
    weights,  # [images, texts, words, regions], written
    texts,
    words,
    smooth,
    slope,
    eps,
    regions: tl.constexpr,
    R: tl.constexpr,
    ROWS: tl.constexpr,
    KIND: tl.constexpr,
):
    """Some texts with one image: every word's weights, scaled to attend to a unit vector."""
    image, row, region = tl.program_id(1).to(tl.int64), tl.arange(0, ROWS), tl.arange(0, R)
    most, count = ROWS // words * words, texts * words
    word = tl.program_id(0) * most + row
    inside, there = (row < most) & (word < count), region < regions
    both = inside[:, None] & there[None, :]
    text = tl.load(owner + word, mask=inside, other=0)
    here = tl.load(shown + image * regions + region, mask=there, other=0) != 0
    products += image * regions * count
    place = region[None, :] * count + word[:, None]
    value = tl.load(products + place, mask=both, other=0.0).to(tl.float32)
    value = tl.where(value > 0, value, slope * value)
    value = tl.where((text > 0)[:, None], value, 0.0)
    same = (text[:, None] == text[None, :]).to(tl.float32)
    length = tl.sqrt(tl.dot(same, value * value, input_precision=KIND))
    value = tl.where(here[None, :], smooth * (value / (length + eps)), float("-inf"))
    value = tl.exp(value - tl.max(value, 1)[:, None])
    value = value / tl.sum(value, 1)[:, None]
    square = there[:, None] & there[None, :]
    gram += image * regions * regions
    among = tl.load(gram + region[:, None] * regions + region[None, :], mask=square, other=0.0)
    length = tl.sum(tl.dot(value, among, input_precision=KIND) * value, 1)
    value = value / (tl.sqrt(tl.maximum(length, eps * eps)) + eps)[:, None]
    weights += image * count * regions
    out = word[:, None] * regions + region[None, :]
    tl.store(weights + out, value.to(weights.dtype.element_ty), mask=both)


@triton.jit(do_not_specialize=["count", "words"])
@no_type_check
def compare(
    weights,  # [images, queries, regions]; not read where ALONE
    context,  # [images, regions, dim]; where ALONE [images, dim]
    queries,  # [queries, dim]
    matrix,  # [narrow, dim]
    bias,  # [narrow]
    nodes,  # [images, texts, 1 + words, narrow], written: where ALONE node 0, else the others
    lengths,  # [images, texts, 1 + words], float32, written where KEEP: before length one
    count,
    words,
    eps,
    dim: tl.constexpr,
    regions: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    ROWS: tl.constexpr,
    DEEP: tl.constexpr,
    KIND: tl.constexpr,
    ALONE: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Some queries with one image: the projected square of what each misses, length one."""
    image = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    region, narrow, deep = tl.arange(0, R), tl.arange(0, S), tl.arange(0, DEEP)
    real, there = row < count, region < regions
    if not ALONE:
        weights += image * count * regions
        place = row[:, None] * regions + region[None, :]
        weight = tl.load(weights + place, mask=real[:, None] & there[None, :], other=0.0)
        context += image * regions * dim
    else:
        context += image * dim
    asking = row.to(tl.int64)[:, None] * dim
    total = tl.zeros([ROWS, S], tl.float32)
    for start in range(0, dim, DEEP):
        at = start + deep
        inside = at < dim
        query = tl.load(
            queries + asking + at[None, :],
            mask=real[:, None] & inside[None, :],
            other=0.0,
        )
        if ALONE:
            part = tl.load(context + at, mask=inside, other=0.0)
            gap = part.to(tl.float32)[None, :] - query.to(tl.float32)
        else:
            part = tl.load(
                context + region[:, None] * dim + at[None, :],
                mask=there[:, None] & inside[None, :],
                other=0.0,
            )
            gap = tl.dot(weight, part, input_precision=KIND) - query.to(tl.float32)
        layer = tl.load(
            matrix + narrow[None, :] * dim + at[:, None], mask=inside[:, None], other=0.0
        )
        total = tl.dot((gap * gap).to(layer.dtype), layer, total, input_precision=KIND)
    total += tl.load(bias + narrow).to(tl.float32)[None, :]
    length = tl.sqrt(tl.sum(total * total, 1))
    total = total / (length + eps)[:, None]
    if ALONE:
        first = image * count * (words + 1)
        node = row * (words + 1)
    else:
        first = image * (count // words) * (words + 1)
        node = row + row // words + 1
    nodes += first * S
    if KEEP:
        tl.store(lengths + first + node, length, mask=real)
    out = total.to(nodes.dtype.element_ty)
    tl.store(nodes + node[:, None] * S + narrow[None, :], out, mask=real[:, None])


@triton.jit(do_not_specialize=["texts", "pairs", "count"])
@no_type_check
def reason(
    nodes,  # [pairs, nodes, narrow], the texts of each image one after the other
    owner,  # [texts and some more, nodes]: which text a node is of; 0 where there is none
    ask,  # [narrow, narrow]
    ask_bias,  # [narrow]
    change,  # [narrow, narrow]
    change_bias,  # [narrow]
    after,  # [pairs, nodes, narrow], written
    texts,
    pairs,
    count,
    S: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    KIND: tl.constexpr,
):
    """Some pairs: relu(change(softmax(ask(x) . x) x)), where a node looks at its own pair.

    With P = softmax(...), change(P x) is P (x change^T) + bias: made WIDE columns at a time,
    as the logits are, so that nothing needs to be put together again.
    """
    row, narrow, wide = tl.arange(0, ROWS), tl.arange(0, S), tl.arange(0, WIDE)
    per = ROWS // count
    first = tl.program_id(0) * per
    # the same without a division per row, which would take longer than the softmax
    inside = row < tl.minimum(per, pairs - first) * count
    mine = tl.load(owner + first % texts * count + row, mask=inside, other=0)
    nodes += first.to(tl.int64) * count * S
    after += first.to(tl.int64) * count * S
    place = row[:, None] * S
    states = tl.load(nodes + place + narrow[None, :], mask=inside[:, None], other=0.0)
    look = tl.zeros([ROWS, ROWS], tl.float32)
    bias = tl.load(ask_bias + wide)
    for start in range(0, S, WIDE):
        at = start + wide
        layer = tl.load(ask + at[None, :] * S + narrow[:, None])
        some = tl.load(nodes + place + at[None, :], mask=inside[:, None], other=0.0)
        asked = tl.dot(states, layer, input_precision=KIND) + bias.to(tl.float32)[None, :]
        bias = tl.load(ask_bias + (start + WIDE) % S + wide)  # the next: a sum begins with it
        look = tl.dot(asked.to(states.dtype), tl.trans(some), look, input_precision=KIND)
    # padding rows attend to no node, and must not divide by zero
    own = (mine[:, None] == mine[None, :]) & (mine > 0)[None, :]
    look = tl.where(own, look, -1e30)
    look = tl.exp(look - tl.max(look, 1)[:, None])
    share = (look / tl.sum(look, 1)[:, None]).to(states.dtype)
    for start in range(0, S, WIDE):
        at = start + wide
        layer = tl.load(change + at[None, :] * S + narrow[:, None])
        some = tl.dot(states, layer, input_precision=KIND).to(states.dtype)
        new = tl.dot(share, some, input_precision=KIND)
        new = tl.maximum(new + tl.load(change_bias + at).to(tl.float32)[None, :], 0.0)
        out = new.to(after.dtype.element_ty)
        tl.store(after + place + at[None, :], out, mask=inside[:, None])


@triton.jit(do_not_specialize=["texts", "pairs", "count"])
@no_type_check
def hear(
    asked,  # [pairs, narrow]
    nodes,  # [pairs, nodes, narrow]
    present,  # [texts, nodes]
    heard,  # [pairs, narrow], written
    texts,
    pairs,
    count,
    S: tl.constexpr,
    N: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Some pairs: what one node hears of all of its pair."""
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    node, narrow = tl.arange(0, N), tl.arange(0, S)
    inside = (pair < pairs)[:, None] & (node < count)[None, :]
    text = (pair % texts)[:, None]
    real = tl.load(present + text * count + node[None, :], mask=inside, other=0) != 0
    row = pair.to(tl.int64)[:, None] * count + node[None, :]
    every = row[:, :, None] * S + narrow[None, None, :]
    states = tl.load(nodes + every, mask=inside[:, :, None], other=0.0)
    place, mask = pair.to(tl.int64)[:, None] * S + narrow[None, :], (pair < pairs)[:, None]
    question = tl.load(asked + place, mask=mask, other=0.0).to(tl.float32)
    look = tl.sum(question[:, None, :] * states.to(tl.float32), 2)
    look = tl.where(real, look, -1e30)
    look = tl.exp(look - tl.max(look, 1)[:, None])
    look = look / tl.sum(look, 1)[:, None]
    out = tl.sum(look[:, :, None] * states.to(tl.float32), 1)
    tl.store(heard + place, out.to(heard.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["texts", "pairs", "count"])
@no_type_check
def gate(
    nodes,  # [pairs, nodes, narrow]
    present,  # [texts, nodes]
    weigh,  # [narrow]
    judge,  # [narrow], float32
    numbers,  # scale and offset of a gate, and what is added to the score; float32
    scores,  # [pairs], written, float32
    texts,
    pairs,
    count,
    eps,
    S: tl.constexpr,
    N: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Some pairs: the nodes behind open gates, summed to length one and judged."""
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    node, narrow = tl.arange(0, N), tl.arange(0, S)
    inside = (pair < pairs)[:, None] & (node < count)[None, :]
    text = (pair % texts)[:, None]
    real = tl.load(present + text * count + node[None, :], mask=inside, other=0) != 0
    row = pair.to(tl.int64)[:, None] * count + node[None, :]
    every = row[:, :, None] * S + narrow[None, None, :]
    states = tl.load(nodes + every, mask=inside[:, :, None], other=0.0)
    weight = tl.load(weigh + narrow).to(tl.float32)
    opening = tl.sum(states.to(tl.float32) * weight[None, None, :], 2)
    opening = opening * tl.load(numbers) + tl.load(numbers + 1)
    opening = tl.where(real, tl.sigmoid(opening), 0.0)
    opening = opening / (tl.sum(opening, 1) + eps)[:, None]
    whole = tl.sum(opening[:, :, None] * states.to(tl.float32), 1)
    length = tl.sqrt(tl.sum(whole * whole, 1)) + eps
    score = tl.sum(whole * tl.load(judge + narrow)[None, :], 1) / length
    tl.store(scores + pair, score + tl.load(numbers + 2), mask=pair < pairs)


@triton.jit(do_not_specialize=["count", "dim"])
@no_type_check
def rank(
    parts,  # [items, count, dim]
    present,  # [items, count]
    weights,  # [items, count]: of the largest part, of the second ...
    places,  # [items, count, dim], written: how many parts of the item are larger
    pooled,  # [items, dim], written
    count,
    dim,
    P: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Some columns of one item: its parts, each by the weight of its place, summed."""
    item = tl.program_id(0).to(tl.int64)
    column, part = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, P)
    inside = column < dim
    parts += item * count * dim
    present += item * count
    there = tl.load(present + part, mask=part < count, other=0) != 0
    both = there[:, None] & inside[None, :]
    at = part[:, None] * dim + column[None, :]
    own = tl.load(parts + at, mask=both, other=0.0).to(tl.float32)
    place = tl.zeros([P, COLUMNS], tl.int32)
    for other in range(count):
        counts = tl.load(present + other).to(tl.int32)  # 1, or 0 where there is no such part
        value = tl.load(parts + other * dim + column, mask=inside, other=0.0)
        value = value.to(tl.float32)[None, :]
        # of equal ones the earlier is the larger
        ahead = (value > own) | ((value == own) & (other < part)[:, None])
        place += tl.where(ahead, counts, 0)
    weight = tl.load(weights + item * count + place, mask=both, other=0.0)
    out = tl.sum(own * weight, 0).to(pooled.dtype.element_ty)
    tl.store(pooled + item * dim + column, out, mask=inside)
    here = (part < count)[:, None] & inside[None, :]
    tl.store(places + item * count * dim + at, place.to(tl.uint8), mask=here)


@triton.jit(do_not_specialize=["count", "dim", "tiles"])
@no_type_check
def rank_back(
    parts,  # [items, count, dim]
    present,  # [items, count]
    weights,  # [items, count]
    places,  # [items, count, dim]
    slope,  # [items, dim]: of what was pooled
    part_slope,  # [items, count, dim], written
    weight_slope,  # [items, tiles, count], written: of these columns alone, float32
    count,
    dim,
    tiles,
    P: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Some columns of one item: the slope of each part, and their share of the weights'."""
    item, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column, part = tile * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, P)
    inside = column < dim
    there = tl.load(present + item * count + part, mask=part < count, other=0) != 0
    here = (part < count)[:, None] & inside[None, :]
    both = there[:, None] & inside[None, :]
    at = item * count * dim + part[:, None] * dim + column[None, :]
    place = tl.load(places + at, mask=both, other=255).to(tl.int32)
    down = tl.load(slope + item * dim + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weights + item * count + place, mask=both, other=0.0)
    out = (down[None, :] * weight).to(part_slope.dtype.element_ty)
    tl.store(part_slope + at, out, mask=here)
    own = tl.load(parts + at, mask=both, other=0.0).to(tl.float32) * down[None, :]
    weight_slope += (item * tiles + tile) * count
    for one in range(count):
        share = tl.sum(tl.sum(tl.where(place == one, own, 0.0), 0), 0)
        tl.store(weight_slope + one, share)
