"""The hot path of similarity vectors in a few large kernels, where a device has them.

Each function answers None where it cannot: no Triton, no CUDA device, a gradient wanted,
another precision than bfloat16, an unusual size. The caller then goes operation by
operation, to the same result. A kernel that fails once is not tried again.
"""

import importlib
import logging
from collections.abc import Callable
from functools import cache
from types import ModuleType

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it
_ROWS, _DEEP = 128, 64  # words, and numbers of each, that one program compares at a time
_MOST_WORDS, _MOST_REGIONS = 64, 64
_ROOM_FOR_THREE = 172_032  # bytes, as the compiler counts them for similarity_dim = 256
_failed = False


@cache
def _kernels() -> ModuleType | None:
    try:
        return importlib.import_module("avow.blocks._kernels")
    except ImportError:
        return None


def is_possible(like: Tensor) -> bool:
    """Whether numbers such as these may take the fused way."""
    quick = like.is_cuda and like.dtype == torch.bfloat16 and not torch.is_grad_enabled()
    return quick and not _failed and _kernels() is not None


def word_weights(
    products: Float[Tensor, "images regions texts words"],
    gram: Float[Tensor, "images regions regions"],
    present: Bool[Tensor, "texts words"],
    shown: Bool[Tensor, "images regions"],
    smooth: float,
    slope: float = 0.1,
) -> Float[Tensor, "images texts words regions"] | None:
    """Of every word over regions, so that what it attends to is a unit vector."""
    images, regions, texts, words = products.shape
    if regions > _MOST_REGIONS or words > _MOST_WORDS:
        return None
    weights = products.new_empty(images, texts, words, regions)

    def launch(kernels: ModuleType) -> None:
        kernels.attend[(texts, images)](
            products.contiguous(),
            gram.contiguous(),
            present.to(torch.uint8),
            shown.to(torch.uint8),
            weights,
            regions,
            texts,
            words,
            smooth,
            slope,
            _EPSILON,
            R=_power(regions),
            W=_power(words),
            num_warps=4,
        )

    return weights if _done(launch) else None


def word_nodes(
    weights: Float[Tensor, "images queries regions"],
    context: Float[Tensor, "images regions dim"],
    queries: Float[Tensor, "queries dim"],
    layer: nn.Linear,
    nodes: Float[Tensor, "images texts nodes narrow"],
) -> bool:
    """Write every node but the first: the projected squared gaps as unit vectors."""
    narrow, kind = layer.out_features, nodes.dtype
    regions, words = weights.shape[2], nodes.shape[2] - 1
    if regions > _MOST_REGIONS or _power(narrow) != narrow or narrow > 256:
        return False
    count = len(queries)

    def launch(kernels: ModuleType) -> None:
        kernels.compare[(-(-count // _ROWS), len(weights))](
            weights.contiguous(),
            context.contiguous(),
            queries.contiguous(),
            layer.weight.to(kind).contiguous(),
            layer.bias.to(kind),
            nodes,
            count,
            regions,
            words,
            queries.shape[1],
            _EPSILON,
            R=_power(regions),
            S=narrow,
            ROWS=_ROWS,
            DEEP=_DEEP,
            KIND=_exactness(nodes),
            num_warps=8,
            num_stages=_stages(nodes),
        )

    return _done(launch)


def graph_step(
    asked: Float[Tensor, "images texts nodes narrow"],
    nodes: Float[Tensor, "images texts nodes narrow"],
    present: Bool[Tensor, "texts nodes"],
) -> Float[Tensor, "images texts nodes narrow"] | None:
    """softmax(asked . nodes) nodes, pair by pair."""
    images, texts, count, narrow = nodes.shape
    if count > _MOST_WORDS or _power(narrow) != narrow or narrow > 256:
        return None
    heard = torch.empty_like(nodes)

    def launch(kernels: ModuleType) -> None:
        kernels.talk[(images * texts,)](
            asked.contiguous(),
            nodes.contiguous(),
            present.to(torch.uint8),
            heard,
            texts,
            count,
            S=narrow,
            N=_power(count),
            KIND=_exactness(nodes),
            num_warps=2 if count <= 16 else 4,
        )

    return heard if _done(launch) else None


def _done(launch: Callable[[ModuleType], None]) -> bool:
    """Whether it ran; after a failure nothing is tried again."""
    global _failed
    kernels = _kernels()
    if kernels is None:
        return False
    try:
        launch(kernels)
    except Exception as error:  # a compiler may refuse in any way it likes
        _failed = True
        logging.getLogger(__name__).info("no fused kernels from here on: %s", error)
        return False
    return True


def _stages(like: Tensor) -> int:
    """How many steps are read ahead: as many as the shared memory of a block has room for."""
    if not like.is_cuda:
        return 2
    about = torch.cuda.get_device_properties(like.device)
    room = getattr(about, "shared_memory_per_block_optin", 0)
    return 3 if room >= _ROOM_FOR_THREE else 2


def _power(count: int) -> int:
    """The next power of two, and at least the 16 that a small product takes."""
    return max(16, 1 << (count - 1).bit_length())


def _exactness(like: Tensor) -> str:
    return "ieee" if like.dtype == torch.float32 else "tf32"
