"""The page "on paper to a billion": its figures follow from measured unit costs and prices."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from avow.core.places import packaged_folder
from benchmarks.pages import figures
from benchmarks.pages.figures import number

SIZES = (10**7, 10**8, 10**9)
POWERS = {10**7: "10⁷", 10**8: "10⁸", 10**9: "10⁹"}
GPU_HOUR, CORE_HOUR, GIGABYTE_MONTH, MEMORY_MONTH = 4.0, 0.04, 0.08, 3.0
"""Assumed prices in US dollars: an H200, a core, a gigabyte of SSD and one of memory."""
DECODING_CORES = 16
CORES = 64
MACHINE_GB = 256
"""Of one machine that holds vectors: its cores and its memory."""
SERVERS, GRAPH_OF = {"postgres": "PostgreSQL", "milvus": "Milvus"}, 10**6
"""Engines with a graph, and of how many vectors it was measured."""
MEASURED = 512
"""Numbers of each of these vectors."""
CATALOGUE_BYTES = 700
"""Assumed for one item in a catalogue: path, sizes, checksums and their indexes."""


@dataclass(frozen=True)
class Units:
    """What one picture, or one query, was measured to cost."""

    decoded: float
    """Pictures a second that 16 cores decode for one GPU."""
    encoded: float
    """Pictures a second of the network alone on one GPU."""
    float_bytes: int
    bytes: int
    vector: int
    """Bytes of these that a search compares."""
    scanned: float
    """Bytes a second that one core compares in an exact search."""
    question: float
    """Seconds to encode a query."""
    trust: float
    graphs: dict[str, dict[str, float]]
    """By engine: the cell of a million vectors in a graph of a server."""

    @classmethod
    def measured(cls) -> "Units":
        features, search = figures.load("features"), figures.load("search_speed")
        compact = figures.load("compact_vectors")
        forms, cells = compact["forms"], figures.load("scale")["cells"]
        servers = {name: cells.get(f"{GRAPH_OF} {key}", {}) for key, name in SERVERS.items()}
        return cls(
            features["per_second"],
            features["network_per_second"],
            forms["float32"]["bytes"],
            forms["int8x256"]["bytes"],
            forms["int8x256"]["vector_bytes"],
            1e9 * compact["speed"]["gigabytes_a_second_a_core"],
            search["encode"]["p50_ms"] / 1000,
            search["trust"]["p50_ms"] / 1000,
            {name: cell for name, cell in servers.items() if "build_s" in cell},
        )


def render() -> str:
    units = Units.measured()
    return figures.page(
        "On paper to a billion pictures",
        "What an index of 10⁷, 10⁸ and 10⁹ pictures needs, worked out from unit costs that "
        "were measured on one machine each. Nobody has run the larger sizes; prices are "
        "assumptions. Measured sizes: [results](../results/scale.md).",
        "## Unit costs",
        unit_costs(units),
        figures.source("features", "search_speed", "compact_vectors", "scale"),
        "## Bytes, machines, hours and money",
        sizes(units),
        f"Indexing is decoding: the network alone is {number(units.encoded / units.decoded)} "
        f"times as fast as {DECODING_CORES} cores feed it, so more cores beside the GPU are "
        "worth more than more GPUs. Exact search reads every vector once; its latency falls in "
        "proportion to the machines that share them, and its price does not.",
        "## What breaks first",
        figures.table(["pictures", "what breaks first", "what to do"], breaks(units)),
        "## Commands",
        *commands(),
    )


def unit_costs(units: Units) -> str:
    rows = [
        [
            "decode and encode a picture",
            f"{number(units.decoded)} a second on one H200 with {DECODING_CORES} cores",
        ],
        ["the network alone", f"{number(units.encoded)} a second on one H200"],
        [
            "a picture in the index",
            f"{number(units.bytes)} bytes with `int8x256`, "
            f"{number(units.float_bytes)} with `float32`",
        ],
        [
            "exact search",
            f"{number(units.scanned / 1e9, 1)} GB a second and core",
        ],
        *(
            [
                f"a vector of 512 numbers in a graph of {name}",
                f"{number(GRAPH_OF / cell['build_s'])} a second on 2 cores, "
                f"{number(cell['bytes_a_vector'])} bytes",
            ]
            for name, cell in units.graphs.items()
        ),
        ["encode a query", f"{number(1000 * units.question, 1)} ms"],
        ["judge an answer", f"{number(1000 * units.trust, 1)} ms, whatever the size"],
        ["assumed: an H200 with its cores", f"{number(GPU_HOUR, 2)} dollars an hour"],
        ["assumed: a core", f"{number(CORE_HOUR, 2)} dollars an hour"],
        [
            "assumed: SSD, memory",
            f"{number(GIGABYTE_MONTH, 2)} and {number(MEMORY_MONTH, 2)} "
            "dollars a gigabyte and month",
        ],
        ["assumed: a catalogue", f"{number(CATALOGUE_BYTES)} bytes an item"],
    ]
    return figures.table(["what", "cost"], rows)


def sizes(units: Units) -> str:
    head = ["", *(f"{POWERS[size]} pictures" for size in SIZES)]
    hours = {size: size / units.decoded / 3600 for size in SIZES}
    gigabytes = {size: size * units.bytes / 1e9 for size in SIZES}
    stored = {size: size * (units.bytes + CATALOGUE_BYTES) / 1e9 for size in SIZES}
    machines = {size: max(1, -(-gigabytes[size] // (0.8 * MACHINE_GB))) for size in SIZES}
    # what is usual for an item is read for the best alone
    scan = {size: size * units.vector / units.scanned for size in SIZES}
    answer = units.question + units.trust
    rows = [
        ["vectors, GB, `float32`", *_row(lambda n: n * units.float_bytes / 1e9)],
        ["vectors, GB, `int8x256`", *_row(lambda n: gigabytes[n])],
        ["with the catalogue, GB", *_row(lambda n: stored[n])],
        ["GPU-hours to index", *_row(lambda n: hours[n], 1)],
        ["the same on 16 GPUs, hours", *_row(lambda n: hours[n] / 16, 1)],
        ["dollars to index", *_row(lambda n: hours[n] * GPU_HOUR)],
        [f"machines of {MACHINE_GB} GB that hold the vectors", *_row(lambda n: machines[n])],
        ["exact search: processor seconds a query", *_row(lambda n: scan[n], 1)],
        [
            f"seconds to an answer with {CORES} cores a machine, if the memory keeps up",
            *_row(lambda n: scan[n] / CORES / machines[n] + answer, 2),
        ],
        [
            "dollars for a million exact searches",
            *_row(lambda n: 1e6 * scan[n] / 3600 * CORE_HOUR),
        ],
        ["memory, dollars a month", *_row(lambda n: gigabytes[n] * MEMORY_MONTH)],
        ["SSD, dollars a month", *_row(lambda n: stored[n] * GIGABYTE_MONTH)],
    ]
    own = json.loads((packaged_folder() / "encoder.json").read_text())["dim"]
    for name, cell in units.graphs.items():
        graph_gb, made = cell["bytes_a_vector"] / 1e9, cell["build_s"] / GRAPH_OF / 3600
        rows += [
            [
                f"graph over 512 numbers in {name}, GB of disk",
                *_row(lambda n, each=graph_gb: n * each),
            ],
            [
                "the same, hours to make with 2 shared cores, in proportion",
                *_row(lambda n, each=made: n * each),
            ],
            [
                f"over the {number(own)} numbers of the default model in {name}, GB, "
                "in proportion",
                *_row(lambda n, each=graph_gb * own / MEASURED: n * each),
            ],
        ]
    return figures.table(head, rows)


def _row(value: Callable[[int], float], digits: int = 0) -> list[str]:
    return [number(value(size), digits) for size in SIZES]


def breaks(units: Units) -> list[list[str]]:
    float_gb = number(10**7 * units.float_bytes / 1e9)
    return [
        [
            "2 · 10⁵",
            "the trust: the shipped fit saw galleries of up to 57,089; beyond four times as "
            "many nothing is promised, and no verdict is “answer”",
            "`scripts/default_trust --larger` over an index of such a size",
        ],
        [
            "10⁷",
            f"the memory: {float_gb} GB of `float32`; then the catalogue in one SQLite file, "
            "which is read whole when an index is opened",
            "`--vectors int8x256`; PostgreSQL where several write",
        ],
        [
            "10⁸",
            "indexing on one machine, and exact search on one machine (seconds)",
            "several machines that index; a graph (PostgreSQL), or shards that each compare "
            "their part",
        ],
        [
            "10⁹",
            "one machine's memory for the vectors, and the time to read the pictures at all",
            "a Milvus cluster, on which nobody has run Avow yet; the judgement stays one, over "
            "merged similarities and one sample",
        ],
    ]


def commands() -> list[str]:
    return [
        "10⁷ on one machine:",
        figures.command(
            "pip install 'avow[fast]'",
            "avow index /archive --vectors int8x256",
            "avow serve",
        ),
        "10⁸ with PostgreSQL, into which several machines index and which several search:",
        figures.command(
            "export AVOW_PG_DSN=postgresql://db/avow",
            "avow index /archive/part --index postgres:archive --engine hnsw",
            "avow serve --index postgres:archive",
        ),
        "10⁹ with a Milvus cluster, which takes the same address as one server; not tried:",
        figures.command(
            "export AVOW_MILVUS_URI=http://cluster:19530",
            "avow index s3://archive --index milvus:archive --engine hnsw --ray auto",
            "avow serve --index milvus:archive",
        ),
    ]
