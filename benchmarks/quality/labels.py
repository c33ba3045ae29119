"""Do labels read from captions say what people said?

    python -m benchmarks.quality.labels

The pairs of Flickr8k's expert file, own captions left out. Measures: the agreement of a caption
with the captions of a picture, by sentence vectors and by words that both have, beside the
similarity of the default model. Printed: AUROC and Kendall's tau-c of each with what the
experts said, and, for both kinds of labels, P stated beside the share that experts call
fitting, on the half of the judged images that the curve was not fitted on.
"""

import itertools
from typing import Any

import numpy as np

from avow.core.photographs import open_photograph
from avow.data.judgements import FILE, JudgedPairs, read_judgements
from avow.data.opening import dataset_file, open_dataset
from avow.metrics.agreement import auroc_interval, kendall_tau_c
from avow.retrieval.encoders.opening import open_encoder
from avow.study.human_agreement import STRICT
from avow.study.relevance_labels import (
    agreement,
    expert_curve,
    expert_half,
    sentence_vectors,
    word_overlap,
)
from benchmarks._report import keep

LENIENT = 3
BINS = (0, 0.1, 0.25, 0.5, 0.75, 1.01)


def main() -> None:
    split = open_dataset("flickr8k").splits["test"]
    images = len(split.image_ids)
    pairs = read_judgements(dataset_file("flickr8k", FILE)).within(
        split.image_ids, split.image_of
    )
    vectors = sentence_vectors(split.captions)
    encoder = open_encoder()
    photographs = (open_photograph(file) for file in split.files or ())
    pictures = np.concatenate([encoder.encode_images([one]) for one in photographs])
    measures = {
        "sentence vectors": agreement(vectors, vectors, split.image_of, images),
        "shared words": word_overlap(split.captions, split.captions, split.image_of, images),
        "similarity of the default model": encoder.encode_texts(split.captions) @ pictures.T,
    }
    rows = {name: ordered(pairs, measure) for name, measure in measures.items()}
    for name in ("sentence vectors", "shared words"):
        rows[name] |= stated(pairs, measures[name], images)
    for name, row in rows.items():
        print(f"{name:<32} {row}")
    best, plain = rows["sentence vectors"], rows["similarity of the default model"]
    print(f"tau-c, over the model's own: {best['tau_c'] / plain['tau_c']:.2f}")
    keep("labels", {"pairs": int((~pairs.own).sum()), "rows": rows})


def ordered(pairs: JudgedPairs, measure: np.ndarray) -> dict[str, Any]:
    """How well a measure orders the pairs as the experts do."""
    other = ~pairs.own
    value = measure[pairs.text, pairs.image][other]
    found: dict[str, Any] = {"tau_c": kendall_tau_c(value, pairs.scores[other])}
    for name, grade in (("strict", STRICT), ("lenient", LENIENT)):
        fits = pairs.called(grade)[other]
        found[name] = list(auroc_interval(value, fits, pairs.image[other]))
    return found


def stated(pairs: JudgedPairs, measure: np.ndarray, images: int) -> dict[str, Any]:
    """P by a curve of one half of the images, and what experts said of the other."""
    half = expert_half(images)
    curve = expert_curve(pairs, measure, half)
    kept = ~half[pairs.image] & ~pairs.own
    p = np.asarray(curve(measure[pairs.text, pairs.image]))[kept]
    fits = pairs.called(STRICT)[kept]
    bins = [
        [int(some.sum()), float(p[some].mean()), float(fits[some].mean())]
        for low, high in itertools.pairwise(BINS)
        for some in [(p >= low) & (p < high)]
        if some.any()
    ]
    fitted = {"slope": curve.slope, "offset": curve.offset}
    return {"stated": float(p.mean()), "judged": float(fits.mean()), "bins": bins, **fitted}


if __name__ == "__main__":
    main()
