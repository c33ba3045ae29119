"""What a study of a run is to cover, and the run with everything that is read for it."""

from dataclasses import dataclass
from pathlib import Path

from avow.assembly.evaluate_runs import open_splits
from avow.assembly.model import Model
from avow.assembly.pairs import FeaturedSplit
from avow.assembly.scored_split import Corpus, encode_split, score
from avow.assembly.scores import Blocks
from avow.core.contracts import PairedDataset
from avow.data.corruption import USUAL
from avow.trust.gallery_sampling import Query, ScoredQueries


@dataclass(frozen=True)
class Plan:
    """What to study, and how thoroughly."""

    split: str = "test"
    fitted_on: str = "dev"
    bank: str = "train"
    data: str = ""
    """Another dataset than the run's own to judge: a shift of domain."""
    features: Path | None = None
    data_features: Path | None = None
    passes: int = 0
    """Stochastic passes for MC-dropout and drawn batch statistics; 0 for none."""
    pixels: bool = False
    """Also draw the statistics of the backbone, with photographs passing it."""
    pixels_most: int = 0
    """Of so many photographs of the split, drawn at random; 0 for all."""
    relevant: str = ""
    """Dataset whose photographs and queries P(relevant) is fitted on; none where empty."""
    relevant_features: Path | None = None
    relevant_split: str = "dev"
    objects: Path | None = None
    """What its photographs hold; that of COCO's dev split where none is given."""
    corruption: bool = True
    word_changes: tuple[str, ...] = USUAL
    """What corruption does to words: mask, replace, delete, swap."""
    judgements: Path | None = None
    splits: int = 200
    draws: int = 500
    seed: int = 0
    allow_code: bool = False
    """Whether the runs may name modules outside Avow, which are imported."""


@dataclass(frozen=True)
class Material:
    """A run with everything its study reads, each encoded and scored once."""

    model: Model
    dataset: PairedDataset
    split: FeaturedSplit
    home: PairedDataset
    """The run's own dataset, where `dataset` may be another."""
    held: FeaturedSplit
    """The split the probabilities are fitted on."""
    training: FeaturedSplit
    """The split the bank is made of."""
    bank: Corpus
    fitted: dict[Query, ScoredQueries]
    judged: dict[Query, ScoredQueries]


def prepare(
    run: Path, plan: Plan, device: str, blocks: Blocks, progress: bool = True
) -> Material:
    """Encode and score what the study of a run needs."""
    model = Model.from_pretrained(run, device, allow_code=plan.allow_code)
    names = list(dict.fromkeys([plan.fitted_on, plan.bank]))
    home, own_splits = open_splits(model, "", plan.features, names)
    place = plan.data_features if plan.data else plan.features
    dataset, chosen = open_splits(model, plan.data, place, [plan.split])
    split = chosen[plan.split]
    if plan.relevant:  # a name that is none is told before the long part
        open_relevant(model, home, plan)
    bank = encode_split(model, own_splits[plan.bank], blocks, progress)
    held = encode_split(model, own_splits[plan.fitted_on], blocks, progress)
    corpus = encode_split(model, split, blocks, progress)
    return Material(
        model,
        dataset,
        split,
        home,
        own_splits[plan.fitted_on],
        own_splits[plan.bank],
        bank,
        score(model, held, bank, blocks, progress),
        score(model, corpus, bank, blocks, progress),
    )


def open_relevant(
    model: Model, home: PairedDataset, plan: Plan
) -> tuple[PairedDataset, FeaturedSplit]:
    """The dataset that P(relevant) is fitted on, and its split; the run's own may be named."""
    data = "" if plan.relevant == home.name else plan.relevant
    where, name = plan.relevant_features, plan.relevant_split
    dataset, splits = open_splits(model, data, where, [name])
    return dataset, splits[name]
