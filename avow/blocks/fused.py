"""The hot path of similarity vectors in a few large kernels, where a device has them.

Each function of pairs answers None (or False) where it cannot: no Triton, no CUDA device, a
gradient wanted, numbers of more than 16 bits, an unusual size. The caller then goes operation
by operation, to the same result. After one kernel fails, which is logged, none is tried.
"""

import importlib
import logging
from collections.abc import Callable
from functools import cache
from types import ModuleType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it
_MOST_PARTS = 64
_MOST_NARROW = 256
_AT_ONCE = 32  # nodes that a program reads whole
_USUAL = {"num_warps": 4, "num_stages": 1, "enable_fp_fusion": True}
CHOICES = {
    "attend": _USUAL | {"ROWS": 64},
    "compare": _USUAL | {"ROWS": 128, "DEEP": 64, "num_warps": 8, "num_stages": 3},
    "reason": _USUAL | {"ROWS": 128, "WIDE": 64, "num_warps": 8, "num_stages": 3},
    "hear": _USUAL,
    "gate": _USUAL,
    "rank": _USUAL | {"COLUMNS": 32},
    "rank_back": _USUAL | {"COLUMNS": 32},
    "gru_forth": _USUAL | {"COLUMNS": 512},
    "gru_back": _USUAL | {"COLUMNS": 512},
    "small_gru_forth": _USUAL | {"ROWS": 16},
    "small_gru_back": _USUAL | {"ROWS": 16},
    "unit_back": _USUAL | {"ROWS": 16},
    "gap_back": _USUAL | {"COLUMNS": 1024},
    "remember": _USUAL | {"COLUMNS": 1024},
    "remember_back": _USUAL | {"COLUMNS": 1024},
}
"""Per kernel: rows of a program, what it takes at a time, warps, and steps read ahead.

Chosen for compute capability 9.0 from what its compiler says: nothing spills, products are
those of warp groups, and shared memory holds all stages (16, 168, 208 and 4 kB at most).
"""

Layer = tuple[Float[Tensor, "out in"], Float[Tensor, " out"]]
ran: set[str] = set()
"""The kernels that this process has launched."""
_failure = ""
_learning = False


@cache
def _kernels() -> ModuleType | None:
    try:
        return importlib.import_module("avow.blocks._kernels")
    except ImportError:
        return None


def is_ready() -> bool:
    """Whether kernels can be launched at all, and none has failed."""
    return not _failure and _kernels() is not None


def use_for_learning(wanted: bool) -> None:
    """Whether this process takes kernels also where a gradient is wanted; at first it does not.

    Pooling by rank is not asked: it always takes its own.
    """
    global _learning
    _learning = wanted


def can_learn(like: Tensor) -> bool:
    """Whether kernels may take numbers such as these where a gradient is wanted."""
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    return _learning and like.is_cuda and like.dtype in kinds and is_ready()


def is_possible(like: Tensor) -> bool:
    """Whether numbers such as these may take the fused way."""
    return not torch.is_grad_enabled() and not why_not(like)


def why_not(like: Tensor) -> str:
    """What keeps numbers such as these from the fused way; empty if nothing does."""
    if not like.is_cuda:
        return "no CUDA device"
    if like.dtype not in (torch.bfloat16, torch.float16):
        return "neither in bfloat16 nor in float16"
    return _failure or ("" if _kernels() else "Triton is not installed")


def forget_failure() -> None:
    """Try again, after what failed has been changed."""
    global _failure
    _failure = ""


