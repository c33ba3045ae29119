"""Trust transferred to models without labels, where the truth is known.

    avow features flickr8k --grid 1
    python -m benchmarks.quality.transfer [--cache DIR] [--features DIR]

Strangers: small heads trained here on Flickr8k train (a linear image head over stored
features, mean word vectors; three seeds), the default model damaged in two ways (one of its
views; 64 random directions), and random vectors, which have no skill at all. For each of them
four ways to state P that a hit fits, over Flickr8k test photographs:

    transferred   from the default model's probabilities on its reference queries, and on
                  names of what these speak of
    labelled      a policy fitted with the labels of Flickr8k dev
    shipped       the default model's policy, applied to the stranger's scores as it is, with
                  the levels that the default model gives names
    softmax       of the scores of the gallery, as they come

What fits is told by `avow.study.relevance_labels` for captions and by captions for nouns.
Printed: ECE, mean stated and true of the ten hits shown, AUROC of the first one, and how many
queries of each kind are refused (of those with a fitting hit) and answered. The damping of a
transfer was chosen on dev photographs.
"""

import argparse
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from avow.assembly.features import default_folder
from avow.blocks.imagenet_names import imagenet_names
from avow.core.background import Background
from avow.core.contracts import Split
from avow.core.places import avow_home
from avow.data.features import FeatureStore
from avow.data.judgements import FILE, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.data.words import word_tokenize
from avow.metrics.calibration import expected_calibration_error
from avow.retrieval.commonness import commonness
from avow.retrieval.forms import count_words
from avow.retrieval.transfer import asked_texts
from avow.study import relevance_labels as fitting
from avow.study.short_queries import absent_names, noun_names, with_article
from avow.trust.fitting import CalibrationQueries, fit_search_policy
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.top_k import summarise
from avow.trust.transfer import DAMPING, transferred, whole_probabilities
from benchmarks._lab import Lab
from benchmarks._report import keep

CAPTIONS, NOUNS, SHOWN, BINS = 1000, 200, 10, 10
SEEDS = (0, 1, 2)
DIM, EPOCHS, BATCH = 256, 6, 256


@dataclass(frozen=True)
class Stranger:
    """A model of one view: unit vectors of texts, and of the photographs of a split."""

    texts: Callable[[Sequence[str]], np.ndarray]
    images: Callable[[str], np.ndarray]
    tau: float = 0.05

    def queries(self, texts: list[str], part: str, match: np.ndarray, bank: list[str] | None):
        """bank: reference queries, where the policy reads what is usual for a photograph."""
        items = self.images(part).T
        similarity = (self.texts(texts) @ items).astype(np.float32)[None]
        usual = None
        if bank is not None:
            scores = (self.texts(bank) @ items).astype(np.float32)[None]
            usual = Background.from_scores([scores], self.tau)
        scored = ScoredQueries(similarity, match, 0, self.tau, "exp", usual)
        words = count_words(texts)
        return CalibrationQueries("text", scored, words, commonness(texts))


