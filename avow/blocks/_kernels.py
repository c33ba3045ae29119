"""Three kernels for the similarity vectors of many pairs, where Triton is installed.

They keep on the chip what would otherwise be written to memory and read again. For a pair
of a 12-word caption with 36 regions in bfloat16, kilobytes to and from memory:

                                 one operation each   here
    attend    weights of words           46             2
    compare   gap, square, project,     130            10
              length one
    talk      one look in a graph        31            20

Import this module only where `triton` can be imported; `fused` does so.
"""

# Triton reads its functions as source, so they have no type hints that it does not know.
# Captions of any length share one compiled kernel: their sizes are not specialised.

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit(do_not_specialize=["texts", "words"])
def attend(
    products,  # [images, regions, texts, words]
    gram,  # [images, regions, regions], float32
    present,  # [texts, words]
    shown,  # [images, regions]
    weights,  # [images, texts, words, regions], written
    regions,
    texts,
    words,
    smooth,
    slope,
    eps,
    R: tl.constexpr,
    W: tl.constexpr,
):
    """One image and one text: every word's weights, scaled to attend to a unit vector."""
    text, image = tl.program_id(0), tl.program_id(1).to(tl.int64)
    word, region = tl.arange(0, W), tl.arange(0, R)
    real = tl.load(present + text * words + word, mask=word < words, other=0) != 0
    here = tl.load(shown + image * regions + region, mask=region < regions, other=0) != 0
    inside = (word < words)[:, None] & (region < regions)[None, :]
    place = (image * regions + region)[None, :] * texts * words + text * words
    value = tl.load(products + place + word[:, None], mask=inside, other=0).to(tl.float32)
    value = tl.where(value > 0, value, slope * value)
    value = tl.where(real[:, None], value, 0.0)
    value = value / (tl.sqrt(tl.sum(value * value, 0)) + eps)[None, :]
    value = tl.where(here[None, :], smooth * value, float("-inf"))
    value = tl.exp(value - tl.max(value, 1)[:, None])
    value = value / tl.sum(value, 1)[:, None]
    square = (region < regions)[:, None] & (region < regions)[None, :]
    around = (image * regions + region)[:, None] * regions + region[None, :]
    among = tl.load(gram + around, mask=square, other=0.0)
    length = tl.sum(tl.dot(value, among, input_precision="tf32") * value, 1)
    value = value / (tl.sqrt(tl.maximum(length, eps * eps)) + eps)[:, None]
    row = (image * texts + text) * words + word
    out = value.to(weights.dtype.element_ty)
    tl.store(weights + row[:, None] * regions + region[None, :], out, mask=inside)


@triton.jit(do_not_specialize=["count", "words"])
def compare(
    weights,  # [images, queries, regions]
    context,  # [images, regions, dim]
    queries,  # [queries, dim]
    matrix,  # [narrow, dim]
    bias,  # [narrow]
    nodes,  # [images, texts, 1 + words, narrow], written from node 1 on
    count,
    regions,
    words,
    dim,
    eps,
    R: tl.constexpr,
    S: tl.constexpr,
    ROWS: tl.constexpr,
    DEEP: tl.constexpr,
    KIND: tl.constexpr,
):
    """Some words with one image: the projected square of what each misses, length one."""
    image = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    region, narrow, deep = tl.arange(0, R), tl.arange(0, S), tl.arange(0, DEEP)
    real, there = row < count, region < regions
    place = (image * count + row)[:, None] * regions + region[None, :]
    weight = tl.load(weights + place, mask=real[:, None] & there[None, :], other=0.0)
    total = tl.zeros([ROWS, S], tl.float32)
    for start in range(0, dim, DEEP):
        at = start + deep
        inside = at < dim
        part = tl.load(
            context + (image * regions + region)[:, None] * dim + at[None, :],
            mask=there[:, None] & inside[None, :],
            other=0.0,
        )
        query = tl.load(
            queries + row[:, None] * dim + at[None, :],
            mask=real[:, None] & inside[None, :],
            other=0.0,
        )
        gap = tl.dot(weight, part, input_precision=KIND) - query.to(tl.float32)
        layer = tl.load(
            matrix + narrow[None, :] * dim + at[:, None], mask=inside[:, None], other=0.0
        )
        total += tl.dot((gap * gap).to(layer.dtype), layer, input_precision=KIND)
    total += tl.load(bias + narrow).to(tl.float32)[None, :]
    total = total / (tl.sqrt(tl.sum(total * total, 1)) + eps)[:, None]
    texts = count // words
    node = image * texts * (words + 1) + row // words * (words + 1) + 1 + row % words
    out = total.to(nodes.dtype.element_ty)
    tl.store(nodes + node[:, None] * S + narrow[None, :], out, mask=real[:, None])


@triton.jit(do_not_specialize=["texts", "count"])
def talk(
    asked,  # [images, texts, nodes, narrow]
    nodes,  # [images, texts, nodes, narrow]
    present,  # [texts, nodes]
    heard,  # [images, texts, nodes, narrow], written
    texts,
    count,
    S: tl.constexpr,
    N: tl.constexpr,
    KIND: tl.constexpr,
):
    """One pair: every node looks at every node and hears their mean."""
    pair = tl.program_id(0).to(tl.int64)
    node, narrow = tl.arange(0, N), tl.arange(0, S)
    inside = node < count
    row = (pair * count + node)[:, None]
    mask = inside[:, None] & (narrow >= 0)[None, :]
    question = tl.load(asked + row * S + narrow[None, :], mask=mask, other=0.0)
    known = tl.load(nodes + row * S + narrow[None, :], mask=mask, other=0.0)
    look = tl.dot(question, tl.trans(known), input_precision=KIND)
    real = tl.load(present + (pair % texts) * count + node, mask=inside, other=0) != 0
    look = tl.where(real[None, :], look, float("-inf"))
    look = tl.exp(look - tl.max(look, 1)[:, None])
    look = look / tl.sum(look, 1)[:, None]
    out = tl.dot(look.to(known.dtype), known, input_precision=KIND)
    tl.store(heard + row * S + narrow[None, :], out.to(heard.dtype.element_ty), mask=mask)