def word_weights(
    context: Float[Tensor, "images regions dim"],
    queries: Float[Tensor, "queries dim"],
    gram: Float[Tensor, "images regions regions"],
    present: Bool[Tensor, "texts words"],
    shown: Bool[Tensor, "images regions"],
    smooth: float,
    slope: float = 0.1,
) -> Float[Tensor, "images texts words regions"] | None:
    """Of every word over regions, so that what it attends to is a unit vector."""
    (images, regions, _), (texts, words) = context.shape, present.shape
    if regions > _MOST_PARTS or words > _MOST_PARTS:
        return None
    weights, how = queries.new_empty(images, texts, words, regions), CHOICES["attend"]

    def launch(kernels: ModuleType) -> None:
        kernels.attend[(tiles(texts, how["ROWS"] // words), images)](
            _products(context.flatten(0, 1), queries),
            gram.contiguous(),
            _owners(present, 0),
            shown.to(torch.uint8),
            weights,
            texts,
            words,
            smooth,
            slope,
            _EPSILON,
            regions=regions,
            R=power(regions),
            KIND=_exactness(queries),
            **how,
        )

    return weights if done("attend", queries, launch) else None


def word_nodes(
    weights: Float[Tensor, "images queries regions"],
    context: Float[Tensor, "images regions dim"],
    queries: Float[Tensor, "queries dim"],
    layer: Layer,
    nodes: Float[Tensor, "images texts nodes narrow"],
    lengths: Float[Tensor, "images texts nodes"] | None = None,
) -> bool:
    """Write every node but the first: the projected squared gaps as unit vectors.

    lengths: where to write how long they were before.
    """
    return _compared(weights, context, queries, layer, nodes, lengths)


def gist_nodes(
    context: Float[Tensor, "images dim"],
    queries: Float[Tensor, "texts dim"],
    layer: Layer,
    nodes: Float[Tensor, "images texts nodes narrow"],
    lengths: Float[Tensor, "images texts nodes"] | None = None,
) -> bool:
    """Write the first nodes: each text's gist beside each image's."""
    return _compared(None, context, queries, layer, nodes, lengths)


def _compared(
    weights: Tensor | None,
    context: Tensor,
    queries: Tensor,
    layer: Layer,
    nodes: Tensor,
    lengths: Tensor | None,
) -> bool:
    narrow, kind = len(layer[0]), nodes.dtype
    regions = 1 if weights is None else weights.shape[2]
    if regions > _MOST_PARTS or not _is_handy(narrow):
        return False
    count, words, how = len(queries), nodes.shape[2] - 1, CHOICES["compare"]

    def launch(kernels: ModuleType) -> None:
        kernels.compare[(tiles(count, how["ROWS"]), len(context))](
            (context if weights is None else weights).contiguous(),
            context.contiguous(),
            queries.contiguous(),
            layer[0].to(kind).contiguous(),
            layer[1].to(kind),
            nodes,
            nodes if lengths is None else lengths,
            count,
            words,
            _EPSILON,
            dim=queries.shape[1],
            regions=regions,
            R=power(regions),
            S=narrow,
            KIND=_exactness(nodes),
            ALONE=weights is None,
            KEEP=lengths is not None,
            **how,
        )

    return done("compare", nodes, launch)


def graph_step(
    nodes: Float[Tensor, "images texts nodes narrow"],
    present: Bool[Tensor, "texts nodes"],
    ask: Layer,
    change: Layer,
) -> Float[Tensor, "images texts nodes narrow"] | None:
    """relu(change(softmax(ask(x) . x) x)), pair by pair."""
    images, texts, count, narrow = nodes.shape
    if count > _MOST_PARTS or not _is_handy(narrow):
        return None
    how = CHOICES["reason"]
    after, per, wide = torch.empty_like(nodes), how["ROWS"] // count, min(how["WIDE"], narrow)

    def launch(kernels: ModuleType) -> None:
        kernels.reason[(tiles(images * texts, per),)](
            nodes,
            _owners(present, per),
            *(part.contiguous() for part in (*ask, *change)),
            after,
            texts,
            images * texts,
            count,
            S=narrow,
            KIND=_exactness(nodes),
            **how | {"WIDE": wide},
        )

    return after if nodes.is_contiguous() and done("reason", nodes, launch) else None


def last_look(
    asked: Float[Tensor, "images texts 1 narrow"],
    nodes: Float[Tensor, "images texts nodes narrow"],
    present: Bool[Tensor, "texts nodes"],
) -> Float[Tensor, "images texts 1 narrow"] | None:
    """softmax(asked . x) x, pair by pair: what one node hears of all."""
    images, texts, count, narrow = nodes.shape
    if count > _MOST_PARTS or not _is_handy(narrow):
        return None
    heard, at_once = torch.empty_like(asked), max(1, _AT_ONCE // power(count))

    def launch(kernels: ModuleType) -> None:
        kernels.hear[(tiles(images * texts, at_once),)](
            asked.contiguous(),
            nodes.contiguous(),
            present.to(torch.uint8),
            heard,
            texts,
            images * texts,
            count,
            S=narrow,
            N=power(count),
            PAIRS=at_once,
            **CHOICES["hear"],
        )

    return heard if done("hear", nodes, launch) else None


def gated_scores(
    nodes: Float[Tensor, "images texts nodes narrow"],
    present: Bool[Tensor, "texts nodes"],
    weigh: Float[Tensor, " narrow"],
    judge: Float[Tensor, " narrow"],
    numbers: Float[Tensor, "3"],
) -> Float[Tensor, "images texts"] | None:
    """judge . unit(sum of gates x): a gate is sigmoid(a (weigh . x) + b), over their sum.

    numbers: a, b, and what is added to every score.
    """
    images, texts, count, narrow = nodes.shape
    if count > _MOST_PARTS or not _is_handy(narrow):
        return None
    scores = nodes.new_empty(images, texts, dtype=torch.float32)
    at_once = max(1, _AT_ONCE // power(count))

    def launch(kernels: ModuleType) -> None:
        kernels.gate[(tiles(images * texts, at_once),)](
            nodes.contiguous(),
            present.to(torch.uint8),
            weigh.contiguous(),
            judge.float().contiguous(),
            numbers.float().contiguous(),
            scores,
            texts,
            images * texts,
            count,
            _EPSILON,
            S=narrow,
            N=power(count),
            PAIRS=at_once,
            **CHOICES["gate"],
        )

    return scores if done("gate", nodes, launch) else None


def done(name: str, like: Tensor, launch: Callable[[ModuleType], None]) -> bool:
    """Whether it ran; after a failure nothing is tried again."""
    global _failure
    kernels = _kernels()
    if kernels is None or _failure:
        return False
    try:
        with torch.cuda.device_of(like):
            launch(kernels)
    except Exception as error:  # a compiler may refuse in any way it likes
        reason = " ".join(str(error).split())[:300]
        _failure = f"{type(error).__name__} in '{name}': {reason}"
        logging.getLogger(__name__).warning(
            "Work goes operation by operation, which is slower: a kernel cannot run (%s).",
            _failure,
        )
        return False
    ran.add(name)
    return True


def _products(
    one: Float[Tensor, "ones dim"], other: Float[Tensor, "others dim"]
) -> Float[Tensor, "ones others"]:
    """Sums as they are added up, in float32, where the library lets them out like that."""
    if one.is_cuda and one.dtype != torch.float32:
        try:
            return torch.mm(one, other.T, out_dtype=torch.float32)
        except (TypeError, RuntimeError):  # an older library, or another device
            pass
    return one @ other.T


def _owners(present: Bool[Tensor, "texts parts"], more: int) -> Int[Tensor, "some parts"]:
    """Which text each part is of, counted from 1; 0 where there is none.

    The first texts come once more after the last, as new ones: a program may take the last
    pairs of one image and the first of the next.
    """
    count = len(present) + more
    again = present.repeat(tiles(count, len(present)), 1)[:count] if more else present
    number = torch.arange(1, count + 1, dtype=torch.int32, device=present.device)
    return number[:, None] * again


def tiles(count: int, size: int) -> int:
    return -(-count // size)


def _is_handy(narrow: int) -> bool:
    return power(narrow) == narrow <= _MOST_NARROW


def power(count: int) -> int:
    """The next power of two, and at least the 16 that a small product takes."""
    return max(16, 1 << (count - 1).bit_length())


def _exactness(like: Tensor) -> str:
    return "ieee" if like.dtype == torch.float32 else "tf32"