class Gallery:
    """A split of Flickr8k with captions, nouns and absent names, and what fits them."""

    def __init__(self, lab: Lab, part: str, curve: fitting.FitCurve | None = None):
        self.split, self.part = open_dataset("flickr8k").splits[part], part
        count = len(self.split.image_ids)
        said = sentences(lab, self.split.captions)
        self.curve = curve or expert_curve(self.split, said)
        rows = np.random.default_rng(0).permutation(len(self.split.captions))[:CAPTIONS]
        agreed = fitting.agreement(said[rows], said, self.split.image_of, count)
        fits = fitting.labels(agreed, self.curve, self.split.image_of[rows])
        named = noun_names(self.split, at_least=5, most=NOUNS)
        away = absent_names(imagenet_names(), self.split.captions)
        self.kinds: dict[str, tuple[list[str], np.ndarray]] = {
            "captions": ([self.split.captions[row] for row in rows], fitting.drawn(fits, 0)),
            "nouns": (list(named.queries), named.match),
            "absent": ([with_article(one) for one in away], np.zeros((len(away), count), bool)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=avow_home() / "benchmarks" / "people")
    parser.add_argument("--features", type=Path)
    chosen = parser.parse_args()
    lab = Lab(chosen.cache)
    test = Gallery(lab, "test")
    dev = Gallery(lab, "dev", test.curve)
    shipped = Policy.load(lab.encoder.home / "trust-text.json")
    bank = list(lab.encoder.bank)
    texts = asked_texts(bank)
    fits, rho = whole_probabilities(shipped, default_queries(lab, texts, "test"))
    folder = chosen.features or default_folder("flickr8k", "efficientnet_lite2", 256, 1)
    rows: dict[str, Any] = {}
    for name, stranger in strangers(lab, FeatureStore.open(folder)).items():
        nothing = np.zeros(fits.shape, bool)
        asked = stranger.queries(texts, "test", nothing, None)
        policies = {
            "transferred": (transferred(asked, fits, rho, source="default"), None),
            "labelled": (labelled(stranger, dev), None),
            "shipped": (shipped, bank),
        }
        rows[name] = {
            how: measured(lab, stranger, test, policy, usual)
            for how, (policy, usual) in policies.items()
        } | {"softmax": measured(lab, stranger, test, None, None)}
        for how, row in rows[name].items():
            print(f"{name}, {how}: {row}", flush=True)
    photographs = len(test.split.image_ids)
    counts = {kind: len(texts) for kind, (texts, _) in test.kinds.items()}
    figures = {"strangers": rows, "photographs": photographs, "queries": counts}
    print(f"-> {keep('transfer', {**figures, 'damping': DAMPING, 'seeds': list(SEEDS)})}")


def expert_curve(split: Split, said: np.ndarray) -> fitting.FitCurve:
    images = len(split.image_ids)
    pairs = read_judgements(dataset_file("flickr8k", FILE))
    judged = pairs.within(split.image_ids, split.image_of)
    agreed = fitting.agreement(said, said, split.image_of, images)
    return fitting.expert_curve(judged, agreed, fitting.expert_half(images))


def sentences(lab: Lab, texts: Sequence[str]) -> np.ndarray:
    key = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return lab.kept(f"texts-sentences-{key}", lambda: fitting.sentence_vectors(texts))


def photographs(lab: Lab, part: str) -> np.ndarray:
    files = list(open_dataset("flickr8k").splits[part].files or ())
    return lab.photographs("flickr8k" if part == "test" else f"flickr8k-{part}", files)


def default_queries(lab: Lab, texts: list[str], part: str) -> CalibrationQueries:
    items, vectors = photographs(lab, part), lab.texts(texts)
    similarity = lab.similarity(vectors, items)
    nothing = np.zeros(similarity.shape[1:], bool)
    scored = ScoredQueries(similarity, nothing, 1, lab.encoder.tau, "exp", lab.usual(items))
    about = count_words(texts), commonness(texts)
    return CalibrationQueries("text", scored, *about, texts=texts, vectors=vectors)


def strangers(lab: Lab, store: FeatureStore) -> dict[str, Stranger]:
    half = lab.encoder.dim // 2
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((lab.encoder.dim, 64)).astype(np.float32)

    def altered(change: Callable[[np.ndarray], np.ndarray]) -> Stranger:
        return Stranger(
            lambda texts: unit(change(lab.texts(texts))),
            lambda part: unit(change(photographs(lab, part))),
        )

    return {
        **{f"head, seed {seed}": head(store, seed) for seed in SEEDS},
        "one view": altered(lambda vectors: vectors[:, :half]),
        "64 directions": altered(lambda vectors: vectors @ directions),
        "random": Stranger(random_texts, random_images),
    }


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def random_texts(texts: Sequence[str]) -> np.ndarray:
    seeds = [int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) for text in texts]
    drawn = [np.random.default_rng(seed).standard_normal(64) for seed in seeds]
    return unit(np.stack(drawn).astype(np.float32))


def random_images(part: str) -> np.ndarray:
    count = len(open_dataset("flickr8k").splits[part].image_ids)
    return unit(np.random.default_rng(7).standard_normal((count, 64)).astype(np.float32))


