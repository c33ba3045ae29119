"""Texts to vectors on a processor in little more than half the time, run by onnxruntime.

    ids --words looked up--> vectors of words --exported network, one per view--> vectors

Only what lies behind the word vectors is exported, as those are the larger half of it and
the same for every view. Worth its loading for a server, not for a single question.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from avow.blocks.joint_embedding import JointEmbedding
from avow.blocks.lora_text import AdaptedTransformer
from avow.blocks.onnx_export import Run, exported
from avow.blocks.text import AdaptedText
from avow.core.contracts import Tokens, VectorMethod
from avow.core.places import avow_home

Texts = Callable[[Tokens], list[Tensor]]
"""Texts to their vectors, one tensor per view."""


def quick_texts(networks: Sequence[VectorMethod], fingerprint: str) -> Texts | None:
    """The text side of all views, or None where there is no faster way.

    fingerprint: of the model; changes whenever a weight does.
    """
    runs: list[tuple[AdaptedTransformer, Run]] = []
    for number, view in enumerate(networks):
        if not isinstance(view, JointEmbedding) or not isinstance(view.text, AdaptedText):
            return None
        transformer = view.text.transformer
        path = avow_home() / "backbones" / f"text-{fingerprint}-{number}.onnx"
        example = {
            "words": torch.zeros(2, 5, transformer.dim),
            "present": torch.ones(2, 5, dtype=torch.bool),
        }
        run = exported(_Sentence(view, view.text), path, example, {0: "items", 1: "parts"})
        if run is None:
            return None
        runs.append((transformer, run))

    @torch.inference_mode()
    def texts(tokens: Tokens) -> list[Tensor]:
        return [
            run(transformer.look_up(tokens.ids), tokens.present[:, : transformer.longest])
            for transformer, run in runs
        ]

    return texts


class _Sentence(nn.Module):
    """From the vectors of words to that of their sentence, as something to export."""

    def __init__(self, view: JointEmbedding, text: AdaptedText):
        super().__init__()
        self.view, self.text = view, text

    def forward(
        self, words: Float[Tensor, "items parts dim"], present: Bool[Tensor, "items parts"]
    ) -> Tensor:
        states = self.text.project(self.text.transformer.read(words, present))
        return self.view.finish(self.view.text_pool(states, present)).parts[:, 0]
