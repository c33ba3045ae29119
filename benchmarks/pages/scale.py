"""The page of scale: compact vectors, shards, and engines beside each other."""

from typing import Any

from benchmarks.pages import figures
from benchmarks.pages.figures import fraction, number, percent
from benchmarks.speed.scale_engines import GRAPH, GRAPH_MEMORY, REACH

ENGINES = {
    "exact": "local, float32",
    "int8": "local, int8",
    "faiss": "faiss, flat",
    "postgres": "postgres, hnsw",
    "milvus": "milvus server, hnsw",
    "milvus-lite": "milvus lite, flat",
}
STORES = {
    "postgres": "PostgreSQL, every row compared",
    "postgres-hnsw": "PostgreSQL, through its graph",
    "milvus": "Milvus Lite",
    "milvus-server": "Milvus server",
}
KINDS = ("processor_", "", "median_")
SIZES = (10**5, 10**6, 10**7)
COMMAND = "python -m benchmarks.speed.scale --sizes {size} --engines {engine}"


def render() -> str:
    return figures.page(
        "Results: scale",
        "What compact vectors cost, how a gallery in shards is judged, and what engines need. "
        "On paper, up to a billion pictures: [scale](../explanation/scale.md).",
        *forms(),
        *passes(),
        *shards(),
        *stores(),
        *engines(),
    )


def forms() -> list[str]:
    if not figures.exists("compact_vectors"):
        return []
    about = figures.load("compact_vectors")
    rows = about["forms"]
    return [
        "## Compact vectors",
        f"The default model on Flickr8k test: {number(about['captions'])} captions ask "
        f"{number(about['photographs'])} photographs. R@1 as a search shows its hits. ECE is "
        "that of P of the first ten, held against whether they fit, which is what P states: by "
        "labels of relevance, each drawn with its probability. Beside it, the same where only "
        "the caption's own photograph counts; others fit too, so that it is larger. The "
        "directions of `int8x256` are fitted on the model's reference queries.",
        figures.table(
            [
                "--vectors",
                "bytes a picture",
                "R@1",
                "lost",
                "ECE",
                "moved by",
                "ECE, own photograph",
                "moved by",
                "same verdict",
            ],
            [
                [
                    f"`{name}`",
                    number(row["bytes"]),
                    number(row["r1"], 2),
                    number(row["r1_lost"], 2),
                    fraction(row["ece"], 4),
                    fraction(row["ece_moved"], 4),
                    fraction(row["ece_own"], 4),
                    fraction(row["ece_own_moved"], 4),
                    percent(row["same_verdict"], 1),
                ]
                for name, row in rows.items()
            ],
        ),
        figures.source("compact_vectors"),
    ]


def passes() -> list[str]:
    if not figures.exists("compact_vectors"):
        return []
    row = figures.load("compact_vectors")["speed"]
    ways = {
        "a plain pass, one thread": "pass_one_thread",
        "search, one thread": "search_one_thread",
        f"a plain pass, {row['threads']} threads": "pass",
        f"search, {row['threads']} threads": "search",
        f"search without numkong, {row['threads']} threads": "search_numpy",
    }
    return [
        "## Exact search over bytes",
        f"One query over {number(row['rows'])} rows of {row['width']} bytes, ways in turn. A "
        "plain pass takes the largest 64-bit word of the same memory. The machine was shared: "
        f"its load before was {row['load_before']} on {row['threads']} cores, so that the time "
        "of the processor counts and not that of the clock.",
        figures.table(
            ["what", "processor, ms", "clock: fastest, ms", "clock: median, ms"],
            [
                [what, *(number(row[f"{key}_{kind}ms"], 1) for kind in KINDS)]
                for what, key in ways.items()
            ],
        ),
        f"A search runs at {percent(row['of_a_pass'])} of the speed of a pass "
        f"({percent(row['of_a_pass_one_thread'])} with one thread): "
        f"{number(row['gigabytes_a_second_a_core'], 1)} GB a second and core. "
        f"{percent(figures.load('compact_vectors')['aim'])} was the aim. The processor "
        f"is {row['processor']}.",
        figures.command("python -m benchmarks.speed.compact_vectors"),
    ]


def shards() -> list[str]:
    if not figures.exists("shards"):
        return []
    found = figures.load("shards")
    return [
        "## Shards",
        f"{number(found['items'])} items, dealt to shards at random; {found['queries']} "
        "captions ask. Merged: every shard returns its best 32 and its smallest hashed ids, "
        "and one judgement follows. Alone: every shard judges by itself, and the surest answer "
        "counts; that was tried with a few of the captions only.",
        figures.table(
            [
                "shards",
                "largest difference of P, merged",
                "verdicts changed, merged",
                "difference of P, alone",
                "verdicts changed, alone",
            ],
            [
                [
                    number(row["shards"]),
                    fraction(row["largest_difference"], 4),
                    percent(row["verdicts_changed"]),
                    fraction(row["judged_alone_difference"], 3),
                    percent(row["judged_alone_verdicts_changed"]),
                ]
                for row in found["shards"]
            ],
        ),
        "How far P of the first hit moves from one sample to another, as a standard deviation: "
        "over all queries, and for the tenth of them that moves most. Where the sample is a "
        "small part of the gallery, as of 10⁹ items, its size no longer matters.",
        figures.table(
            ["sample", "deviation of P", "of 10⁹ items", "worst tenth", "verdicts that vary"],
            [
                [
                    number(row["sample"]),
                    fraction(row["deviation"], 4),
                    fraction(row["deviation_unbounded"], 4),
                    fraction(row["deviation_90"], 4),
                    percent(row["verdicts_that_vary"], 1),
                ]
                for row in found["samples"]
            ],
        ),
        enough(found),
        figures.command("python -m benchmarks.quality.shards"),
        figures.source("shards"),
    ]


