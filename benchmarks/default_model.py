"""Recall of the model that ships with Avow, as it is and as its search orders hits.

    python benchmarks/default_model.py VECTORS      as `scripts/default_model vectors` wrote

Flickr8k test and COCO test (whole and in folds of 1,000 photographs). A search shows hits
in the order of their probability, which takes the bank of reference queries into account;
`shown` is that order among the 32 best by similarity, for texts that ask for photographs.
Prints recalls, and the ratio of R@1 as shown to R@1 by similarity.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _report import keep
from safetensors.torch import load_file
from tqdm import trange

from avow.assembly.evaluate import encode_captions, evaluate
from avow.core.background import Background
from avow.core.contracts import QueryBatch
from avow.data.captions import TokenTable
from avow.data.opening import open_dataset
from avow.retrieval.encoders.run import ModelEncoder, packaged_folder
from avow.trust.policy import Policy
from avow.trust.top_k import summarise

AT_ONCE = 500
CUTS = (1, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", type=Path)
    chosen = parser.parse_args()
    encoder = ModelEncoder.open(packaged_folder(), "default")
    policy = Policy.load(packaged_folder() / "trust-text.json")
    images = {name: one.float() for name, one in load_file(chosen.vectors).items()}
    ids = json.loads(chosen.vectors.with_suffix(".json").read_text())
    bank = texts_of(encoder, encoder.bank)
    rows: dict[str, Any] = {}
    for name in ("flickr8k", "coco"):
        rows[name] = judge(encoder, policy, name, images[f"{name} test"], ids, bank)
        for label, row in rows[name].items():
            print(f"{name:<9} {label:<10} {json.dumps(row)}")
        ratio = (
            rows[name]["shown"]["text_to_image"][0] / rows[name]["plain"]["text_to_image"][0]
        )
        print(f"{name:<9} R@1 as shown / by similarity: x{ratio:.2f}")
    path = keep("default_model", {"model": encoder.fingerprint, "rows": rows})
    print(f"-> {path}")


def judge(
    encoder: ModelEncoder,
    policy: Policy,
    name: str,
    images: torch.Tensor,
    ids: dict[str, list[str]],
    bank: torch.Tensor,
) -> dict[str, Any]:
    split = open_dataset(name).splits["test"]
    place = {image: row for row, image in enumerate(ids[f"{name} test"])}
    image_of = np.array([place[split.image_ids[image]] for image in split.image_of])
    texts = texts_of(encoder, split.captions)
    scores = [(one @ other.T).numpy() for one, other in zip(images, texts, strict=True)]
    found = {"plain": as_row(scores, image_of)}
    if len(images[0]) > 2000:
        found["1K folds"] = as_row(scores, image_of, fold=1000)
    words = np.array([len(text.split()) for text in split.captions])
    usual = Background.from_scores([(bank @ images.transpose(1, 2)).numpy()], encoder.tau)
    ranks = shown(encoder, policy, images, texts, image_of, words, usual)
    recalls = [round(100 * float((ranks < cut).mean()), 2) for cut in CUTS]
    return {**found, "shown": {"text_to_image": recalls}}


def as_row(scores: list[np.ndarray], image_of: np.ndarray, fold: int = 0) -> dict[str, Any]:
    recall = evaluate(scores, image_of, fold=fold, draws=0).rows[-1].recall
    return {
        "image_to_text": [round(one, 2) for one in recall.image_to_text.recalls],
        "text_to_image": [round(one, 2) for one in recall.text_to_image.recalls],
        "rsum": round(recall.rsum, 2),
    }


def shown(
    encoder: ModelEncoder,
    policy: Policy,
    images: torch.Tensor,
    texts: torch.Tensor,
    image_of: np.ndarray,
    words: np.ndarray,
    usual: Background,
) -> np.ndarray:
    """Where the right photograph stands as a search shows it; 999 beyond the 32 best."""
    found = []
    for start in trange(0, len(image_of), AT_ONCE, desc="shown", leave=False):
        part = slice(start, start + AT_ONCE)
        similarity = (texts[:, part] @ images.transpose(1, 2)).numpy()
        summary, order = summarise(QueryBatch(similarity, 1, encoder.tau, "exp", usual))
        ruling = policy.judge(summary, words[part], shown=order.shape[1])
        places = np.take_along_axis(order, ruling.order, 1)
        right = places == image_of[part][:, None]
        found.append(np.where(right.any(1), right.argmax(1), 999))
    return np.concatenate(found)


def texts_of(encoder: ModelEncoder, texts: tuple[str, ...] | list[str]) -> torch.Tensor:
    table = TokenTable.from_captions(encoder.model.tokeniser, texts)
    views = [
        encode_captions(view, table, encoder.model.device, 256) for view in encoder.networks
    ]
    return torch.stack([one.parts[:, 0] for one in views])


if __name__ == "__main__":
    main()
