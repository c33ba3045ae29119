"""The page of speed: searching, indexing, training and scoring, beside plain ways."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, fraction, number, percent

TIMES = "\N{MULTIPLICATION SIGN}"
SCORED = {
    "H200, float16": "speed_cuda_fp16",
    "H200, bfloat16": "speed_cuda_bf16",
    "H200, tf32": "speed_cuda_tf32",
    "H200, float32": "speed_cuda_fp32",
    "one core": "speed_cpu",
    "one core (IMRAM)": "speed_cpu_imram",
    "two cores": "speed_cpu_two",
}


def render() -> str:
    return figures.page(
        "Results: speed",
        "Each figure has a second one beside it, measured in the same call. The plain ways are "
        "written inside the benchmarks after what published systems do; they are not the "
        "published systems themselves.",
        "## Searching and indexing",
        figures.table(
            ["what", "figure", "beside it", "command"],
            [search(), exact(), indexing(), kills(), audit()],
        ),
        figures.source(
            "search_speed",
            "exact_search",
            "indexing",
            "index_kills",
            "audit_time",
            "audit_time_folds",
        ),
        "## The search half",
        "A plain install (`pip install avow`, without torch) beside the version before the two "
        "halves, in turn in one call.",
        search_half(),
        figures.command(
            "python -m benchmarks.speed.search_half FOLDER --base PYTHON --before CHECKOUT"
        ),
        figures.source("search_half"),
        "## Training and evaluating",
        figures.table(
            ["what", "figure", "beside it", "command"],
            [
                step("training_step"),
                step("training_step_bf16"),
                *batches(),
                *joint_batches(),
                features(),
                ranking(),
                dropout(),
                tail(),
            ],
        ),
        figures.source(
            "training_step",
            "training_step_bf16",
            "speed_cuda_tf32_train",
            "speed_cuda_bf16_train",
            "step_ratio_tf32",
            "step_ratio_bf16",
            "features",
            "evaluation",
            "mc_dropout",
            "tail",
        ),
        *scoring(),
        "What was tried on the way: [notes](../notes/speed.md).",
    )


def search_half() -> str:
    row = figures.load("search_half")
    told = [
        ("processor time of one cold search, s", "search_cpu_s", 2),
        ("memory of one cold search, MB", "search_mb", 0),
        ("a warm search of the server, p50, ms", "warm_search_p50_ms", 1),
        ("memory of the server, MB", "server_mb", 0),
        ("photographs indexed a second", "index_per_second", 1),
        ("memory of indexing, MB", "index_mb", 0),
    ]
    lines = [
        [name, *(number(row[f"{when}_{key}"], digits) for when in ("after", "before"))]
        for name, key, digits in told
    ]
    sizes = ", ".join(number(row[key], 0) for key in ("install_without_pyc_mb", "install_mb"))
    lines.append(["installed, MB, without and with compiled copies of the sources", sizes, ""])
    return figures.table(["", f"now, over {row['files']:,} pictures", "before"], lines)


def search() -> list[str]:
    document = figures.load("search_speed")
    server, whole = document["server"], document["whole"]
    parts = ", ".join(
        f"{number(server[key]['p50_ms'], 1)} {name}"
        for key, name in (("encode", "encoding"), ("rank", "ranking"), ("trust", "trust"))
    )
    return [
        f"one text search over {document['items']:,} pictures in the server, over HTTP",
        f"p50 {number(server['whole']['p50_ms'], 1)} ms, p95 "
        f"{number(server['whole']['p95_ms'], 1)}: {parts}",
        f"p50 {number(whole['p50_ms'], 1)} ms in the library",
        "`python -m benchmarks.speed.search_speed INDEX --server --quick`",
    ]


def exact() -> list[str]:
    row = figures.load("exact_search")
    return [
        f"exact search, one query over {row['rows']:,} {TIMES} {row['dim']}",
        f"{number(row['exact_ms'], 1)} ms",
        f"{number(row['numpy_pass_ms'], 1)} ms for one pass over the memory, "
        f"{number(row['faiss_flat_ms'], 0)} ms by Faiss flat",
        "`python -m benchmarks.speed.exact_search`",
    ]


def indexing() -> list[str]:
    row = figures.load("indexing")
    shares = ", ".join(fraction(share, 2) for share in sorted(row["shares"]))
    return [
        f"indexing photographs with the shipped model ({row['unchanged_files']:,} "
        f"again, unchanged: {number(row['unchanged_seconds'], 1)} s)",
        f"{number(row['indexed_per_second'], 0)} /s",
        f"{number(row['bare_per_second'], 0)} /s by the bare networks (rounds: {shares} of it)",
        "`python -m benchmarks.speed.indexing FOLDER`",
    ]


def kills() -> list[str]:
    row = figures.load("index_kills")
    return [
        f"indexing of {row['files']} files, {row.get('videos', 0)} of them videos, killed "
        f"{row['kills']} times",
        f"{row['lost']} lost, {row['left_over']} left over, {row['doubled']} "
        f"doubled, {row['wrong']} wrong",
        "",
        "`python -m benchmarks.quality.index_kills`",
    ]


def audit() -> list[str]:
    (run,), (folds,) = (
        figures.load(name)["rows"] for name in ("audit_time", "audit_time_folds")
    )
    return [
        f"auditing {run['pairs']:,} pairs from stored features",
        f"{number(run['seconds'], 0)} s by a trained run",
        f"{number(folds['seconds'], 0)} s with {folds['folds']} light models trained first",
        "`python -m benchmarks.quality.audit --time`",
    ]


def step(name: str) -> list[str]:
    row = figures.load(name)
    beside = [f"{number(row['plain_ms'], 0)} ms launched the plain way"]
    if "sorted_ms" in row:
        beside.append(f"{number(row['sorted_ms'], 1)} ms sorting what it pools")
    return [
        f"a TCL-VSE∞ training batch ({row['setting']}; batch {row['batch']}, "
        f"{row['precision']})",
        f"{number(row['ours_ms'], 1)} ms",
        ", ".join(beside),
        f"`python -m benchmarks.speed.training_step --precision {row['precision']}`",
    ]


def batches() -> list[list[str]]:
    rows = []
    for precision in ("tf32", "bf16"):
        document = figures.load(f"speed_cuda_{precision}_train")
        batch = document["setting"]["batch"]
        for method in ("sgr", "saf"):
            row = document["methods"][method]
            rows.append(
                [
                    f"a TCL-{method.upper()} training batch (two networks, batch "
                    f"{batch}, {precision})",
                    f"{number(row['ms_without_agreement'], 0)} ms without agreement steps",
                    f"{number(row['ms_with_three'], 0)} ms with three",
                    "`python -m benchmarks.speed.methods --device cuda --precision "
                    f"{precision} --train --only {method}`",
                ]
            )
    return rows


def joint_batches() -> list[list[str]]:
    """Training batches with kernels for learning, beside the way before them."""
    rows = []
    for precision in ("tf32", "bf16"):
        document = figures.load(f"step_ratio_{precision}")
        setting = document["setting"]
        for method, row in document["methods"].items():
            rows.append(
                [
                    f"a TCL batch of `{method}` with `train.kernels` and `train.whole_batches` "
                    f"(two networks, batch {setting['batch']}, T_max {setting['agreement']}, "
                    f"{precision})",
                    f"{number(row['whole']['ms'], 1)} ms, "
                    f"{number(row['whole']['peak_gib'], 1)} GiB",
                    f"{number(row['before']['ms'], 1)} ms and "
                    f"{number(row['before']['peak_gib'], 1)} GiB without; gradients differ by "
                    f"at most {row['gradients_apart']:.0e}",
                    f"`python -m benchmarks.speed.step_ratio {method} --precision {precision} "
                    "--check`",
                ]
            )
    return rows


def features() -> list[str]:
    row = figures.load("features")
    return [
        f"photographs to features, decoding included ({row['photographs']:,} of "
        f"{row['dataset']})",
        f"{number(row['per_second'], 0)} /s",
        f"{number(row['plain_per_second'], 0)} /s in a plain loop",
        f"`python -m benchmarks.speed.features {row['dataset']}`",
    ]


def ranking() -> list[str]:
    row = figures.load("evaluation")
    return [
        f"ranking {row['images']:,} images {TIMES} {row['texts']:,} texts both ways",
        f"{number(row['seconds'], 1)} s, "
        f"{number(row['above_embeddings_mb'] / 1000, 1)} GB above the vectors",
        f"{number(row['sorting_loop_seconds'], 1)} s with one sort per query",
        "`python -m benchmarks.speed.evaluation`",
    ]


def dropout() -> list[str]:
    row = figures.load("mc_dropout")
    return [
        f"MC-dropout, {row['passes']} passes over {row['images']:,} {TIMES} "
        f"{row['texts']:,} both ways, one core",
        f"{number(row['whole_s'], 1)} s of processor time",
        f"{number(row['evaluation_s'], 1)} s for one evaluation "
        f"({number(row['times_one_evaluation'], 2)} {TIMES})",
        "`python -m benchmarks.speed.mc_dropout --clock processor`",
    ]


def tail() -> list[str]:
    row = figures.load("tail")
    bound = row["bounds"]["skewed, with moments"]
    return [
        f"u of one query among {row['rows']:,} {TIMES} {row['dim']} from "
        f"{row['top']:,} best and a sample of {row['sample']:,}",
        f"{number(row['tail_processor_ms'], 1)} ms of processor time; the bound holds for "
        f"{percent(bound['holds'])} of queries, median width {percent(bound['width'], 1)} of u",
        f"{number(row['whole_gallery_ms'], 0)} ms over the whole gallery",
        f"`python -m benchmarks.speed.tail --rows {row['rows']}`",
    ]


def scoring() -> list[str]:
    rows = []
    for where, name in SCORED.items():
        document = figures.load(name)
        for method, row in document["methods"].items():
            rows.append([where, f"`{method}`", size(document["setting"]), *scored(row)])
    return [
        "## Scoring every pair",
        "All images against all captions from encoded items in the host's memory (the column "
        '"on the device" leaves the transfer out). The plain way is a loop over captions, '
        "scaled up. The last column is the share of the device's own matrix product rate.",
        figures.table(
            [
                "where",
                "method",
                f"images {TIMES} captions",
                "time",
                "on the device",
                "plain way",
                "ratio",
                "matrix rate",
            ],
            rows,
        ),
        figures.command(
            "python -m benchmarks.speed.methods --device cuda --precision fp16 --only sgr saf"
        ),
        figures.source(*SCORED.values()),
    ]


def size(setting: Document) -> str:
    return f"{setting['images']:,} {TIMES} {setting['captions']:,}"


def scored(row: Document) -> list[str]:
    return [
        seconds(row["seconds"]),
        seconds(row["resident"]),
        seconds(row["plain_seconds"]),
        f"{number(row['ratio'], 0)} {TIMES}"
        if row["ratio"] >= 10
        else f"{number(row['ratio'], 1)} {TIMES}",
        percent(row["fraction"]),
    ]


def seconds(value: float) -> str:
    return f"{number(1000 * value, 1)} ms" if value < 0.1 else f"{number(value, 2)} s"
