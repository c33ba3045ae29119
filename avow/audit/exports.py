"""What an audit found, for other tools: FiftyOne, and Hugging Face `datasets`.

fiftyone.jsonl   one line per pair: the keywords of `fiftyone.Sample`
pairs.parquet    one row per pair with its picture; `datasets.load_dataset("parquet", ...)`
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from avow.audit.judge import Finding
from avow.core.errors import BadData, MissingExtra
from avow.core.files import new_file, write_text

Export = Literal["fiftyone", "datasets"]
Files = Mapping[str, Path]
"""The photograph of each image."""


def write_exports(
    kinds: Sequence[Export], findings: Sequence[Finding], files: Files, folder: Path
) -> dict[Export, str]:
    """Write some formats into the folder of an audit; gives where each is."""
    if kinds and not files:
        raise BadData(
            "The dataset has features and no photographs, which FiftyOne and `datasets` show. "
            "Expected a list of photographs; leave --export out."
        )
    writers: dict[Export, Callable[[Sequence[Finding], Files, Path], Path]] = {
        "fiftyone": _fiftyone,
        "datasets": _datasets,
    }
    return {kind: str(writers[kind](findings, files, folder)) for kind in dict.fromkeys(kinds)}


def _row(finding: Finding) -> dict[str, Any]:
    """What both formats have of a pair, besides its picture."""
    return {
        "caption": finding.caption,
        "p_wrong": finding.probability,
        "in_sample": finding.in_sample,
        "similarity": finding.similarity,
        "better_caption": finding.better_caption,
        "better_image": finding.better_image,
        "why": finding.why,
        "image_id": finding.image,
        "split": finding.split,
        "pair": finding.pair,
    }


def _fiftyone(findings: Sequence[Finding], files: Files, folder: Path) -> Path:
    lines = []
    for finding in findings:
        # FiftyOne keeps an `id` and shows `tags` as filters
        row = {"filepath": str(files[finding.image].resolve()), "tags": [finding.split]}
        row |= {key: value for key, value in _row(finding).items() if key != "split"}
        lines.append(json.dumps(row, ensure_ascii=False))
    write_text(folder / "fiftyone.jsonl", "".join(f"{line}\n" for line in lines))
    return folder / "fiftyone.jsonl"


def _datasets(findings: Sequence[Finding], files: Files, folder: Path) -> Path:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtra("--export datasets", "pyarrow", "tables") from None
    rows = [_row(finding) for finding in findings]
    kinds = {
        "caption": "string",
        "p_wrong": "float64",
        "in_sample": "bool",
        "similarity": "float64",
        "better_caption": "string",
        "better_image": "string",
        "why": "string",
        "image_id": "string",
        "split": "string",
        "pair": "int64",
    }
    columns = {"image": pa.array(_pictures(findings, files), _picture_type(pa))}
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        columns[name] = pa.array(values, pa.type_for_alias(kind))
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    features |= {name: {"dtype": kind, "_type": "Value"} for name, kind in kinds.items()}
    # what `datasets` writes itself, and by which it knows that a column holds pictures
    about = json.dumps({"info": {"features": features}})
    table = pa.table(columns).replace_schema_metadata({"huggingface": about})
    with new_file(folder / "pairs.parquet") as fresh:
        parquet.write_table(table, fresh)
    return folder / "pairs.parquet"


def _picture_type(pa: Any) -> Any:
    return pa.struct({"bytes": pa.binary(), "path": pa.string()})


def _pictures(findings: Sequence[Finding], files: Files) -> list[dict[str, Any]]:
    """Where each picture lies; `datasets` opens it when it is looked at."""
    return [{"bytes": None, "path": str(files[one.image].resolve())} for one in findings]
