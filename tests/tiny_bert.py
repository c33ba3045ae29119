"""A BERT with random weights that is small enough to build in a test."""

from pathlib import Path

import torch
from transformers import BertConfig, BertModel


def save_bert(folder: Path, words: int, pooling: bool = False, **sizes: int) -> None:
    """Write it to `folder` as `save_pretrained` does."""
    small = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=words, **(small | sizes))
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=pooling).save_pretrained(folder)
