"""Unit vectors of sentences: all-MiniLM-L6-v2 as it was published.

Paper: Reimers, Gurevych, "Sentence-BERT", EMNLP 2019.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from avow.blocks.lora_text import AdaptedTransformer
from avow.blocks.pretrained import text_files

_AT_ONCE = 128
_LONGEST = 256


@torch.no_grad()
def sentence_vectors(
    texts: Sequence[str], device: torch.device | str = "cpu"
) -> Float[np.ndarray, "texts dim"]:
    """The mean of the token states of every text, at length 1."""
    from tokenizers import Tokenizer

    tokeniser = Tokenizer.from_file(str(text_files("minilm") / "tokenizer.json"))
    tokeniser.enable_truncation(max_length=_LONGEST)
    tokeniser.enable_padding()
    network = AdaptedTransformer("minilm", 0).eval().to(device)
    order = np.argsort([len(text) for text in texts], kind="stable")  # little padding
    vectors = np.empty((len(texts), network.dim), np.float32)
    for start in range(0, len(order), _AT_ONCE):
        rows = order[start : start + _AT_ONCE]
        read = tokeniser.encode_batch([texts[row] for row in rows])
        ids = torch.tensor([one.ids for one in read], device=device)
        present = torch.tensor([one.attention_mask for one in read], device=device).bool()
        states = network(ids, present)
        means = (states * present[..., None]).sum(1) / present.sum(1, keepdim=True)
        vectors[rows] = torch.nn.functional.normalize(means, dim=-1).cpu().numpy()
    return vectors