def enough(found: dict[str, Any], most: float = 0.01) -> str:
    """Which sample a billion items need; the error falls with the root of the sample."""
    needed = [
        row["sample"] * (row["deviation_unbounded"] / most) ** 2 for row in found["samples"]
    ]
    return (
        f"By the root of the sample, a billion items need {number(round(min(needed), -2))} to "
        f"{number(round(max(needed), -2))} sampled items for a deviation of "
        f"{fraction(most, 2)}; a search samples {number(found['sample'])}."
    )


def stores() -> list[str]:
    if not figures.exists("stores"):
        return []
    about = figures.load("stores")
    changes, everywhere = about["changes"], about.get("server_restarted", False)
    restarted = dict.fromkeys(
        STORES[name].partition(",")[0]
        for name, row in about["stores"].items()
        if row.get("server_restarted", everywhere)
    )
    told = [
        f"{STORES[name]}: not run here ({row['not_run']})"
        for name, row in about["stores"].items()
        if "not_run" in row
    ]
    return [
        "## Stores beside a folder",
        f"{number(about['pictures'])} photographs of Flickr8k with the default model, in a "
        f"folder and in each store. {number(about['queries'])} captions and names of what is "
        "not there ask, once without and once with one of "
        f"{len(about['filters'])} filters. Changes: {changes['deleted']} pictures deleted, "
        f"{changes['replaced']} replaced, {changes['moved']} moved, then `avow index` "
        "once. Same hits: the first ten, in their order. P is computed from the "
        "vectors that a store gives back and from a sample that every store draws alike: what "
        "differs is how sums are rounded. Recall is that of the ten nearest, held against a "
        f"plain product. Restarted: {', '.join(restarted) or 'none'}; others were opened anew.",
        figures.table(
            [
                "store",
                "when",
                "filter",
                "same hits",
                "same verdict and words",
                "largest difference of P",
                "recall@10",
            ],
            [
                [STORES[name], stage, *_same(way, figured[way])]
                for name, row in about["stores"].items()
                for stage, figured in row.get("stages", {}).items()
                for way in ("plain", "filtered")
            ],
        ),
        *told,
        figures.command("python -m benchmarks.quality.stores"),
        figures.source("stores"),
    ]


def _same(way: str, row: dict[str, Any]) -> list[str]:
    asked = number(row["searches"])
    return [
        "with" if way == "filtered" else "without",
        f"{number(row['same_hits'])} of {asked}" + _but_for_ties(row.get("tied", 0)),
        f"{number(row['same_verdicts'])} of {asked}",
        f"{row['largest_p']:.0e}",
        fraction(row["recall"], 3),
    ]


def _but_for_ties(count: int) -> str:
    return f", {count} more but for the order of ties" if count else ""


def engines() -> list[str]:
    cells = figures.load("scale")["cells"] if figures.exists("scale") else {}
    about = figures.load("scale") if cells else {}
    rows = [_cell(size, name, cells) for size in SIZES for name in ENGINES]
    return [
        "## Engines beside each other",
        "Vectors of 512 numbers: those of photographs as far as there are, as the column says, "
        "and beyond them vectors drawn around theirs. Captions ask, one after the other and "
        "from 16 clients at once. The filter leaves one item in ten. Every cell is a process "
        "of its own; memory is its peak, pages of mapped files counted and that of a server "
        f"not. Graphs have {GRAPH['M']} links a vector, are made with "
        f"{GRAPH['efConstruction']} candidates and asked with {REACH}. "
        f"PostgreSQL may use {GRAPH_MEMORY} while it makes its graph. Bytes of a server are "
        "those on its disk; of the Milvus server with its log of what was written, and with "
        "parts that it merges while the cell is measured, whose graph it makes twice.",
        f"A cell may take {number(about['limit_s'])} s. The machine was shared, and the load "
        "before each cell stands beside it: compare cells of similar load. Asked: how many "
        "searches p50 and p99 are of; a slow engine is asked less often, "
        "and not by many clients."
        if about
        else "",
        figures.table(
            [
                "vectors",
                "engine",
                "of photographs",
                "build, s",
                "bytes each",
                "p50, ms",
                "p99, ms",
                "asked",
                "recall@10",
                "filtered",
                "a second, 1 client",
                "16 clients",
                "memory, MB",
                "load",
            ],
            rows,
        ),
        *([figures.source("scale")] if cells else []),
    ]


def _numbers(cell: dict[str, Any], **digits: int) -> list[str]:
    """Some numbers of a cell, each with so many digits behind the point."""
    return [number(cell[key], many) for key, many in digits.items()]


def _cell(size: int, name: str, cells: dict[str, Any]) -> list[str]:
    head, cell = [number(size), ENGINES[name]], cells.get(f"{size} {name}")
    if cell is None:
        run = COMMAND.format(size=size, engine=name)
        return [*head, f"not run here: `{run}`", *[""] * 11]
    if "not_run" in cell:
        return [*head, f"not run here: {cell['not_run']}", *[""] * 11]
    bytes_, many = cell["bytes_a_vector"], cell["a_second_16"]
    return [
        *head,
        number(cell["photographs"]),
        *_numbers(cell, build_s=1),
        "" if bytes_ is None else number(bytes_),
        *_numbers(cell, p50_ms=1, p99_ms=1, searches=0),
        *(fraction(cell[key], 3) for key in ("recall", "recall_filtered")),
        number(cell["a_second_1"], 1 if cell["a_second_1"] >= 1 else 2),
        "" if many is None else number(many, 1),
        *_numbers(cell, memory_mb=0, load_before=1),
    ]
