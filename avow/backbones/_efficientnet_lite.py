"""EfficientNet-Lite on ImageNet: a stride-32 grid of 1,280 channels.

    photograph --stretch--> bytes --(x - 127) / 128--> network --> grid cells

The bytes travel to the device as they are and become numbers there.

Paper: Tan & Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
Networks", ICML 2019; the Lite variants drop squeeze-and-excitation and use ReLU6.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor, nn

from avow.blocks.onnx_export import Run, quick
from avow.blocks.pretrained import lite_file, of_weights
from avow.core import fingerprint
from avow.core.contracts import Backbone
from avow.core.errors import BadRecipe, MissingExtra
from avow.core.photographs import stretched

_STRIDE = 32
_SMALL = 4096  # numbers; smaller tensors are saved in full
_FIT_IN_CACHE = 8  # photographs; a processor is slower on more at once
_PREPROCESSING = "rgb, upright, stretched bicubic, (x - 127) / 128"


class EfficientNetLite(Backbone):
    """The convolutions of one EfficientNet-Lite; its classifier is not used."""

    dim = 1280

    def __init__(self, network: Any, identity: dict[str, Any], channels_last: bool):
        super().__init__()
        self.network = network
        self.identity = identity
        self.size: int = identity["size"]
        self.channels_last = channels_last
        self._quick: Run | None = None

    def quicken(self) -> "EfficientNetLite":
        """Run on onnxruntime wherever that is installed; the cells differ by rounding only."""
        name = f"{self.identity['backbone']}-{self.identity['weights']}"
        self._quick = quick(_Cells(self.network), name, self.size)
        return self

    def take(self, state: Mapping[str, Tensor]) -> None:
        """Weights of `network`, such as `fused` made them."""
        full = {name: tensor.float() for name, tensor in state.items()}
        rest = {n: t for n, t in self.network.state_dict().items() if n not in full}
        missing = [name for name in rest if not _untouched(name)]
        if missing:
            raise ValueError(f"{missing[0]} is missing")
        self.network.load_state_dict(full | rest)
        self.identity = {**self.identity, "weights": of_weights(self.network)}
        self._quick = None

    def fused(self) -> dict[str, Tensor]:
        """Weights of the same function with every normalisation inside its convolution.

        As half precision such weights are what an exported network computes with, so that
        both can share one file.
        """
        network: Any = copy.deepcopy(self.network).float().cpu()
        pairs = [(network._conv_stem, network._bn0), (network._conv_head, network._bn1)]
        for block in network._blocks:
            if hasattr(block, "_expand_conv"):
                pairs.append((block._expand_conv, block._bn0))
            pairs.append((block._depthwise_conv, block._bn1))
            pairs.append((block._project_conv, block._bn2))
        with torch.no_grad():
            for convolution, norm in pairs:
                _fuse(convolution, norm)
        return {
            name: tensor.half() if tensor.numel() >= _SMALL else tensor
            for name, tensor in network.state_dict().items()
            if not _untouched(name)
        }

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return stretched(photograph, self.size)

    def forward(
        self, pixels: UInt8[Tensor, "items height width 3"]
    ) -> Float[Tensor, "items rows columns 1280"]:
        on_processor = pixels.device.type == "cpu"
        groups = pixels.split(_FIT_IN_CACHE) if on_processor else (pixels,)
        return torch.cat([self._grid(group) for group in groups])

    def _grid(
        self, pixels: UInt8[Tensor, "items height width 3"]
    ) -> Float[Tensor, "items rows columns 1280"]:
        planes = pixels.permute(0, 3, 1, 2)  # in memory the channels stay last
        scaled = (planes.to(self._dtype) - 127) / 128
        if self._quick is not None and pixels.device.type == "cpu":
            return self._quick(scaled).permute(0, 2, 3, 1)
        if not self.channels_last:
            scaled = scaled.contiguous()
        return self.network.extract_features(scaled).permute(0, 2, 3, 1).float()

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype


def _untouched(name: str) -> bool:
    """Whether a weight has no part in the cells: the classifier, and counts of batches."""
    return name.startswith("_fc") or name.endswith("num_batches_tracked")


def _fuse(convolution: Any, norm: Any) -> None:
    """Move scale and shift of `norm` into the weights before it and its own bias."""
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    convolution.weight *= scale[:, None, None, None]
    norm.bias -= norm.running_mean * scale
    norm.running_mean.zero_()
    norm.running_var.fill_(1 - norm.eps)
    norm.weight.fill_(1)


class _Cells(nn.Module):
    """The convolutions alone, as something that can be exported."""

    def __init__(self, network: Any):
        super().__init__()
        self.network = network

    def forward(self, planes: Float[Tensor, "items 3 height width"]) -> Tensor:
        return self.network.extract_features(planes)


def build_lite(number: int, size: int, channels_last: bool = True) -> EfficientNetLite:
    """EfficientNet-Lite`number` for photographs of `size` x `size` pixels."""
    if size < _STRIDE:
        raise BadRecipe(
            f"The size {size} is too small for 'efficientnet_lite{number}'. Expected "
            f"at least {_STRIDE} pixels, so that one grid cell is left."
        )
    weights = lite_file(number)
    identity = {
        "backbone": f"efficientnet_lite{number}",
        "weights": fingerprint.of_file(weights),
        "size": size,
        "preprocessing": _PREPROCESSING,
    }
    network = _network(number, size, weights).eval().requires_grad_(False)
    return EfficientNetLite(network, identity, channels_last).eval()


def _network(number: int, size: int, weights: Path) -> nn.Module:
    try:
        from efficientnet_lite_pytorch import EfficientNet
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"The backbone 'efficientnet_lite{number}'",
            "efficientnet-lite-pytorch",
            "weights",
        ) from error
    # the padding of every layer is worked out from the image size
    network = EfficientNet.from_name(f"efficientnet-lite{number}", image_size=size)
    network.load_state_dict(torch.load(weights, "cpu", weights_only=True))
    return network
