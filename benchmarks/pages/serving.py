"""The page of servers that fail: what becomes of requests, answers and feedback."""

from benchmarks.pages import figures
from benchmarks.pages.figures import Document, number


def render() -> str:
    found = figures.load("topology")
    parts = [part for form in found["forms"] for part in _form(form)]
    return figures.page(
        "Results: serving by many",
        "Two servers (`avow serve`) open one store and stand behind a small proxy, which asks "
        "each of them twice a second whether it is ready. A search that failed goes to the "
        "other server; feedback is never sent twice, even where it cannot have arrived. "
        f"{found['clients']} clients search {found['pictures']} pictures and "
        "tick answers without a pause and never ask twice. Each fault lasts "
        f"{number(found['held_seconds'])} seconds and is then mended.",
        "A wrong answer is one whose verdict, items or probabilities differ from those before "
        "any fault. Feedback is lost where the server had said that it was kept and the store "
        "does not hold it. *Errors for* is the time from the first request that failed to the "
        "last; *ready again* the time from mending until both servers were ready, which for a "
        "server that was killed is the time of its start.",
        *parts,
        figures.command("python -m benchmarks.serving.topology FOLDER"),
        f"Servers, clients, database and proxy share {found['machine']['cores']} cores, whose "
        f"load was {number(found['load_before'], 1)} before the run.",
        "## Many clients of one server",
        "Searches by words that wait for their turn are answered in one pass, up to "
        "sixteen of them. Servers with and without that take turns; clients ask captions over "
        "HTTP, each again as soon as it is answered, from a process on the same "
        f"{figures.load('together')['machine']['cores']} cores. Beyond 1,000 photographs the "
        "vectors are drawn around theirs.",
        together(),
        figures.command("python -m benchmarks.speed.together"),
        figures.source("topology", "together"),
    )


def together() -> str:
    rows = figures.load("together")["rows"]
    found = {(r["vectors"], r["items"], r["clients"], r["way"]): r for r in rows}
    head = ["vectors", "items", "clients", "searches a second", "one by one", "ratio"]
    head += ["p50, ms", "one by one", "p99, ms", "one by one"]
    table = []
    for (vectors, items, clients, way), row in found.items():
        if way != "together":
            continue
        alone = found[vectors, items, clients, "one by one"]
        table.append(
            [
                f"`{vectors}`",
                number(items),
                str(clients),
                number(row["a_second"], 1),
                number(alone["a_second"], 1),
                number(row["a_second"] / alone["a_second"], 2),
                *(number(one[key]) for key in ("p50_ms", "p99_ms") for one in (row, alone)),
            ]
        )
    return figures.table(head, table)


def _form(form: Document) -> list[str]:
    head = ["fault", "requests", "wrong answers", "feedback kept / lost", "503", "other errors"]
    head += ["errors for", "ready again", "slowest answer"]
    store = "PostgreSQL" if form["store"].startswith("postgres:") else "one index folder"
    return [
        f"## {form['form'].capitalize()}, over {store}",
        figures.table(head, [_row(row) for row in form["rows"]]),
    ]


def _row(row: Document) -> list[str]:
    statuses = row["statuses"]
    other = sum(count for name, count in statuses.items() if name not in ("200", "503"))
    how = f" ({row['how']})" if row["how"] else ""
    return [
        f"{row['fault']}{how}",
        str(row["requests"]),
        str(row["wrong_answers"]),
        f"{row['ticks_acknowledged']} / {row['ticks_lost']}",
        str(statuses.get("503", 0)),
        str(other),
        f"{number(row['error_seconds'], 1)} s",
        f"{number(row['ready_again_after'], 1)} s",
        f"{number(row['worst_seconds'], 1)} s",
    ]
