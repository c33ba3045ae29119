"""The page of indexing on several nodes and of training on several processes."""

from benchmarks.pages import figures
from benchmarks.pages.figures import number


def render() -> str:
    sections = {
        "ray_kills": ("Killed while indexing on Ray", kills),
        "ray_indexing": ("Rate of indexing on Ray", rates),
        "parallel_training": ("Two processes that train as one", training),
    }
    made = [name for name in sections if figures.exists(name)]
    parts = [
        part
        for name in made
        for part in (f"## {sections[name][0]}", sections[name][1](), COMMANDS[name])
    ]
    return figures.page(
        "Results: many machines",
        "How to do it: [indexing](../how-to/many-machines.md), "
        "[training](../how-to/several-gpus.md). All nodes and processes ran on one host.",
        *parts,
        figures.source(*made),
    )


COMMANDS = {
    "ray_kills": figures.command("python -m benchmarks.quality.ray_kills"),
    "ray_indexing": figures.command("python -m benchmarks.speed.ray_indexing FOLDER"),
    "parallel_training": figures.command("python -m benchmarks.quality.parallel_training"),
}


def kills() -> str:
    kept = figures.load("ray_kills")
    said = (
        f"A head and {kept['nodes']} nodes; the real command indexes pictures of tars and of a "
        "folder, with a broken one in every tar, "
        f"again and again. SIGKILL ended workers, whole nodes and the command in turn. Every "
        "index was compared with that of one process that nobody disturbed: the same items "
        "with the same numbers, vectors equal to the bit, the same list of broken files."
    )
    heads = ["killed", "workers", "nodes", "commands", "indexes", "equal"]
    row = [kept["kills"], *(kept[f"{kind}_kills"] for kind in ("worker", "node", "driver"))]
    row += [kept["rounds"], kept["equal_rounds"]]
    return f"{said}\n\n{figures.table(heads, [[str(cell) for cell in row]])}"


def rates() -> str:
    kept = figures.load("ray_indexing")
    cores = kept["machine"]["cores"]
    said = (
        f"{number(kept['files'])} photographs in tars of {kept['shard']}, the default model, "
        f"one core a worker, medians of {kept['rounds']} rounds in turn. The host has {cores} "
        f"cores, and its load before was {number(kept['load_before'])}: other programs took "
        "their share of them, so that the figures are far below what an idle machine gives, "
        "and a second node on the same cores cannot double them. What compares is the ratio."
    )
    rows = [
        ["one process", number(kept["process_per_second"], 1), ""],
        [
            "Ray, one node",
            number(kept["one_node_per_second"], 1),
            f"to one process: {_listed(kept['one_node_to_process'])}",
        ],
        [
            "Ray, two nodes",
            number(kept["two_nodes_per_second"], 1),
            f"to one node: {_listed(kept['two_to_one'])}",
        ],
    ]
    heads = ["way", "pictures a second", "ratio, round by round"]
    return f"{said}\n\n{figures.table(heads, rows)}"


def training() -> str:
    kept = figures.load("parallel_training")
    said = (
        f"SGR by TCL, {kept['epochs']} epochs with {kept['batch']} pairs a step in all, by "
        "torchrun and `train.gather=true`; nothing is drawn at random in a step. Batch "
        "normalisation sees the batch of all processes, or of each process alone. In 64 bits, "
        "two processes make the model of one. In 32 bits the last digits of sums differ "
        "with how a batch is divided, and Adam enlarges that from step to step. Weights are "
        "held against one process in the same number of bits."
    )
    names = {
        "one": "one process",
        "two": "two processes, gathered",
        "apart": "the same, statistics of each process alone",
        "one_double": "one process, 64 bits",
        "two_double": "two processes, gathered, 64 bits",
    }
    rows = [
        [
            name,
            ", ".join(number(loss, 5) for loss in kept["losses"][key]),
            number(kept["dev_rsum"][key], 1),
            f"{kept['worst_weight'][key]:.1e}",
        ]
        for key, name in names.items()
    ]
    heads = ["run", "loss of each epoch", "dev rSum", "largest difference of a weight"]
    return f"{said}\n\n{figures.table(heads, rows)}"


def _listed(values: list[float]) -> str:
    return ", ".join(number(value, 2) for value in values)
