"""Evaluate an encoder on the photographs of a dataset, without stored features."""

import numpy as np

from avow.assembly.evaluate import Evaluation, evaluate
from avow.assembly.evaluate_runs import EvaluationPlan
from avow.assembly.photograph_vectors import photograph_vectors, photographs_of
from avow.assembly.scores import from_vectors
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.core.searching import Encoder
from avow.data.subsets import images_in


def judge_photographs(
    encoder: Encoder, dataset: PairedDataset, plan: EvaluationPlan
) -> Evaluation:
    """Recall of an encoder on a split; photographs that cannot be read are left out.

    Each view is ranked by itself, and all together.
    """
    split = photographs_of(dataset, plan.split)
    assert split is not None, "the split has photographs"
    vectors = photograph_vectors(encoder, split, None, plan.progress)
    seen = np.isfinite(vectors).all(1)
    readable = np.asarray(seen, bool)
    if plan.subset:
        chosen = images_in(plan.subset, split.captions, split.image_of)
        readable = readable & np.isin(np.arange(len(vectors)), chosen)
    if not readable.any():
        raise BadData(
            f"None of the {len(vectors)} photographs of split {plan.split!r} can be read. "
            "Expected image files; check the paths in the dataset."
        )
    captions = np.flatnonzero(readable[split.image_of])
    image_of = (np.cumsum(readable) - 1)[split.image_of[captions]]
    texts = encoder.encode_texts([split.captions[place] for place in captions])
    # each view's unit vector was divided by the root of their number
    left = np.split(np.sqrt(encoder.views) * vectors[readable], encoder.views, axis=1)
    right = np.split(
        np.sqrt(encoder.views) * np.asarray(texts, np.float32), encoder.views, axis=1
    )
    scores = [
        from_vectors(images.astype(np.float32), words.astype(np.float32), plan.blocks)
        for images, words in zip(left, right, strict=True)
    ]
    about = {
        "run": encoder.name,
        "dataset": dataset.name,
        "split": plan.split,
        "subset": plan.subset or None,
        "unreadable": len(vectors) - int(seen.sum()),
    }
    return evaluate(scores, image_of, fold=plan.fold, draws=plan.draws, about=about)
