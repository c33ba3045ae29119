"""How much arithmetic a comparison takes, counted by formula, method by method.

Only products of matrices are counted, two per multiplication, and only for words that are
there: padding is work that nobody asked for. What is made once per item and shared by all
pairs is left out where it is below one part in a hundred.
"""

from collections.abc import Sequence

from avow.core.contracts import Method
from avow.methods._partwise import Partwise
from avow.methods._similarity_vectors import SimilarityVectors
from avow.methods.acmnet import ConfidenceMatching
from avow.methods.dive import Dive
from avow.methods.gsmn import FEWEST_CHANNELS, Gsmn
from avow.methods.imram import RecurrentAttention
from avow.methods.saf import AttentionFiltration
from avow.methods.scan import CrossAttention
from avow.methods.sgr import GraphReasoning


def score_flops(
    method: Method, images: int, lengths: Sequence[int], regions: int, dim: int
) -> float:
    """What our way of scoring `images` x captions of these `lengths` takes."""
    return images * sum(pair_flops(method, regions, words, dim) for words in lengths)


def pair_flops(method: Method, regions: int, words: int, dim: int) -> float:
    """Of one image and one caption of `words` words."""
    if isinstance(method, SimilarityVectors):
        return _similarity_vectors(method, regions, words, dim)
    if isinstance(method, Gsmn):
        return _gsmn(method, regions, words, dim)
    if isinstance(method, Dive):
        return 2 * len(method.visual_slots.slots) ** 2 * dim
    if not isinstance(method, Partwise):
        return 2 * dim
    pairing = method.pairing
    if isinstance(pairing, RecurrentAttention):
        return _imram(pairing, regions, words, dim)
    asks_words = (
        pairing.direction == "t2i"
        if isinstance(pairing, CrossAttention)
        else isinstance(pairing, ConfidenceMatching) and pairing.grounded == "text"
    )
    query, context = (words, regions) if asks_words else (regions, words)
    return _look(query, context, dim)


def _look(query: int, context: int, dim: int) -> float:
    """Products, and the length of what is attended from those of the context."""
    return 2 * query * context * dim + 2 * query * context**2


def _imram(pairing: RecurrentAttention, regions: int, words: int, dim: int) -> float:
    total = 0.0
    sides = [(words, regions)] * (pairing.mode != "image")
    sides += [(regions, words)] * (pairing.mode != "text")
    for query, context in sides:
        total += 2 * query * context * dim + pairing.steps * 2 * query * context**2
        # gate and fresh content read what is attended; then the new products
        total += (pairing.steps - 1) * 6 * query * context * dim
        # the state is of the pair from the second step on, and is read by two layers
        total += max(0, pairing.steps - 2) * 4 * query * dim**2
    return total


def _similarity_vectors(method: SimilarityVectors, regions: int, words: int, dim: int) -> float:
    narrow, nodes = method.local.out_features, words + 1
    padded = regions + -regions % 4  # rows of 16 bytes
    attention = 4 * words * padded * dim + 2 * words * padded**2
    total = attention + 2 * nodes * dim * narrow
    head = method.head
    if isinstance(head, GraphReasoning):
        early = len(head.steps) - 1
        total += early * (4 * nodes * narrow**2 + 4 * nodes**2 * narrow)
        return total + 4 * narrow**2 + 4 * nodes * narrow
    assert isinstance(head, AttentionFiltration)
    return total + 4 * nodes * narrow


def _gsmn(method: Gsmn, regions: int, words: int, dim: int) -> float:
    graph = method.visual_graph
    hidden, blocks = graph.convolve.out_features, method.blocks
    if dim >= FEWEST_CHANNELS * blocks and graph.convolve.weight.device.type == "cpu":
        # what is gathered is not formed: its lengths come from products, block by block
        total = 2 * regions * words * (dim + blocks * (regions + words))
    else:
        total = 6 * regions * words * dim
    total += 2 * regions * blocks * hidden + 2 * regions**2 * hidden
    total += 2 * words**2 * blocks + 2 * words * blocks * hidden
    return total + 2 * (regions + words) * hidden**2
