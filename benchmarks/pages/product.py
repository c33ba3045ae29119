"""The page that puts Avow beside other programs that search one's own pictures."""

from benchmarks.pages import figures
from benchmarks.pages.figures import number

PROGRAMS = ["", "Avow", "rclip", "immich", "PhotoPrism"]
FEATURES = (
    "search by words | yes | yes | yes (smart search) | by labels, captions and metadata",
    "search by a picture | yes | yes | yes (similar photos) | no",
    "says when nothing fits | yes | no: the nearest are listed | no | "
    "no hit for an unknown label",
    "probability of each hit | yes | no: a similarity | no | no",
    "promised share of wrong answers | yes (`--risk`) | no | no | no",
    "learns from your ticks | yes | no | no | no",
    "moments inside videos | yes | no | no: one frame stands for a video | no",
    "people, places, albums, phones | no | no | yes | yes; phones by its web page",
    "runs as | one program, or a server | one program | "
    "several containers and a database | a server and a database",
    "JSON for programs, tools for agents | yes, yes | no, no | HTTP API | HTTP API",
)
"""Of the others as their documentation describes them."""


def render() -> str:
    return figures.page(
        "Results: beside other programs",
        "Programs that search the pictures on one's own machine. Avow was measured. "
        f"{others()} What they do is from their documentation of 2026. Where nothing was "
        "measured, no time or size is given: figures of another machine would not compare.",
        "## What they do",
        figures.table(PROGRAMS, [line.split(" | ") for line in FEATURES]),
        "## What Avow costs",
        waits(),
        "Processor time, because it hardly depends on what else the machine does; the load was "
        f"{number(figures.load('product')['load_before'])} on "
        f"{figures.load('product')['machine']['cores']} cores, with which it grows a little.",
        figures.command("python -m benchmarks.speed.product FOLDER"),
        "## How soon the page is there",
        paint(),
        figures.command("python -m benchmarks.speed.page FOLDER"),
        "## Size of a plain install, and memory",
        size(),
        figures.command(figures.load("rclip")["command"]),
        figures.source("product", "page", "search_half", "rclip"),
    )


def others() -> str:
    """What was measured of them, and what could not be."""
    rclip = figures.load("rclip")
    told = f"rclip {rclip['version']} was installed, and its packages were weighed."
    if not rclip["ran"]:
        told += " It fetches its model from a hub that could not be reached, so it was not run."
    return f"{told} immich and PhotoPrism, which come as containers, were not run."


def waits() -> str:
    kept = figures.load("product")
    rows = {
        "missing_index": "a missing index is told",
        "search": "one search from nothing (cold)",
        "similar": "`avow similar` from nothing",
        "status": "`avow status`",
    }
    table = [
        [
            name,
            f"{number(kept[f'{key}_cpu_s'], 2)} s",
        ]
        for key, name in rows.items()
    ]
    table += [
        ["a search of an open index (warm)", f"{number(kept['warm_cpu_ms'], 1)} ms"],
        [
            "the same, many at once (`search_many`)",
            f"{number(kept['many_cpu_ms_each'], 1)} ms each",
        ],
    ]
    rclip = figures.load("rclip")
    if rclip["ran"]:
        table.append(["one search by rclip (cold)", f"{number(rclip['search_cpu_s'], 2)} s"])
    heads = ["what", "processor time"]
    return figures.table(heads, table)


def paint() -> str:
    kept = figures.load("page")
    cores = kept["machine"]["cores"]
    rows = [
        ["scripts of the page", f"{number(kept['script_bytes'] / 1024)} KB"],
        ["first paint, nothing cached (least)", f"{number(kept['first_paint_least_s'], 2)} s"],
        ["first paint, nothing cached (median)", f"{number(kept['first_paint_s'], 2)} s"],
    ]
    table = figures.table(["what", "figure"], rows)
    return (
        f"{table}\n\nOver {kept['rounds']} visits on loopback, each by a browser that was just "
        f"started; the load was {number(kept['load_before'])} on {cores} cores, and "
        "the time on the wall grows with it. `tests/test_page_controls.py` limits the size of "
        "the scripts; a first paint within half a second on a machine that does nothing else "
        "is the aim."
    )


def size() -> str:
    kept, rclip = figures.load("search_half"), figures.load("rclip")
    rows = [
        ["packages of `pip install avow`, on disk", f"{number(kept['install_mb'], 0)} MB"],
        ["the same without compiled copies", f"{number(kept['install_without_pyc_mb'], 0)} MB"],
        ["of which weights of the model", f"{number(kept['weights_mb'], 0)} MB"],
        [
            "packages of `pip install rclip`, without compiled copies; its model comes later",
            f"{number(rclip['install_without_pyc_mb'], 0)} MB",
        ],
        ["memory of a server after some searches", f"{kept['after_server_mb']} MB"],
        ["a warm search over HTTP, p50", f"{number(kept['after_warm_search_p50_ms'], 1)} ms"],
    ]
    return figures.table(["what", "figure"], rows)
