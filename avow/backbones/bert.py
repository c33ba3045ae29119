"""BERT, or any encoder like it: the token states of its last layer.

Paper: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for
Language Understanding", NAACL 2019.
"""

from avow.backbones._text import Transformer


def build(name: str = "bert-base-uncased") -> Transformer:
    """name: hub name, or a folder made by `save_pretrained` (tokeniser included)."""
    return Transformer("bert", name)
