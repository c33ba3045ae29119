"""What an audit leaves on disk, and what is read back: findings, decisions, cleaned pairs.

pairs.csv, pairs.jsonl   every pair, most suspect first
cleanlab.csv             the same in the columns of cleanlab, in the order of the split, with
                         the place of each pair before them, as photographs may be missing
decisions.csv            what a person ticked on the page
pairs.jsonl (cleaned)    the dataset without what was found wrong; readable as any other
"""

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from avow.audit.judge import KINDS, Audit, Finding, Judged
from avow.audit.pair_features import PairFeatures
from avow.core.datasets import PairedDataset, Split
from avow.core.errors import BadData, WrongTrust
from avow.core.files import new_file, new_folder, write_text
from avow.core.inputs import table_text
from avow.data.believed_pairs import PAIRS

Choice = Literal["right", "wrong", "move"]
COLUMNS = ("split", "pair", "image", "caption", "decision", "better_image")
LISTS = ("pairs.csv", PAIRS, "cleanlab.csv")
_LONGEST = 12  # digits of a place


def write_findings(audit: Audit, folder: Path, threshold: float) -> None:
    """The three lists; a pair is an issue from the probability `threshold` on."""
    rows = [finding.to_dict() for finding in audit.findings]
    names = [field.name for field in fields(Finding)]
    plain, full, columns = (folder / name for name in LISTS)
    write_text(plain, _csv(names, rows))
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    write_text(full, "".join(f"{line}\n" for line in lines))
    write_text(columns, _csv(*cleanlab_columns(audit, threshold)))


def cleanlab_columns(audit: Audit, threshold: float) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns of cleanlab's label issues: the image is the label of its caption."""
    rows = [
        {
            "pair": finding.pair,
            "is_label_issue": finding.probability >= threshold,
            "label_score": round(1 - finding.probability, 4),
            "given_label": finding.image,
            "predicted_label": finding.better_image or finding.image,
        }
        for finding in sorted(audit.findings, key=lambda finding: finding.pair)
    ]
    return ["pair", "is_label_issue", "label_score", "given_label", "predicted_label"], rows


def _csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


# --- to go on where an audit was stopped ------------------------------------------------


def save_judged(judged: Judged, path: Path, fingerprint: str) -> None:
    arrays: dict[str, Any] = {"captions": judged.captions, "fingerprint": fingerprint}
    for kind in KINDS:
        measures = getattr(judged, kind).measures
        arrays |= {f"{kind}/{name}": value for name, value in measures.items()}
    arrays["better_image"] = np.array(judged.better_image)
    arrays["better_caption"] = np.array(judged.better_caption)
    with new_file(path) as fresh, fresh.open("r+b") as stream:
        np.savez(stream, **arrays)


