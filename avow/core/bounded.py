"""Build a network in no more memory than its saved weights justify.

    with Bounded(numbers=4 * weights):
        network = build(dim=10**7)      raises TooLarge before anything is allocated

The sizes of a saved network come from a text file that anybody may have written; how many
weights there are comes from the files that hold them. PyTorch asks for every parameter by a
call such as `torch.empty`, which is looked at here before it is carried out.

    with Undrawn():
        network = build()               its random weights are not drawn
    network.load_state_dict(weights)    all of them, or they are whatever the memory held
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_BY_SHAPE = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn}
_BY_SHAPE |= {torch.full, torch.randint, torch.empty_strided}
_BY_COUNT = {torch.arange, torch.linspace, torch.logspace, torch.randperm, torch.eye}

_DRAWN = {"normal_", "uniform_", "kaiming_normal_", "kaiming_uniform_"}
"""By name: transformers puts functions of its own in the place of those of torch.nn.init."""


class TooLarge(Exception):
    """More numbers were asked for than there may be."""


class _EveryCall(TorchFunctionMode, ABC):
    """While it is active, every call of a function of torch goes through `call`."""

    @abstractmethod
    def call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.call(func, args, kwargs or {})


class Bounded(_EveryCall):
    """While it is active, new tensors have at most so many numbers, all of them together."""

    def __init__(self, numbers: int):
        super().__init__()
        self.most = self.left = numbers

    def call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if func in _BY_SHAPE or func in _BY_COUNT:
            self.left -= _asked(func, args, kwargs)
            if self.left < 0:
                raise TooLarge(f"its settings ask for more than {self.most} numbers")
        return func(*args, **kwargs)


class Undrawn(_EveryCall):
    """While it is active, no random weights are drawn: half of the time to open a BERT."""

    def call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if getattr(func, "__name__", "") in _DRAWN:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _asked(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How many numbers a call asks for, or more."""
    if func in _BY_COUNT:
        sizes = [abs(int(one)) for one in (*args, kwargs.get("steps", 0)) if _is_number(one)]
        return max(sizes, default=0) ** (2 if func is torch.eye else 1)
    if func is torch.randint:  # its bounds come first
        shape = next((one for one in args if not _is_number(one)), ())
    else:
        shape = args[0] if args and not _is_number(args[0]) else args
    shape = kwargs.get("size", shape)
    return math.prod(max(0, int(one)) for one in shape if _is_number(one))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
