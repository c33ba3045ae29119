"""All views as one module, so that one wrapped `forward` compares a whole batch.

With several processes everything that is trained must pass through the `forward` of the
module that `accelerate` wrapped; otherwise gradients are not shared. Each process
compares its own batch, or, with `gather`, all processes compare the batches of all.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from avow.blocks.views_together import computed_together
from avow.core.contracts import Encoded, Method, Regions, Tokens


class Comparison(nn.Module):
    """The views, and one comparison of a batch by each of them."""

    def __init__(
        self,
        views: Sequence[Method],
        gather: bool = False,
        bf16: bool = False,
        together: bool = True,
    ):
        """together: whether views do at once what they can do at once, where that is faster."""
        super().__init__()
        self.views = nn.ModuleList(views)
        self.gather, self.bf16, self.together = gather, bf16, together

    def forward(
        self, visual: Regions, text: Tokens, regularised: bool = True
    ) -> tuple[list[Float[Tensor, "images texts"]], Float[Tensor, ""]]:
        """Similarities per view, and the sum of what the methods add themselves."""
        if not self.together:
            return self._one_by_one(visual, text, regularised)
        with computed_together(list(self.views), visual, text):
            return self._one_by_one(visual, text, regularised)

    def _one_by_one(
        self, visual: Regions, text: Tokens, regularised: bool
    ) -> tuple[list[Float[Tensor, "images texts"]], Float[Tensor, ""]]:
        scores, extra = [], visual.features.new_zeros((), dtype=torch.float32)
        device = visual.features.device.type
        for view in self.views:
            # a cast kept from one pass to the next could not be recorded as a graph
            with torch.autocast(device, torch.bfloat16, self.bf16, cache_enabled=False):
                images, texts = view.encode_visual(visual), view.encode_text(text)  # type: ignore[operator]
            if regularised:
                extra = extra + view.regulariser(images, texts)  # type: ignore[operator]
            if self.gather:
                images, texts = _from_all(images), _from_all(texts)
            scores.append(view.similarity(images, texts))  # type: ignore[operator]
        return scores, extra


def _from_all(encoded: Encoded) -> Encoded:
    """The items of all processes in order of rank; gradients flow back to each."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return encoded
    longest = torch.tensor(encoded.parts.shape[1], device=encoded.parts.device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    own = encoded.resized(int(longest))
    return Encoded(
        _Gathered.apply(own.parts.contiguous()),
        _collected(own.present),
        None if own.boxes is None else _collected(own.boxes),
        None if own.edges is None else _collected(own.edges),
    )


def _collected(items: Tensor) -> Tensor:
    """Everybody's items without their gradients; truth values travel as small numbers."""
    sent = (items.to(torch.uint8) if items.dtype == torch.bool else items).contiguous()
    everyone = [torch.empty_like(sent) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, sent)
    return torch.cat(everyone).to(items.dtype)


class _Gathered(torch.autograd.Function):
    """Everybody's items, one process after the other; each gets its own gradient back."""

    @staticmethod
    def forward(ctx: Any, items: Tensor) -> Tensor:
        everyone = [torch.empty_like(items) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, items)
        return torch.cat(everyone)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        own = len(total) // dist.get_world_size()
        return total[dist.get_rank() * own :][:own]