def load_judged(path: Path, fingerprint: str) -> Judged | None:
    """What was saved for the same model and pairs; None where it must be done again."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return _judged(arrays) if str(arrays["fingerprint"]) == fingerprint else None
    except Exception:  # damaged in some way, or made by somebody else: it can be made again
        return None


def _judged(arrays: Mapping[str, np.ndarray]) -> Judged:
    shapes = {arrays[name].shape for name in ("captions", "better_image", "better_caption")}
    if len(shapes) != 1:
        raise ValueError("its lists have different lengths")
    kinds = {
        kind: PairFeatures(
            {
                name.removeprefix(f"{kind}/"): value
                for name, value in arrays.items()
                if name.startswith(f"{kind}/")
            }
        )
        for kind in KINDS
    }
    return Judged(
        arrays["captions"],
        kinds["given"],
        kinds["alone"],
        kinds["together"],
        arrays["better_image"].tolist(),
        arrays["better_caption"].tolist(),
    )


# --- decisions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """What a person said of one pair."""

    split: str
    pair: int
    image: str
    caption: str
    choice: Choice
    better_image: str


def read_decisions(path: Path) -> list[Decision]:
    text = table_text(path, "decisions", "the file that the page of an audit saves")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    decisions: dict[tuple[str, int], Decision] = {}
    try:
        missing = set(COLUMNS) - set(reader.fieldnames or ())
        if missing:
            raise csv.Error(f"no column {sorted(missing)[0]!r}")
        for row in reader:
            one = _decision(row)
            if decisions.setdefault((one.split, one.pair), one) != one:
                raise csv.Error(f"two decisions about pair {one.pair} of split {one.split!r}")
    except csv.Error as error:
        raise BadData(
            f"Line {max(reader.reader.line_num, 1)} of {str(path)!r} is no decision ({error}). "
            f"Expected the columns {', '.join(COLUMNS)}, one line per pair, and a decision "
            f"out of {', '.join(get_args(Choice))}. Save it again from the page."
        ) from None
    return list(decisions.values())


def _decision(row: dict[str, Any]) -> Decision:
    if any(row.get(name) is None for name in COLUMNS):
        raise csv.Error("too few fields")
    if not row["pair"].isdecimal() or len(row["pair"]) > _LONGEST:
        raise csv.Error(f"pair {row['pair'][:40]!r}")
    if row["decision"] not in get_args(Choice):
        raise csv.Error(f"decision {row['decision'][:40]!r}")
    choice: Any = row["decision"]
    pair = int(row["pair"])
    return Decision(
        row["split"], pair, row["image"], row["caption"], choice, row["better_image"]
    )


def write_cleaned(
    dataset: PairedDataset, decisions: Sequence[Decision], out: Path
) -> dict[str, int]:
    """A new dataset without the pairs found wrong; the old one is only read.

    A pair to move stands beside its better image instead. Returns what was done how often.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadData(
            f"There is something in {str(out)!r} already. Expected a new folder for the "
            "cleaned dataset; choose another --out."
        )
    out = out.resolve()
    pending = {(one.split, one.pair): one for one in decisions}
    counts: Counter[str] = Counter()
    lines: list[dict[str, Any]] = []
    removed: list[dict[str, Any]] = []
    for name, split in dataset.splits.items():
        _check(dataset, name, split)
        photographs = _relative(split.files or (), out)
        for pair, caption in enumerate(split.captions):
            image = int(split.image_of[pair])
            decision = pending.pop((name, pair), None)
            row = {"image": photographs[image], "caption": caption, "split": name}
            if decision is not None:
                _check_same(decision, split.image_ids[image], caption)
                counts[decision.choice] += 1
                if decision.choice == "move":
                    row |= _moved(dataset, name, decision, out)
                if decision.choice == "wrong":
                    removed.append(row)
                    continue
            lines.append(row)
            counts["kept"] += decision is None
    if pending:
        one = next(iter(pending.values()))
        raise WrongTrust(
            f"There is no pair {one.pair} in split {one.split!r} of {dataset.name!r}. Expected "
            "decisions about this very dataset; name the one that was audited."
        )
    _mark_shared(lines)
    with new_folder(out) as home:
        for file, rows in (("pairs.jsonl", lines), ("removed.jsonl", removed)):
            text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
            write_text(home / file, text)
    return {"kept": 0, "right": 0, "wrong": 0, "move": 0, **counts}


def _check(dataset: PairedDataset, name: str, split: Split) -> None:
    if split.files is None:
        raise BadData(
            f"The split {name!r} of {dataset.name!r} has features and no photographs. Expected "
            "photographs, which a list of pairs can name; leave the wrong pairs out yourself."
        )


def _check_same(decision: Decision, image: str, caption: str) -> None:
    # a page shows every end of a line as the same one
    if (decision.image, _lines(decision.caption)) != (image, _lines(caption)):
        raise WrongTrust(
            f"Pair {decision.pair} of split {decision.split!r} is {image!r} with {caption!r}, "
            f"and the decision is about {decision.image!r} with {decision.caption!r}. Expected "
            "decisions about this very dataset; name the one that was audited."
        )


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _moved(dataset: PairedDataset, own: str, decision: Decision, out: Path) -> dict[str, str]:
    """The better image and its split: the pair's own one before all others."""
    for name in dict.fromkeys((own, *dataset.splits)):
        split = dataset.splits[name]
        if decision.better_image in split.image_ids:
            place = split.image_ids.index(decision.better_image)
            _check(dataset, name, split)
            return {
                "image": _relative((split.files or ())[place : place + 1], out)[0],
                "split": name,
            }
    raise BadData(
        f"Pair {decision.pair} is to move to {decision.better_image!r}, which is no image of "
        f"{dataset.name!r}. Expected one of its images; mend the decision."
    )


def _relative(files: Sequence[Path], out: Path) -> list[str]:
    """The way from `out` to each photograph, which a symlink on it would lead astray.

    Only folders are resolved: photographs that link to the same file stay apart.
    """
    folders = {file.parent for file in files}
    ways = {folder: Path(os.path.relpath(folder.resolve(), out)) for folder in folders}
    return [(ways[file.parent] / file.name).as_posix() for file in files]


def _mark_shared(rows: Sequence[dict[str, Any]]) -> None:
    """Say of an image in several splits that it is meant to be; it would be refused."""
    splits: dict[str, set[str]] = {}
    for row in rows:
        splits.setdefault(row["image"], set()).add(row["split"])
    for row in rows:
        if len(splits[row["image"]]) > 1:
            row["shared"] = True
