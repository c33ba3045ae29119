"""How much a bank of unlabelled training queries adds to the ranking itself.

    python -m benchmarks.quality.rerank NAME RUN RUN RUN --features DIR --scored DIR

Ranks the test split plainly and by relative evidence, the strength chosen on dev, for runs
that are seeds of one recipe. Scores are kept in --scored and shared with `trust.py`. Prints
both rows and the ratio of their rSum.
"""

import statistics
from pathlib import Path
from typing import Any

from avow.metrics.recall import summarise
from avow.study.rerank import QUERIES, choose_strength, rerank
from benchmarks._report import keep
from benchmarks._runs import scored_parser
from benchmarks.quality.trust import load, place, score_run

PLAIN = {"image": 0.0, "text": 0.0}


def main() -> None:
    chosen = scored_parser(__doc__).parse_args()
    chosen.scored.mkdir(parents=True, exist_ok=True)
    found = []
    for run in chosen.runs:
        score_run(run, chosen.features, chosen.scored)
        found.append(judge(run, chosen.scored))
    path = keep(
        f"rerank_{chosen.name}", {"runs": [run.name for run in chosen.runs], "found": found}
    )
    for way in ("plain", "relative"):
        print(f"{way:<9} {row_of([one[way] for one in found])}")
    plain, relative = (
        statistics.mean(one[way]["rsum"] for one in found) for way in ("plain", "relative")
    )
    print(f"{len(found)} runs, rSum x{relative / plain:.3f} -> {path}")


def judge(run: Path, where: Path) -> dict[str, Any]:
    before, after = (load(place(where, run, split)) for split in ("dev", "test"))
    strength = {query: choose_strength(before[query]) for query in QUERIES}
    return {
        "strength": strength,
        "plain": summarise(rerank(after, PLAIN)).to_dict(),  # type: ignore[arg-type]
        "relative": summarise(rerank(after, strength)).to_dict(),
    }


def row_of(rows: list[dict[str, Any]]) -> str:
    cells = []
    for side in ("image_to_text", "text_to_image"):
        for cut in ("r1", "r5", "r10"):
            cells.append(_mean([row[side][cut] for row in rows]))
    return "  ".join([*cells, "rSum " + _mean([row["rsum"] for row in rows])])


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
