"""A frozen text network that learns little: low-rank changes beside its own weights.

    W x   becomes   (W + B A) x        A [rank, in], B [out, rank], B begins at zero

The network's own weights come from where they were published and are never saved again: a
trained model of this kind is a few megabytes. Only what is needed of BERT is here, read
from the weights themselves; in evaluation the sums W + B A are formed once and kept.

Papers: Devlin et al., "BERT", NAACL 2019; Hu et al., "LoRA: Low-Rank Adaptation of Large
Language Models", ICLR 2022.
"""

import json
import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from avow.blocks.pretrained import model_files
from avow.core.errors import BadRecipe
from avow.core.fingerprint import of_text

_CHANGED = ("qkv", "out", "wide", "narrow")


class AdaptedTransformer(nn.Module):
    """Token ids in, one state per token out."""

    def __init__(self, source: str, rank: int):
        """rank: of the changes; 0 for none, which leaves nothing to learn."""
        super().__init__()
        folder = model_files(source)
        config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
        weights = folder / "model.safetensors"
        if config.get("model_type") != "bert" or not weights.is_file():
            raise BadRecipe(
                f"{source!r} is a {config.get('model_type')!r} model. Expected BERT or one of "
                "its kin with a 'model.safetensors', such as 'minilm'; choose another one, or "
                'the text encoder "bert".'
            )
        self.heads: int = config["num_attention_heads"]
        self.layers: int = config["num_hidden_layers"]
        self.eps: float = config["layer_norm_eps"]
        self.longest: int = config["max_position_embeddings"]
        self.dim: int = config["hidden_size"]
        for name, tensor in _gathered(load_file(weights), self.layers).items():
            self.register_buffer(name, tensor, persistent=False)
        # the changes mean nothing beside other weights, so which these are is saved with them
        self.register_buffer("beside", _number_of(self._words))
        self.low, self.high = nn.ParameterDict(), nn.ParameterDict()
        for layer in range(self.layers if rank else 0):
            for part in _CHANGED:
                outside, inside = self._own(part, layer).shape
                first = torch.randn(rank, inside) / math.sqrt(inside)
                self.low[f"{part}{layer}"] = nn.Parameter(first)
                self.high[f"{part}{layer}"] = nn.Parameter(torch.zeros(outside, rank))
        self._sums: tuple[tuple[int, ...], dict[str, Tensor]] = ((), {})
        """Of which versions of the changes, and what came out."""
        self.register_load_state_dict_pre_hook(refuse_others)

    @property
    def _words(self) -> Tensor:
        return self.get_buffer("words")

    def train(self, mode: bool = True) -> "AdaptedTransformer":
        # what changes many weights at once on a device does not count their versions
        self._sums = ((), {})
        return super().train(mode)

    def forward(
        self, ids: Int[Tensor, "items parts"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts dim"]:
        return self.read(self.look_up(ids), present[:, : self.longest])

    def look_up(self, ids: Int[Tensor, "items parts"]) -> Float[Tensor, "items seen dim"]:
        """The vector of every word at its place."""
        ids = ids[:, : self.longest]
        return self._words[ids] + self.get_buffer("places")[: ids.shape[1]]

    def read(
        self, words: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> Float[Tensor, "items parts dim"]:
        """From the vectors of words to their states in the sentence."""
        weights = self._weights()
        states = self._normalised(words, "first")
        mask = present[:, None, None, :]
        for layer in range(self.layers):
            states = self._layer(states, mask, weights, layer)
        return states

    def _layer(
        self,
        states: Float[Tensor, "items parts dim"],
        mask: Bool[Tensor, "items 1 1 parts"],
        weights: dict[str, Tensor],
        layer: int,
    ) -> Float[Tensor, "items parts dim"]:
        def through(part: str, given: Tensor) -> Tensor:
            bias = self.get_buffer(f"{part}_bias{layer}")
            return linear(given, weights[f"{part}{layer}"], bias)

        split = through("qkv", states).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heard = scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=mask)
        heard = heard.transpose(1, 2).flatten(2)
        states = self._normalised(states + through("out", heard), f"middle{layer}")
        thought = through("narrow", gelu(through("wide", states)))
        return self._normalised(states + thought, f"last{layer}")

    def _normalised(self, states: Tensor, name: str) -> Tensor:
        weight, bias = self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")
        return layer_norm(states, (self.dim,), weight, bias, self.eps)

    def _own(self, part: str, layer: int) -> Tensor:
        return self.get_buffer(f"{part}_weight{layer}")

    def _weights(self) -> dict[str, Tensor]:
        """W + B A of every changed matrix; kept while nothing is learnt."""
        if self.training or torch.is_grad_enabled() or not self.low:
            return self._summed()
        state, sums = tuple(parameter._version for parameter in self.parameters()), self._sums
        if sums[0] != state or sums[1]["qkv0"].device != self._words.device:
            self._sums = sums = (state, self._summed())
        return sums[1]

    def _summed(self) -> dict[str, Tensor]:
        return {
            f"{part}{layer}": self._changed(part, layer)
            for part in _CHANGED
            for layer in range(self.layers)
        }

    def _changed(self, part: str, layer: int) -> Tensor:
        own, name = self._own(part, layer), f"{part}{layer}"
        return own + self.high[name] @ self.low[name] if name in self.low else own


def _gathered(state: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The weights of BERT under short names; queries, keys and values as one matrix."""
    start = "embeddings."
    types = state[f"{start}token_type_embeddings.weight"][0]
    weights = {
        "words": state[f"{start}word_embeddings.weight"],
        "places": state[f"{start}position_embeddings.weight"] + types,
        "first_weight": state[f"{start}LayerNorm.weight"],
        "first_bias": state[f"{start}LayerNorm.bias"],
    }
    for layer in range(layers):
        at = f"encoder.layer.{layer}."
        for kind in ("weight", "bias"):
            three = [
                state[f"{at}attention.self.{one}.{kind}"] for one in ("query", "key", "value")
            ]
            weights |= {
                f"qkv_{kind}{layer}": torch.cat(three),
                f"out_{kind}{layer}": state[f"{at}attention.output.dense.{kind}"],
                f"wide_{kind}{layer}": state[f"{at}intermediate.dense.{kind}"],
                f"narrow_{kind}{layer}": state[f"{at}output.dense.{kind}"],
                f"middle{layer}_{kind}": state[f"{at}attention.output.LayerNorm.{kind}"],
                f"last{layer}_{kind}": state[f"{at}output.LayerNorm.{kind}"],
            }
    return {name: tensor.float() for name, tensor in weights.items()}


def _number_of(words: Float[Tensor, "words dim"]) -> Int[Tensor, ""]:
    """A number that tells weights apart: from the word vectors, which no two share."""
    taken = words[:: max(1, len(words) // 64)].contiguous()
    letters = of_text([taken.numpy().tobytes().hex()])
    return torch.tensor(int(letters[:15], 16))


def refuse_others(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    given = state.get(f"{prefix}beside")
    if given is not None and int(given) != int(module.get_buffer("beside")):
        raise RuntimeError("it was trained beside other weights of its text network")
