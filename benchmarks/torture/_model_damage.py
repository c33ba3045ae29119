"""A small run with its model, bank, trust and features, and a digest of all its numbers."""

import hashlib
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from avow.assembly.features import Extraction, extract
from avow.assembly.integrity import verify
from avow.assembly.model import Model
from avow.assembly.recipe import Recipe
from avow.core import seals
from avow.core.contracts import Backbone, PairedDataset, Split
from avow.core.searching import Encoder
from avow.data.features import FeatureStore
from avow.data.vocabulary import Vocabulary
from avow.retrieval.encoders import bank
from avow.training.state import Progress, load_state, open_run, save_best, save_state
from avow.trust.fitting import fit_policy
from avow.trust.policy import Policy

CAPTIONS = ["a red dog runs"] * 4 + ["two cats sit on a mat"] * 4
TEXTS = ["a red dog", "two cats", "a mat"]
DIM = 6


def verify_all(run: Path) -> list[str]:
    return [*verify(run), *verify(run / "features")]


# --- a run with all that may lie beside it ---------------------------------------------------


class Colours(Backbone):
    """The mean colour of each of 4 x 4 cells, which needs no weights."""

    dim = 3

    def __init__(self) -> None:
        super().__init__()
        self.identity = {"backbone": "colours", "weights": "none", "size": 16}

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return np.array(photograph.convert("RGB").resize((16, 16)))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.float().unflatten(1, (4, -1)).unflatten(3, (4, -1)).mean((2, 4)) / 255


def toy_model(dim: int = DIM, seed: int = 0) -> Model:
    content = {
        "data": {"name": "none"},
        "method": {"name": "vse_infty", "dim": 8, "word_dim": 6},
        "loss": {"name": "tcl", "tau": 0.1},
    }
    recipe = Recipe.from_dict("toy", content)
    vocabulary = Vocabulary.from_captions(CAPTIONS)
    torch.manual_seed(seed)
    sizes = {"visual_dim": dim, "vocabulary": vocabulary.size}
    views = [recipe.build_method(**sizes).eval() for _ in range(2)]
    return Model(recipe, views, vocabulary, {"dim": dim, "parts": 5, "identity": None})


def write_run(run: Path) -> None:
    model = toy_model()
    open_run(run, model.recipe, resume=False)
    save_best(run, model, Progress(epoch=1))
    save_state(run, model.views, optimiser(model), Progress(epoch=1))
    home = run / "best-00001"
    seals.write_document(home / "bank.json", {"texts": CAPTIONS})
    bank.pack(encoder(home), home)
    scores, matches = similarities()
    fit_policy(scores, matches, sizes=(40,)).save(home / "trust-text.json")
    write_features(run / "features")


def write_features(out: Path) -> None:
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / f"{number:02d}.png" for number in range(7)]
        for file in files:
            Image.fromarray(draw.integers(0, 255, (20, 20, 3), np.uint8)).save(file)
        ids = tuple(file.name for file in files)
        split = Split(ids, ids, np.arange(7), files=tuple(files))
        dataset = PairedDataset("noise", {"train": split})
        how = Extraction(grid=2, shard=4, workers=1)
        extract(dataset, Colours(), out, how, progress=False)


class Numbers(Encoder):
    """Random vectors for the queries of a bank; all that a bank asks of an encoder."""

    fingerprint, dim = "toy", 4

    def __init__(self, texts: tuple[str, ...]):
        self.bank = texts

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.random.default_rng(1).normal(size=(len(texts), self.dim)).astype(np.float32)

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        raise NotImplementedError("there are no photographs in a bank")

    encode_prepared = prepare  # type: ignore[assignment]


def encoder(home: Path) -> Encoder:
    return Numbers(bank.texts(home))


def similarities() -> tuple[torch.Tensor, np.ndarray]:
    draw = np.random.default_rng(2)
    matches = draw.permutation(80)[:80]
    scores = draw.normal(0, 0.1, (80, 80))
    scores[np.arange(80), matches] += 0.4 * (draw.random(80) < 0.7)
    return torch.from_numpy(scores.clip(-1, 1)).float(), matches


def optimiser(model: Model) -> torch.optim.Optimizer:
    parameters = [one for view in model.views for one in view.parameters()]
    return torch.optim.AdamW(parameters, lr=0.001)


@cache
def _target() -> Model:
    return toy_model()


def _emptied() -> Model:
    """A model without a number of its own, to be filled: what is not read shows."""
    model = _target()
    with torch.no_grad():
        for view in model.views:
            for one in view.parameters():
                one.zero_()
    return model


def answers(run: Path) -> str:
    """A digest of every number that comes out of the run, of its trust and its features."""
    model = Model.from_pretrained(run)
    home = run / "best-00001"
    images = torch.linspace(-1, 1, 2 * 5 * DIM).reshape(2, 5, DIM)
    parts = [model.similarity(images, TEXTS).numpy()]
    parts += [np.array(model.fingerprint), np.array(str(model.evidence_settings))]
    texts = bank.texts(home)
    vectors = bank.packed(encoder(home), home)
    parts += [np.array(texts), np.array(0) if vectors is None else vectors]
    trust = Policy.load(home / "trust-text.json")
    judged = trust.judge(similarities()[0], strict=False)
    parts += [judged.probability, np.array(judged.verdicts), np.array(str(judged.doubts))]
    store = FeatureStore.open(run / "features")
    rows = store.split("train")
    parts += [rows.rows(np.arange(len(rows))), np.array(rows.ids), store.boxes]
    fresh = _emptied()
    reached, _ = load_state(run, fresh.views, optimiser(fresh))
    parts.append(np.array(str(reached)))
    parts += [one.detach().numpy() for view in fresh.views for one in view.parameters()]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