def head(store: FeatureStore, seed: int) -> Stranger:
    """A linear head over stored features and mean word vectors, trained on Flickr8k train."""
    torch.manual_seed(seed)
    split = open_dataset("flickr8k").splits["train"]
    counted = Counter(word for text in split.captions for word in word_tokenize(text.lower()))
    known = {word: place for place, word in enumerate(w for w, n in counted.items() if n > 2)}

    def bags(texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [[known.get(w, len(known)) for w in word_tokenize(t.lower())] for t in texts]
        starts = np.cumsum([0, *map(len, rows)])[:-1]
        return torch.tensor([place for row in rows for place in row]), torch.tensor(starts)

    def features(part: str) -> torch.Tensor:
        ids = open_dataset("flickr8k").splits[part].image_ids
        stored = store.split(part)
        return torch.from_numpy(stored.rows(stored.rows_of(ids)).astype(np.float32).mean(1))

    seen = features("train")
    middle, scale = seen.mean(0), seen.std(0) + 1e-3
    words = torch.nn.EmbeddingBag(len(known) + 1, DIM, mode="mean")
    look = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(seen.shape[1], DIM))
    learning = torch.optim.AdamW([*words.parameters(), *look.parameters()], lr=3e-3)
    normal, rng = torch.nn.functional.normalize, np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for rows in np.array_split(rng.permutation(len(split.captions)), 117):
            owner = torch.as_tensor(split.image_of[rows])
            one = normal(look((seen[owner] - middle) / scale), dim=1)
            other = normal(words(*bags([split.captions[row] for row in rows])), dim=1)
            scores = one @ other.T / 0.07
            same = (owner[:, None] == owner[None]) & ~torch.eye(len(rows), dtype=torch.bool)
            scores, truth = scores.masked_fill(same, -1e4), torch.arange(len(rows))
            loss = torch.nn.functional.cross_entropy
            learning.zero_grad()
            (loss(scores, truth) + loss(scores.T, truth)).backward()
            learning.step()
    look.eval()

    @torch.no_grad()
    def texts(given: Sequence[str]) -> np.ndarray:
        return normal(words(*bags(given)), dim=1).numpy()

    @torch.no_grad()
    def images(part: str) -> np.ndarray:
        return normal(look((features(part) - middle) / scale), dim=1).numpy()

    return Stranger(texts, images)


def labelled(stranger: Stranger, dev: Gallery) -> Policy:
    kinds = [stranger.queries(texts, "dev", match, None) for texts, match in dev.kinds.values()]
    return fit_search_policy(kinds)


def measured(
    lab: Lab, stranger: Stranger, test: Gallery, policy: Policy | None, bank: list[str] | None
) -> dict[str, Any]:
    """ECE and the rest of one way to state P; no policy: softmax."""
    stated, true, refused, answered = {}, {}, {}, {}
    for kind, (texts, match) in test.kinds.items():
        asked = stranger.queries(texts, test.part, match, bank)
        summary, order = summarise(asked.scored.asked())
        if policy is None:
            scores = summary.scores.mean(0)[:, :SHOWN] / stranger.tau
            stated[kind], shown = np.exp(scores - summary.log_sum[:, None]), order[:, :SHOWN]
            refused[kind] = answered[kind] = None
        else:
            judged = policy.judge(
                summary,
                asked.words,
                common=asked.common,
                vectors=lab.texts(texts),
                strict=False,
            )
            stated[kind] = judged.probability
            shown = np.take_along_axis(order, judged.order, 1)
            found = np.take_along_axis(match, shown, 1).any(1) | (kind == "absent")
            empty = np.array([verdict == "nothing found" for verdict in judged.verdicts])
            refused[kind] = float(empty[found].mean()) if found.any() else None
            answered[kind] = float(np.mean([said == "answer" for said in judged.verdicts]))
        true[kind] = np.take_along_axis(match, shown, 1)
    there = ("captions", "nouns")
    first = np.concatenate([stated[kind][:, 0] for kind in there])
    right = np.concatenate([true[kind][:, 0] for kind in there])
    row: dict[str, Any] = {
        "auroc": float(roc_auc_score(right, first)),
        "refused": refused,
        "answered": answered,
    }
    for kind in there:
        ece = expected_calibration_error(stated[kind].ravel(), true[kind].ravel(), BINS)
        row[kind] = {
            "ece": float(ece),
            "stated": float(stated[kind].mean()),
            "true": float(true[kind].mean()),
        }
    row["absent stated"] = float(stated["absent"].mean())
    return row


if __name__ == "__main__":
    main()
