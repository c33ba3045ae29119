"""Tell a caption again from an image's regions, word by word: the other task of VSRN.

A GRU reads the regions; a second one writes the caption, looking back at the regions before
each word. How unlikely it finds the true caption is what training adds to the retrieval
loss, so that the regions keep what a sentence about them needs.

Paper: Venugopalan et al., "Sequence to Sequence - Video to Text", ICCV 2015, with attention,
as Li et al., "Visual Semantic Reasoning for Image-Text Matching", ICCV 2019, use it.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from avow.blocks.recurrent import closed_up, in_float32, last_state
from avow.core.contracts import Tokens


class Captioner(nn.Module):
    """The negative log-likelihood of a caption, given the regions of its image."""

    def __init__(
        self, inside: int, vocabulary: int, hidden: int, word_dim: int, dropout: float
    ):
        super().__init__()
        self.narrow = nn.Linear(inside, hidden)
        self.drop = nn.Dropout(dropout)
        self.read = nn.GRU(hidden, hidden, batch_first=True)
        self.lexicon = nn.Embedding(vocabulary, word_dim)
        self.glance = Glance(hidden)
        self.write = nn.GRUCell(word_dim + hidden, hidden)
        self.say = nn.Linear(hidden, vocabulary)

    def forward(
        self,
        regions: Float[Tensor, "items parts inside"],
        present: Bool[Tensor, "items parts"],
        text: Tokens,
    ) -> Float[Tensor, ""]:
        """Negative log-likelihood of every word after the first, summed, per caption."""
        regions, present = closed_up(regions, present)
        region_states, _ = in_float32(self.read, self.drop(self.narrow(regions)))
        state = last_state(region_states, present)
        memory = self.glance.prepare(region_states)
        words = self.lexicon(text.ids)
        states = []
        # each state decides where the next one looks, so steps cannot be taken at once
        for step in range(text.ids.shape[1] - 1):
            looked = self.glance(memory, region_states, present, state)
            heard = self.drop(torch.cat([words[:, step], looked], -1))
            state = in_float32(self.write, heard, state)
            states.append(state)
        if not states:
            return regions.new_zeros(())
        guesses = self.say(torch.stack(states, 1))
        surprise = cross_entropy(guesses.mT, text.ids[:, 1:], reduction="none")
        return (surprise * text.present[:, 1:]).sum() / len(text.ids)


class Glance(nn.Module):
    """Attention over the regions, given the state of the writing GRU."""

    def __init__(self, hidden: int):
        super().__init__()
        self.by_region = nn.Linear(hidden, hidden)
        self.by_state = nn.Linear(hidden, hidden, bias=False)
        self.weigh = nn.Linear(hidden, 1, bias=False)

    def prepare(
        self, region_states: Float[Tensor, "items parts hidden"]
    ) -> Float[Tensor, "items parts hidden"]:
        """The regions' term of the attention scores, which is the same for every word."""
        return self.by_region(region_states)

    def forward(
        self,
        memory: Float[Tensor, "items parts hidden"],
        region_states: Float[Tensor, "items parts hidden"],
        present: Bool[Tensor, "items parts"],
        state: Float[Tensor, "items hidden"],
    ) -> Float[Tensor, "items hidden"]:
        score = self.weigh((memory + self.by_state(state)[:, None]).tanh()).squeeze(-1)
        weight = score.masked_fill(~present, -torch.inf).softmax(-1)
        return torch.einsum("np,npd->nd", weight, region_states)
