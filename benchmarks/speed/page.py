"""How long a browser waits for the page: the first paint, on this machine, with nothing cached.

    python -m benchmarks.speed.page FOLDER --files 200

The server is a process of its own; every visit is a new browser context, so that scripts and
styles are fetched again. Needs playwright and a Chromium (AVOW_CHROMIUM, or on the PATH).
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from avow.cli.serve import listen
from benchmarks._report import commit, keep, sizes_parser
from benchmarks.speed.search_half import copied

WEB = Path(__file__).parents[2] / "avow" / "web"
PAINTS = "() => performance.getEntriesByType('paint').map((one) => [one.name, one.startTime])"


def main() -> None:
    parser = sizes_parser(__doc__, files=200, rounds=15)
    parser.add_argument("folder", type=Path, help="photographs")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        pictures = copied(chosen.folder, place / "pictures", chosen.files)
        index = str(place / "index")
        avow = [sys.executable, "-m", "avow"]
        subprocess.run([*avow, "index", str(pictures), "--index", index], check=True)
        with served([*avow, "serve", "--index", index]) as address:
            taken = [visit(address) for _ in range(chosen.rounds)]
    figures: dict[str, Any] = {
        "commit": commit(),
        "files": chosen.files,
        "rounds": chosen.rounds,
        "script_bytes": sum(file.stat().st_size for file in WEB.glob("*.js")),
        "first_paint_s": round(statistics.median(taken), 3),
        "first_paint_least_s": round(min(taken), 3),
        "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
    }
    for label, value in figures.items():
        print(f"{label}: {value}")
    print("->", keep("page", figures))


@contextmanager
def served(command: list[str]):
    """Start a server on a free port; the address, once it answers."""
    with listen("127.0.0.1", 0) as socket:
        port = socket.getsockname()[1]
    server = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"{address}/api/health", timeout=5).close()
                break
            except (urllib.error.URLError, TimeoutError):
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


def visit(address: str) -> float:
    """Seconds from asking for the page to its first paint with content."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("AVOW_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page()
        page.goto(address)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        paints = dict(page.evaluate(PAINTS))
        browser.close()
    return paints["first-contentful-paint"] / 1000


if __name__ == "__main__":
    main()
