"""Training from photographs: every batch shows them changed, and always the same way."""

from functools import partial

import numpy as np
import torch

from avow.assembly.recipe import Training
from avow.core.contracts import Backbone
from avow.data.captions import TokenTable
from avow.data.vocabulary import Vocabulary
from avow.training.pixels import PixelBatches, Telling, changed, seen

TEXTS = ["a red square", "a blue square", "red", "something green here", "red"]


class MeanColour(Backbone):
    """Every cell is the mean colour of its part of the photograph."""

    dim = 3

    def __init__(self):
        super().__init__()
        self.identity = {"backbone": "mean colour"}

    def prepare(self, photograph):
        return np.asarray(photograph)

    def forward(self, pixels):
        planes = pixels.permute(0, 3, 1, 2).float() / 255
        return torch.nn.functional.avg_pool2d(planes, 4).permute(0, 2, 3, 1)


def batches(seed: int = 0) -> PixelBatches:
    vocabulary = Vocabulary.from_captions(TEXTS * 5)
    photographs = torch.zeros(4, 16, 16, 3, dtype=torch.uint8)
    photographs[0, ..., 0] = photographs[3, ..., 0] = 200
    photographs[1, ..., 2] = photographs[2, ..., 1] = 200
    telling = Telling(
        np.array([0, 1, 2, 3]), [np.array([0, 2]), np.array([1]), np.array([3]), np.array([4])]
    )
    train = Training(batch=4, seed=seed, words_changed=0.0, regions_changed=0.0)
    table = TokenTable.from_captions(vocabulary, TEXTS)
    same = np.array([0, 1, 2, 3, 2])
    look = partial(seen, MeanColour(), grid=4)
    return PixelBatches(photographs, telling, table, same, train, 2, look)


def test_a_batch_pairs_photographs_with_their_own_texts():
    batch = next(batches().epoch(0))
    colour = batch.visual.features.mean(1).argmax(1).tolist()
    told = [{0: 0, 2: 0, 4: 0, 1: 2, 3: 1}[row] for row in batch.lesson.pairs.tolist()]
    assert colour == told
    assert batch.visual.features.shape == (4, 16, 3)
    assert batch.lesson.match.diagonal().all()


def test_texts_that_say_the_same_match_each_others_photographs():
    drawn = [next(batches(seed).epoch(0)) for seed in range(8)]
    for batch in drawn:
        rows, match = batch.lesson.pairs.tolist(), batch.lesson.match
        both = 2 in rows and 4 in rows
        assert int(match.sum()) == (6 if both else 4)
    assert any(2 in batch.lesson.pairs.tolist() for batch in drawn)


def test_the_same_seed_gives_the_same_batches():
    one, other = (next(batches(3).epoch(2)) for _ in range(2))
    assert torch.equal(one.visual.features, other.visual.features)
    assert torch.equal(one.text.ids, other.text.ids)
    third = next(batches(4).epoch(2))
    assert not torch.equal(one.visual.features, third.visual.features)


def test_changes_crop_turn_and_colour():
    ramp = torch.arange(32, dtype=torch.uint8)[None, None, :, None].expand(64, 32, 32, 3) * 6
    out = changed(ramp.contiguous(), torch.Generator().manual_seed(0)).float()
    slope = out[:, :, -1].mean((1, 2)) - out[:, :, 0].mean((1, 2))
    assert (slope > 0).any() and (slope < 0).any()
    spread = out.mean(-1).amax((1, 2)) - out.mean(-1).amin((1, 2))
    assert spread.min() < 0.8 * spread.max()
    assert out.mean((1, 2, 3)).std() > 5
