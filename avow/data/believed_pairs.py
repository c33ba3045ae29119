"""What an audit found of every pair, read back: how far each is believed to be right.

An audit names its pairs by image and caption. They are looked up by those, so that
photographs without features, or another order of the list, do not matter.
"""

import json
from pathlib import Path

import numpy as np
from jaxtyping import Float

from avow.core import checksums
from avow.core.datasets import PairedDataset
from avow.core.errors import BadData
from avow.core.seals import Damaged, read_document

SUMMARY = "audit.json"
PAIRS = "pairs.jsonl"


def read_belief(folder: Path, dataset: PairedDataset) -> Float[np.ndarray, " captions"]:
    """The probability that each training pair is right; NaN where the audit has none."""
    try:
        about = read_document(folder / SUMMARY)
        wanted = about.get("checksums", {}).get(PAIRS)
        if wanted not in (None, checksums.of_file(folder / PAIRS)):
            raise Damaged(f"{PAIRS} is not as the audit wrote it")
        with (folder / PAIRS).open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        wrong = {(row["image"], row["caption"]): float(row["probability"]) for row in rows}
        audited, split = about["fingerprint"], about["split"]
    except Damaged as error:
        raise BadData(
            f"The audit {str(folder)!r} is damaged or was changed ({error}). Expected what "
            "`avow audit` wrote; run the same audit again, which keeps what it has judged."
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData(
            f"The audit {str(folder)!r} cannot be read ({error}). Expected a folder that "
            f"`avow audit` wrote, with {SUMMARY} and {PAIRS} in it."
        ) from error
    if (audited, split) != (dataset.fingerprint, "train"):
        raise BadData(
            f"The audit {str(folder)!r} judged the {split!r} pairs of "
            f"{about.get('dataset')!r} as they were then, and others are to be learnt from. "
            "Expected the same training pairs, with the same noise where there is any; audit "
            "them anew with --split train."
        )
    if not all(0 <= chance <= 1 for chance in wrong.values()):
        raise BadData(
            f"The audit {str(folder)!r} has a probability outside 0 to 1. Expected what "
            "`avow audit` wrote; audit the pairs anew."
        )
    chosen = dataset.splits["train"]
    names = np.asarray(chosen.image_ids, object)[chosen.image_of]
    wrong_probabilities = [
        wrong.get(pair, np.nan) for pair in zip(names, chosen.captions, strict=True)
    ]
    return 1 - np.array(wrong_probabilities)
